"""Bytecode for the image's Python, made by that Python itself."""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from image.errors import ImageError

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_LOADER = f"{_LIBRARIES}/ld-linux-x86-64.so.2"  # the link in /lib64 leads out of the folder


def compile_all(
    root: Path, python: str, folder: str, *, skip: Sequence[str] = ()
) -> Iterator[tuple[str, bytes]]:
    """
    Compile a folder of an extracted image, and yield path and contents of what came of it.

    The interpreter is run through its own loader: the machine needs no such Python. What it writes
    depends on the sources alone: no times, a fixed seed for the order of sets.

    Args:
        root: Where the image is.
        python: Minor version.
        folder: What is compiled, relative to the root.
        skip: Packages that are left out.

    Raises:
        ImageError: If a file can't be compiled.
    """
    command = [
        str(root / _LOADER),
        "--library-path",
        str(root / _LIBRARIES),
        str(root / f"usr/bin/python{python}"),
        "-B",  # what it imports itself would be written with times
        "-S",
        "-m",
        "compileall",
        "-f",
        "-q",
        "-j1",
        "--invalidation-mode=unchecked-hash",
        f"-s{root}",
        "-p/",
        *([f"-x/({'|'.join(map(re.escape, skip))})/"] if skip else ()),
        str(root / folder),
    ]
    environment = {
        "PATH": os.defpath,
        "PYTHONHOME": str(root / "usr"),
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise ImageError(f"the bytecode can't be made: {(done.stdout + done.stderr).strip()}")
    for file in sorted((root / folder).rglob("*.pyc")):
        yield str(file.relative_to(root)), file.read_bytes()
