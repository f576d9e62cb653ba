"""
Start a program that dies with the process that started it: `python launch.py PARENT PROGRAM ARG…`.

A small launcher in between, as `preexec_fn` isn't safe beside threads. It needs nothing but the
standard library, so that Python starts it in a few milliseconds with `-I -S`.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def build_command(argv: Sequence[str | Path]) -> list[str]:
    """
    Build the command that runs `argv` and has it killed when the calling process dies.

    Linux sends the signal when the *thread* that started it ends. On other systems the program
    merely runs; the cluster's janitor ends it.

    Args:
        argv: The program, by its full path, and its arguments.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *map(str, argv)]


def main(parent: int, argv: Sequence[str]) -> None:
    """Become the program."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the signal was asked for
            sys.exit(1)
    try:
        os.execv(argv[0], list(argv))
    except OSError as error:
        sys.exit(f"{argv[0]}: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
