"""Objects of the mock API server, and those who watch them."""

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import gmtime, strftime
from typing import Any, TypeAlias

import msgspec

from tests.bench.mock.http import Connection
from tests.fakes.api_objects import field_value, matches_labels

Key: TypeAlias = tuple[str, str]
"""Namespace ("" without one) and name."""

Body: TypeAlias = dict[str, Any]

_encode = msgspec.json.Encoder().encode
_EQUAL = re.compile(r"([\w./-]+)=([\w.:-]*)")
_UNEQUAL = re.compile(r"([\w./-]+)!=([\w.:-]*)")


@dataclass(slots=True)
class Stored:
    """An object and its bytes; a body isn't changed once it's stored."""

    body: Body
    raw: bytes


class Selector:
    """A label and a field selector, taken apart once."""

    def __init__(self, labels: str, fields: str) -> None:
        terms = [term for term in labels.split(",") if term]
        equal = [_EQUAL.fullmatch(term) for term in terms]
        self._equal = [(found[1], found[2]) for found in equal if found]
        self._labels = "" if len(self._equal) == len(terms) else labels
        self._fields: list[tuple[str, str, bool]] = []
        for term in filter(None, fields.split(",")):
            found = _UNEQUAL.fullmatch(term) or _EQUAL.fullmatch(term)
            assert found, f"no field selector: {term}"
            self._fields.append((found[1], found[2], "!=" not in term))

    def matches(self, body: Body) -> bool:
        """Whether it selects an object."""
        if self._labels:
            if not matches_labels(body, self._labels):
                return False
        elif self._equal:
            labels = body["metadata"].get("labels") or {}
            if any(labels.get(key) != value for key, value in self._equal):
                return False
        return all(
            (field_value(body, path) == value) == wanted for path, value, wanted in self._fields
        )


@dataclass(slots=True, eq=False)
class Watcher:
    """A watch, and which objects it has been told of."""

    connection: Connection
    namespace: str
    selector: Selector
    known: set[Key] = field(default_factory=set)


class Collection:
    """The objects of one resource."""

    def __init__(self, api_version: str, kind: str, next_version: Callable[[], int]) -> None:
        self.api_version = api_version
        self.kind = kind
        self.objects: dict[Key, Stored] = {}
        self.watchers: list[Watcher] = []
        self._next_version = next_version

    def put(self, key: Key, body: Body) -> Stored:
        """Store an object, new or in place of the one there, and tell of it."""
        version = self._next_version()
        old = self.objects.get(key)
        metadata: Body = {**body["metadata"], "resourceVersion": str(version)}
        if old is None:
            metadata.setdefault("uid", str(uuid.uuid4()))
            metadata.setdefault("creationTimestamp", format_now())
        whole = {
            **body,
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": metadata,
        }
        stored = self.objects[key] = Stored(whole, _encode(whole))
        self._tell(key, stored)
        return stored

    def remove(self, key: Key) -> Stored:
        """Remove an object and tell of it."""
        version = self._next_version()
        old = self.objects.pop(key)
        metadata = {**old.body["metadata"], "resourceVersion": str(version)}
        last = _encode({**old.body, "metadata": metadata})
        for watcher in self.watchers:
            if key in watcher.known:
                watcher.known.discard(key)
                watcher.connection.send_event(_line(b"DELETED", last))
        return old

    def select(self, namespace: str, selector: Selector) -> Iterator[tuple[Key, Stored]]:
        """Objects that a list or watch gets."""
        for key, stored in self.objects.items():
            if namespace in ("", key[0]) and selector.matches(stored.body):
                yield key, stored

    def watch(self, watcher: Watcher, *, initial: bool, version: int) -> None:
        """Begin a watch; without `initial` it goes on from what is there now."""
        self.watchers.append(watcher)
        watcher.connection.open_stream(lambda: self.watchers.remove(watcher))
        for key, stored in self.select(watcher.namespace, watcher.selector):
            watcher.known.add(key)
            if initial:
                watcher.connection.send_event(_line(b"ADDED", stored.raw))
        if initial:
            self.send_bookmark(watcher, version, initial_events_end=True)

    def send_bookmark(
        self, watcher: Watcher, version: int, *, initial_events_end: bool = False
    ) -> None:
        """Tell a watcher how far it is."""
        metadata: Body = {"resourceVersion": str(version)}
        if initial_events_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        bookmark = {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}
        watcher.connection.send_event(_line(b"BOOKMARK", _encode(bookmark)))

    def _tell(self, key: Key, stored: Stored) -> None:
        for watcher in self.watchers:
            if watcher.namespace not in ("", key[0]):
                continue
            if watcher.selector.matches(stored.body):
                kind = b"MODIFIED" if key in watcher.known else b"ADDED"
                watcher.known.add(key)
            elif key in watcher.known:
                watcher.known.discard(key)
                kind = b"DELETED"
            else:
                continue
            watcher.connection.send_event(_line(kind, stored.raw))


def _line(kind: bytes, raw: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind, raw)


def format_now() -> str:
    """The time as the API writes it."""
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime())
