"""A wall clock that jumps, for one program: a library that is loaded before it (needs gcc)."""

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")


class WallClock:
    """
    The wall clock of the programs that are started with its environment.

    Attributes:
        environment: What a program has to be started with.
        jumps: How often it jumped.
    """

    def __init__(self, library: Path, offset: Path) -> None:
        self._offset = offset
        self.environment = {"LD_PRELOAD": str(library), "WALL_CLOCK_OFFSET": str(offset)}
        self.jumps = 0

    def jump(self, seconds: int) -> None:
        """Have it be so many seconds off; 0: have it be right again."""
        with self._offset.open("r+b") as file:
            file.write(struct.pack("<q", seconds))
        self.jumps += 1


def build_wall_clock(folder: Path) -> WallClock | None:
    """Build one that is right as yet; None where there is no compiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    library, offset = folder / "clock.so", folder / "offset"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, _SOURCE, "-ldl"],
        check=True,
    )
    offset.write_bytes(struct.pack("<q", 0))
    return WallClock(library, offset)
