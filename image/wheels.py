"""Python packages: fetched by pip as the lock says, unpacked without being installed."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from image import requirements
from image.contents import PACKAGES, REPOSITORY, Contents
from image.errors import ImageError

PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
"""What runs with Debian 12's C library."""

_DATA_PARTS = ("purelib", "platlib")
_PROJECT_FILES = ("pyproject.toml", "README.md", "LICENSE")


def fetch(contents: Contents, cache: Path) -> list[Path]:
    """
    Fetch the wheels of requirements.txt, whose hashes pip checks, unless they are in the cache.

    Raises:
        ImageError: If pip can't.
    """
    options = _build_options(contents)
    mark = f"{options}{requirements.FILE.read_text(encoding='utf-8')}"
    folder = cache / "wheels" / hashlib.sha256(mark.encode()).hexdigest()[:16]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            target = Path(temporary) / "wheels"
            _run_pip("download", *options, f"--dest={target}")
            try:
                target.rename(folder)
            except OSError:
                if not folder.exists():  # else another build was first
                    raise
    return sorted(folder.glob("*.whl"))


def _build_options(contents: Contents) -> list[str]:
    return [
        "--require-hashes",
        "--no-deps",
        "--only-binary=:all:",
        f"--python-version={contents.python}",
        "--implementation=cp",
        f"--abi=cp{contents.python.replace('.', '')}",
        "--abi=abi3",
        "--abi=none",
        *(f"--platform={platform}" for platform in PLATFORMS),
        f"--requirement={requirements.FILE}",
    ]


def build_project(folder: Path) -> Path:
    """
    Build the project's own wheel, from a copy: what earlier builds left doesn't get in.

    Raises:
        ImageError: If it can't be built.
    """
    source = folder / "source"
    source.mkdir()
    for name in _PROJECT_FILES:
        shutil.copy(REPOSITORY / name, source)
    for name in PACKAGES:
        shutil.copytree(
            REPOSITORY / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    target = folder / "project"
    _run_pip("wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={target}", str(source))
    (wheel,) = target.glob("*.whl")
    return wheel


def read_files(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """Yield what a wheel puts where Python's packages are; scripts are left out."""
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            top, _, rest = info.filename.partition("/")
            if top.endswith(".data"):
                part, _, path = rest.partition("/")
                if part in _DATA_PARTS:
                    yield path, archive.read(info)
            else:
                yield info.filename, archive.read(info)


def _run_pip(command: str, *arguments: str) -> None:
    argv = [sys.executable, "-m", "pip", command, "--quiet", *arguments]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise ImageError(f"pip {command}: {errors[-1] if errors else done.stderr.strip()}")
