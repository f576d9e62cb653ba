"""
Kill what belongs to a container, whatever it forked.

A container's processes are known by a variable in their environment, which children inherit:
sessions and process groups of their own don't hide them. `python reaper.py MARKER`, with a pipe of
the process nodes as stdin, kills what they leave behind when they die. Nothing but the standard
library is needed.
"""

import contextlib
import os
import signal
import sys
from pathlib import Path

MARKER_VARIABLE = "PROCESS_NODE_CONTAINER"

# What is forked while the list is read is found in the next round.
_ROUNDS = 10


def find_marked(marker: str) -> list[int]:
    """Find the live processes whose marker starts with this one."""
    needle = f"\0{MARKER_VARIABLE}={marker}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if needle in b"\0" + (folder / "environ").read_bytes():
                    found.append(int(folder.name))
    return found


def kill_marked(marker: str) -> None:
    """Kill them."""
    for _ in range(_ROUNDS):
        pids = find_marked(marker)
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def main(marker: str) -> None:
    """Wait for the end of the pipe, then kill."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdin.read()
    kill_marked(marker)


if __name__ == "__main__":
    main(sys.argv[1])
