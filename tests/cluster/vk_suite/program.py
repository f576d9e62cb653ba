"""
The suite as a program, built once.

`python -m tests.cluster.vk_suite.program` (`make binaries`) builds it unless it's there.
"""

import os
import shutil
import sys
from pathlib import Path

from tests.cluster.binaries import build_cache_path, build_into_cache, report, run_tool
from tests.cluster.gobuild import GoBuild

VERSION = "1.14.1"

_PROGRAM = "virtual-kubelet-suite"
_MODULE = f"vkubelet.test/{_PROGRAM}"
_SOURCE = Path(__file__).with_name("main.go")


class SuiteMissingError(Exception):
    """It isn't there yet."""

    def __str__(self) -> str:
        return f"the suite of virtual-kubelet {VERSION} isn't built yet: run `make binaries`"


def _folder() -> Path:
    return build_cache_path(VERSION, _PROGRAM)


def _is_there() -> bool:
    return os.access(_folder() / _PROGRAM, os.X_OK)


def locate() -> Path:
    """
    Find the program; nothing is built.

    Raises:
        SuiteMissingError: If it isn't there.
    """
    if not _is_there():
        raise SuiteMissingError
    return _folder() / _PROGRAM


def _build(folder: Path) -> Path:
    shutil.copy(_SOURCE, folder)
    lines = [f"module {_MODULE}", "", "go 1.25.0", "", f"tool {_MODULE}", ""]
    lines += [f"require github.com/virtual-kubelet/virtual-kubelet v{VERSION}", ""]
    return GoBuild(folder, report, {_PROGRAM: _MODULE}).run("\n".join(lines))


def main() -> None:
    """Build it if it's missing, and print where it is."""
    if not _is_there():
        what = f"the suite of virtual-kubelet {VERSION}; from nothing this takes 2 minutes"
        build_into_cache(_folder(), what, _is_there, _build)
    print(f"virtual-kubelet suite {VERSION}:\n  {locate()}")


if __name__ == "__main__":
    sys.exit(run_tool(main))
