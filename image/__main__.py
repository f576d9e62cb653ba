"""
Builds the image: `python -m image build|root FILE|lock`.

build       the archive, into dist (make image)
root FILE   a tar of the image's files, for the Containerfile
lock        pin anew what is in it (make image-lock)
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from image import build, debian
from image.contents import REPOSITORY, Contents, read_contents
from image.errors import ImageError

USAGE = "usage: python -m image build | root FILE | lock"


def find_cache() -> Path:
    """Find the folder that keeps what is fetched."""
    given = os.environ.get("VKUBELET_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(given) if given else Path(base, "vkubelet")) / "image"


def build_image(contents: Contents) -> None:
    """Build the image into dist."""
    built = build.write(contents, _collect(contents), REPOSITORY / "dist")
    packed, unpacked = built.packed_bytes / 1e6, built.unpacked_bytes / 1e6
    _say(sys.stdout, f"{built.archive}: {packed:.0f} MB, unpacked {unpacked:.0f} MB")
    _say(sys.stdout, f"{contents.name}:{contents.version} {built.digest}")
    _say(sys.stdout, f"{built.sbom}")


def write_root(contents: Contents, file: Path) -> None:
    """Write all files of the image as a tar."""
    lower, *upper = _collect(contents).layers
    for layer in upper:
        lower.add_all(layer)
    file.write_bytes(lower.as_tar())


def _collect(contents: Contents) -> build.Files:
    debian.check_machine(contents)
    return build.collect(
        contents,
        debian.read_lock(),
        cache=find_cache(),
        report=lambda line: _say(sys.stderr, f"image: {line}"),
    )


def lock(contents: Contents) -> None:
    """Pin what is in the image."""
    debian.check_machine(contents)
    from image.lock import write_locks  # noqa: PLC0415 -- only it needs more than Python and pip

    write_locks(contents, find_cache())


def _say(stream: TextIO, line: str) -> None:
    stream.write(f"{line}\n")
    stream.flush()


def main(argv: Sequence[str]) -> int:
    """Run a command."""
    contents = read_contents()
    try:
        match argv:
            case ["build"]:
                build_image(contents)
            case ["root", file]:
                write_root(contents, Path(file))
            case ["lock"]:
                lock(contents)
            case _:
                _say(sys.stderr, USAGE)
                return 2
    except ImageError as error:
        _say(sys.stderr, f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
