"""What is in the image: the one list that both ways to build it take."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
FOLDER = Path(__file__).parent
PACKAGES = ("vkubelet", "certs", "provider")
"""The project's own packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """
    The list.

    Attributes:
        name: Of the image.
        version: Of the project.
        labels: OCI's own keys, without the revision.
        user: UID:GID that it runs as.
        workdir: Where it starts; the only folder that it writes to.
        entrypoint: The program.
        command: Its arguments unless others are given.
        ports: Ports that it always has.
        environment: Variables.
        release: Debian release.
        base: The image that the Containerfile builds in.
        python: Minor version of Python.
        packages: Debian packages.
        excluded: Patterns of their files that are left out.
        kept: Patterns of those that aren't, all the same.
        site_packages: Where Python's packages are.
        python_excluded: Patterns of their files that are left out.
        unused: Python packages that are left out, though others name them.
        not_compiled: Packages without bytecode.
    """

    name: str
    version: str
    labels: Mapping[str, str]
    user: str
    workdir: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    ports: tuple[str, ...]
    environment: Mapping[str, str]
    release: str
    base: str
    python: str
    packages: tuple[str, ...]
    excluded: tuple[str, ...]
    kept: tuple[str, ...]
    site_packages: str
    python_excluded: tuple[str, ...]
    unused: frozenset[str]
    not_compiled: tuple[str, ...]

    @property
    def owner(self) -> tuple[int, int]:
        """UID and GID."""
        user, _, group = self.user.partition(":")
        return int(user), int(group)


def read_contents() -> Contents:
    """Read the list, and the project's version."""
    listed = _read_toml(FOLDER / "contents.toml")
    project = _read_toml(REPOSITORY / "pyproject.toml")["project"]
    image, debian, python = listed["image"], listed["debian"], listed["python"]
    labels = {
        "org.opencontainers.image.title": image["title"],
        "org.opencontainers.image.description": image["description"],
        "org.opencontainers.image.licenses": image["licenses"],
        "org.opencontainers.image.version": project["version"],
    }
    return Contents(
        name=image["name"],
        version=project["version"],
        labels=labels,
        user=image["user"],
        workdir=image["workdir"],
        entrypoint=tuple(image["entrypoint"]),
        command=tuple(image["command"]),
        ports=tuple(image["ports"]),
        environment=image["environment"],
        release=debian["release"],
        base=debian["base"],
        python=debian["python"],
        packages=tuple(debian["packages"]),
        excluded=tuple(debian["excluded"]),
        kept=tuple(debian["kept"]),
        site_packages=python["folder"],
        python_excluded=tuple(python["excluded"]),
        unused=frozenset(python["unused"]),
        not_compiled=tuple(python["not_compiled"]),
    )


def _read_toml(file: Path) -> dict[str, Any]:
    with file.open("rb") as opened:
        return tomllib.load(opened)
