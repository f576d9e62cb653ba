"""Pins what is in the image: what Debian offers now, what requirements-lock.txt has."""

from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from image import containerfile, debian, requirements
from image.contents import Contents
from image.requirements import normalize

PROJECT = "vkubelet"
HEAD = "# Written by `make image-lock` from requirements-lock.txt: what the program needs.\n"


def find_needed(project: str = PROJECT) -> set[str]:
    """Find the packages that an installed one needs, directly or not; by normalized name."""
    found: set[str] = set()
    waiting = [project]
    while waiting:
        for name in _find_direct(waiting.pop()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def _find_direct(project: str) -> Iterator[str]:
    for text in distribution(project).requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield normalize(requirement.name)


def render_requirements(contents: Contents) -> str:
    """Render requirements.txt."""
    pins = requirements.read_lock()
    names = sorted(find_needed() - contents.unused)
    return HEAD + "".join(f"{pins[name].text}\n" for name in names)


def write_locks(contents: Contents, cache: Path) -> None:
    """
    Write both locks, and the Containerfile, which follows from the list.

    Raises:
        ImageError: If Debian's packages can't be found.
    """
    packages = debian.resolve(contents, cache)
    debian.LOCK.write_text(debian.render_lock(packages), encoding="utf-8")
    requirements.FILE.write_text(render_requirements(contents), encoding="utf-8")
    containerfile.FILE.write_text(containerfile.render(contents), encoding="utf-8")
