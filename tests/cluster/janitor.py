"""
Clean up after a test process that died: `python janitor.py FOLDER`, with a pipe from it as stdin.

Each line of the pipe is `+PID` (a process group was started) or `-PID` (it has ended). When the
pipe closes, the groups that are left are killed and the folder is removed. Nothing but the
standard library is needed.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

_GONE_TIMEOUT_SECONDS = 2.0  # where nobody reaps orphans they stay, as zombies


def kill_groups(groups: Iterable[int]) -> None:
    """Kill process groups and wait until they are gone."""
    deadline = time.monotonic() + _GONE_TIMEOUT_SECONDS
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < deadline:
                os.killpg(group, 0)
                time.sleep(0.02)


def main(folder: Path) -> None:
    """Follow the pipe, then clean up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        pid = int(line[1:])
        if line.startswith("+"):
            groups.add(pid)
        else:
            groups.discard(pid)
    kill_groups(groups)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
