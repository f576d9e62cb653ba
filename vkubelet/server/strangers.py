"""Connections of those who have shown no right so far, of all ports of the process together."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Stranger:
    """
    A connection without a request so far that its caller may make.

    Attributes:
        port: What it came by.
        cut_off: Ends it soon.
        held_bytes: What it has sent.
    """

    port: Hashable
    cut_off: Callable[[], object]
    held_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class Strangers:
    """
    Bounds what strangers hold of the process, however many ports they come by.

    A crowd at one port is at the cost of that port: where the crowd is largest the oldest yields,
    and of bytes who holds most.

    Attributes:
        max_strangers: At the same time.
        max_bytes: That they hold together.
    """

    max_strangers: int
    max_bytes: int
    _by_port: dict[Hashable, dict[Stranger, None]] = field(default_factory=dict)
    _count: int = 0
    _bytes: int = 0

    def add(self, stranger: Stranger) -> None:
        """Count a new one; another is cut off if there is no room."""
        while self._count >= self.max_strangers:
            crowd = max(self._by_port.values(), key=len)
            self._cut_off(next(iter(crowd)))
        self._by_port.setdefault(stranger.port, {})[stranger] = None
        self._count += 1

    def remove(self, stranger: Stranger) -> None:
        """Forget one that is known now, or gone; nothing happens if it's forgotten already."""
        crowd = self._by_port.get(stranger.port, {})
        if stranger not in crowd:
            return
        del crowd[stranger]
        if not crowd:
            del self._by_port[stranger.port]
        self._count -= 1
        self._bytes -= stranger.held_bytes

    def hold(self, stranger: Stranger, size: int) -> bool:
        """Count bytes of one; False if it has been cut off, for these or before."""
        if not self._has(stranger):
            return False
        stranger.held_bytes += size
        self._bytes += size
        while self._bytes > self.max_bytes:
            everybody = (one for crowd in self._by_port.values() for one in crowd)
            self._cut_off(max(everybody, key=lambda one: one.held_bytes))
        return self._has(stranger)

    def _has(self, stranger: Stranger) -> bool:
        return stranger in self._by_port.get(stranger.port, ())

    def _cut_off(self, stranger: Stranger) -> None:
        self.remove(stranger)
        stranger.cut_off()
