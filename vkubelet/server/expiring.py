"""A bounded cache whose entries expire, for the answers of the API server's reviews."""

import asyncio
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """Values by key until their time is over; the least recently used yields when it's full."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of a key, None without a valid one."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        expires, value = entry
        if expires <= asyncio.get_running_loop().time():
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, seconds: float) -> None:
        """Keep a value for a time."""
        self._entries[key] = (asyncio.get_running_loop().time() + seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
