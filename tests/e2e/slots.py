"""
Slots of this machine for real nodes: names, addresses and control groups that belong together.

A slot is taken by a lock. A janitor of its own holds that too, outlives this process if that is
killed, and cleans up. Should the janitor be killed as well, whoever takes a slot next does it: the
slot's number is the mark by which ours is known.
"""

import contextlib
import errno
import fcntl
import subprocess
import sys
from pathlib import Path
from typing import IO, Self

from tests.cluster.errors import ClusterError
from tests.e2e import slot_janitor
from tests.e2e.slot_janitor import find_hierarchies

SLOTS = 32
_LOCKS = Path("/run/lock/vkubelet-e2e")
_NAME = "vkubelet-e2e"
_JANITOR_TIMEOUT_SECONDS = 60.0


class Slot:
    """A slot that is ours until it's closed or this process ends."""

    def __init__(self, number: int, lock: IO[str]) -> None:
        self.number = number
        self._lock = lock
        self._janitor: subprocess.Popen[str] | None = None

    @classmethod
    def take(cls) -> Self:
        """
        Take a free slot; leftovers in it and in all other free ones are removed.

        Raises:
            ClusterError: If all are taken, or one can't be cleaned.
        """
        taken: Self | None = None
        for number in range(SLOTS):
            if (slot := cls._lock_free(number)) is None:
                continue
            try:
                slot_janitor.clean(slot.cgroup, slot.link)
            except TimeoutError as error:
                slot.close()
                raise ClusterError(str(error)) from error
            if taken is None:
                taken = slot
            else:
                slot.close()
        if taken is None:
            raise ClusterError(f"all {SLOTS} slots for real nodes are taken")
        taken._start_janitor()
        return taken

    @classmethod
    def _lock_free(cls, number: int) -> Self | None:
        _LOCKS.mkdir(parents=True, exist_ok=True)
        lock = (_LOCKS / f"{number}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        return cls(number, lock)

    def _start_janitor(self) -> None:
        self._janitor = subprocess.Popen(
            [sys.executable, "-I", "-S", slot_janitor.__file__, self.cgroup, self.link],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[self._lock.fileno()],
            start_new_session=True,
            text=True,
        )

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
        """
        Make the control group in each hierarchy that the kubelet looks at.

        Raises:
            ClusterError: If they can't be made.
        """
        try:
            self._make_cgroups()
        except OSError as error:
            raise ClusterError(f"control groups can't be made: {error}") from error

    def _make_cgroups(self) -> None:
        v1 = find_hierarchies("cgroup")
        for hierarchy in v1 or find_hierarchies("cgroup2"):
            if not v1:
                divide_hierarchy(hierarchy)
            group = hierarchy / self.cgroup
            group.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):  # v1: empty, and nothing can run in it
                if (hierarchy / name).exists():
                    (group / name).write_text((hierarchy / name).read_text())

    def close(self) -> None:
        """
        Have everything of the slot removed, and give it back.

        Raises:
            ClusterError: If something can't be removed.
        """
        janitor, self._janitor = self._janitor, None
        try:
            if janitor is not None:
                _, said = janitor.communicate(
                    slot_janitor.GOODBYE, timeout=_JANITOR_TIMEOUT_SECONDS
                )
                if janitor.returncode != 0:
                    raise ClusterError(f"slot {self.number} isn't clean: {said.strip()}")
        finally:
            self._lock.close()


def divide_hierarchy(hierarchy: Path) -> None:
    """
    Let control groups of the unified hierarchy have all controllers.

    A group can't both be divided and hold processes, which a container's own group does: they are
    moved into a child of it, and stay there.
    """
    available = (hierarchy / "cgroup.controllers").read_text().split()
    control = hierarchy / "cgroup.subtree_control"
    missing = " ".join(f"+{name}" for name in available if name not in control.read_text().split())
    if not missing:
        return
    try:
        control.write_text(missing)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        child = hierarchy / "init"
        child.mkdir(exist_ok=True)
        for pid in (hierarchy / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):  # ended, or a kernel thread
                (child / "cgroup.procs").write_text(pid)
        control.write_text(missing)
