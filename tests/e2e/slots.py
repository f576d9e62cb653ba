"""
Slots of this machine for real nodes: names, addresses and control groups that belong together.

A slot is taken by a lock that ends with its process, however that ends. Who takes a slot cleans up
what its last holder left: the slot's number is the mark by which ours is known.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

from tests.cluster.errors import ClusterError

SLOTS = 32
_LOCKS = Path("/run/lock/vkubelet-e2e")
_NAME = "vkubelet-e2e"
_CLEAN_TIMEOUT_SECONDS = 10.0


class Slot:
    """A slot that is ours until it's closed or this process ends."""

    def __init__(self, number: int, lock: IO[str]) -> None:
        self.number = number
        self._lock = lock

    @classmethod
    def take(cls) -> Self:
        """
        Take a free slot; leftovers in it and in all other free ones are removed.

        Raises:
            ClusterError: If all are taken.
        """
        free = list(cls._lock_free())
        if not free:
            raise ClusterError(f"all {SLOTS} slots for real nodes are taken")
        for slot in free:
            slot.clean()
        for slot in free[1:]:
            slot.close()
        return free[0]

    @classmethod
    def _lock_free(cls) -> Iterator[Self]:
        _LOCKS.mkdir(parents=True, exist_ok=True)
        for number in range(SLOTS):
            lock = (_LOCKS / f"{number}.lock").open("w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
            else:
                yield cls(number, lock)

    @property
    def cgroup(self) -> str:
        """The control group of the node's pods, in each hierarchy."""
        return f"{_NAME}-{self.number}"

    @property
    def link(self) -> str:
        """The machine's end of the node's network link."""
        return f"vke2e{self.number}"

    @property
    def host_address(self) -> str:
        """The machine, as the node sees it (198.18.0.0/15 is reserved for tests by RFC 2544)."""
        return f"198.18.{self.number}.1"

    @property
    def node_address(self) -> str:
        """The node's address."""
        return f"198.18.{self.number}.2"

    @property
    def pod_range(self) -> str:
        """Addresses of the node's pods."""
        return f"198.19.{self.number}.0/24"

    def make_cgroups(self) -> None:
        """Make the control group in each hierarchy that the kubelet looks at."""
        for hierarchy in _find_hierarchies("cgroup") or _find_hierarchies("cgroup2"):
            group = hierarchy / self.cgroup
            group.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):  # v1: empty, and nothing can run in it
                if (hierarchy / name).exists():
                    (group / name).write_text((hierarchy / name).read_text())

    def clean(self) -> None:
        """Remove control groups, with what runs in them, and the link, if they are there."""
        # With v1, runc makes it in a unified hierarchy beside the others too.
        for hierarchy in _find_hierarchies("cgroup", "cgroup2"):
            _remove_cgroup(hierarchy / self.cgroup)
        if Path("/sys/class/net", self.link).exists():
            subprocess.run(["ip", "link", "delete", self.link], check=False, capture_output=True)

    def close(self) -> None:
        """Give the slot back."""
        self._lock.close()


def _find_hierarchies(*kinds: str) -> list[Path]:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(mount[1]) for mount in mounts if mount[2] in kinds]


def _remove_cgroup(top: Path) -> None:
    """
    Kill what is in a control group and remove it.

    Raises:
        ClusterError: If it can't be removed in time.
    """
    deadline = time.monotonic() + _CLEAN_TIMEOUT_SECONDS
    while top.exists():
        groups = [Path(folder) for folder, _, _ in os.walk(top, topdown=False)]
        for group in groups:
            with contextlib.suppress(OSError):
                for pid in map(int, (group / "cgroup.procs").read_text().split()):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                group.rmdir()
        if top.exists():
            if time.monotonic() > deadline:
                raise ClusterError(f"the control group {top} can't be removed")
            time.sleep(0.05)
