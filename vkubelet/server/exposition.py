"""Prometheus' text format, version 0.0.4."""

from collections.abc import Iterable
from datetime import datetime

from aiohttp import web

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Exposition:
    """Families of metrics, in the order in which they were added; empty ones are left out."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._head: tuple[str, ...] = ()
        self._name = ""

    def start_family(self, name: str, kind: str, description: str) -> None:
        """Begin a family: samples that are added from now on are of it."""
        self._name = name
        self._head = (f"# HELP {name} {description}", f"# TYPE {name} {kind}")

    def add(
        self,
        value: float,
        labels: Iterable[tuple[str, str]] = (),
        *,
        time: datetime | None = None,
    ) -> None:
        """Add a sample; with a time it's not that of the scrape."""
        self._lines += self._head
        self._head = ()
        pairs = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels)
        braces = f"{{{pairs}}}" if pairs else ""
        stamp = f" {round(time.timestamp() * 1000)}" if time is not None else ""
        self._lines.append(f"{self._name}{braces} {value!r}{stamp}")

    def serialize(self) -> bytes:
        """Return the whole text."""
        return "".join(f"{line}\n" for line in self._lines).encode()


def respond_exposition(body: bytes) -> web.Response:
    """Answer a scrape."""
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})
