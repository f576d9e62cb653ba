"""The Python packages that the program needs, with hashes: a part of requirements-lock.txt."""

import re
from dataclasses import dataclass

from image.contents import FOLDER, REPOSITORY

LOCK = REPOSITORY / "requirements-lock.txt"
FILE = FOLDER / "requirements.txt"
BUILDER = "setuptools"
"""What builds the project's wheel."""


@dataclass(frozen=True, slots=True)
class Pin:
    """
    One package.

    Attributes:
        name: Its normalized name.
        version: Its version.
        text: The whole entry, with its hashes.
    """

    name: str
    version: str
    text: str


def normalize(name: str) -> str:
    """Normalize the name of a package as PyPI does."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_pins(text: str) -> dict[str, Pin]:
    """Parse requirements with hashes, by name."""
    entries = re.findall(r"^[A-Za-z0-9].*(?:\n    --hash=.*)*", text, re.MULTILINE)
    pins = (_parse_entry(entry) for entry in entries)
    return {pin.name: pin for pin in pins}


def _parse_entry(entry: str) -> Pin:
    name, _, version = entry.partition("\\")[0].partition(";")[0].strip().partition("==")
    return Pin(normalize(name), version.strip(), entry)


def read_lock() -> dict[str, Pin]:
    """Read all that the project and its tools need, by name."""
    return parse_pins(LOCK.read_text(encoding="utf-8"))


def read_pins() -> list[Pin]:
    """Read what the program needs, by name."""
    pins = parse_pins(FILE.read_text(encoding="utf-8"))
    return [pins[name] for name in sorted(pins)]
