"""
Clean a slot up when its holder ends: `python slot_janitor.py CGROUP LINK`, with a pipe as stdin.

When the pipe closes, however that comes, what runs in the control group is killed, and the group
and the network link are removed. A holder that says goodbye first has ended all that it ran; else
kubelets may live on for a moment, and make the groups again: those are awaited. Nothing but the
standard library is needed.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_TIMEOUT_SECONDS = 10.0
_POLL_SECONDS = 0.05
_AFTERMATH_SECONDS = 30.0
GOODBYE = "goodbye"


def find_hierarchies(*kinds: str) -> list[Path]:
    """Find where control groups of these kinds (`cgroup`, `cgroup2`) are mounted."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(mount[1]) for mount in mounts if mount[2] in kinds]


def clean(cgroup: str, link: str) -> None:
    """
    Remove control groups of a name, with what runs in them, and a network link.

    Raises:
        TimeoutError: If one can't be removed in time; the text names it.
    """
    # With v1, runc makes it in a unified hierarchy beside the others too.
    for hierarchy in find_hierarchies("cgroup", "cgroup2"):
        _remove_cgroup(hierarchy / cgroup)
    if Path("/sys/class/net", link).exists():
        subprocess.run(["ip", "link", "delete", link], check=False, capture_output=True)


def _remove_cgroup(top: Path) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while top.exists():
        for group in _walk(top):
            _kill(group)
            with contextlib.suppress(OSError):
                group.rmdir()
        if top.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the control group {top} can't be removed")
            time.sleep(_POLL_SECONDS)


def _walk(top: Path) -> Iterator[Path]:
    return (Path(folder) for folder, _, _ in os.walk(top, topdown=False))


def _kill(group: Path) -> None:
    with contextlib.suppress(OSError):  # it's gone meanwhile
        for pid in map(int, (group / "cgroup.procs").read_text().split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def main(cgroup: str, link: str) -> None:
    """Wait for the holder's end, then clean up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    goodbye = sys.stdin.read()
    deadline = time.monotonic() + (0 if goodbye == GOODBYE else _AFTERMATH_SECONDS)
    try:
        clean(cgroup, link)
        while time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            clean(cgroup, link)
    except TimeoutError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
