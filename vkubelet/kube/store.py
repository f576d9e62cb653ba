"""The read-only view of a collection that an Informer keeps."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeAlias, TypeVar

from vkubelet.kube.objects import HasMetadata, NamespacedName

T = TypeVar("T", bound=HasMetadata)

Indexers: TypeAlias = Mapping[str, Callable[[T], Iterable[str]]]
"""By name of the index, what gives an object's values in it. Pure: it's asked again at removal."""


class Store(Generic[T]):
    """Objects by key, with indexes; values are never mutated."""

    def __init__(self, indexers: Indexers[T] | None = None) -> None:
        self._objects: dict[NamespacedName, T] = {}
        self._indexers = dict(indexers or {})
        self._indexes: dict[str, dict[str, dict[NamespacedName, T]]] = {
            name: {} for name in self._indexers
        }

    def get(self, key: NamespacedName) -> T | None:
        """The object of that key, None if there is none."""
        return self._objects.get(key)

    def by_index(self, index: str, value: str) -> Iterable[T]:
        """
        Objects whose indexer named `index` gave `value`, as they are at this moment.

        Raises:
            KeyError: If there is no such index.
        """
        return tuple(self._indexes[index].get(value, {}).values())

    def keys(self) -> Iterable[NamespacedName]:
        """All keys, as they are at this moment."""
        return tuple(self._objects)

    def __contains__(self, key: NamespacedName) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)


class MutableStore(Store[T]):
    """A Store that can be written; only who fills it holds it as this."""

    def put(self, item: T) -> T | None:
        """
        Add or replace an object and return what was there.

        An indexer that raises leaves the Store as it was.
        """
        key = item.metadata.key
        values = {name: tuple(indexer(item)) for name, indexer in self._indexers.items()}
        before = self.remove(key)
        self._objects[key] = item
        for name, its_values in values.items():
            for value in its_values:
                self._indexes[name].setdefault(value, {})[key] = item
        return before

    def remove(self, key: NamespacedName) -> T | None:
        """Remove an object and return it, None if it wasn't there."""
        before = self._objects.pop(key, None)
        if before is not None:
            for name, indexer in self._indexers.items():
                for value in indexer(before):
                    self._unindex(name, value, key)
        return before

    def _unindex(self, name: str, value: str, key: NamespacedName) -> None:
        """Take a key out of an index; a value without keys is forgotten."""
        keys = self._indexes[name].get(value)
        if keys is not None:
            keys.pop(key, None)
            if not keys:
                del self._indexes[name][value]
