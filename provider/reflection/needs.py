"""Which dependents are needed, and by whom."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from provider.labels import DEPENDENTS
from provider.peering import home_uid_of
from vkubelet.interface import PodRef
from vkubelet.kube.objects import NamespacedName, ObjectMeta


class DependentKey(NamedTuple):
    """A ConfigMap or Secret of home."""

    kind: str
    namespace: str
    name: str

    @property
    def scope(self) -> tuple[str, str]:
        """What has to be watched to know it: the kind, in the namespace."""
        return self.kind, self.namespace

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Needs:
    """
    The needs of pods: of those that are being made, and of those that are there.

    A pod that is there has said itself what it needs, so that a restart knows it too; before it is,
    what it will need is noted under its UID.
    """

    def __init__(self, on_change: Callable[[DependentKey], None]) -> None:
        """
        Begin with none.

        Args:
            on_change: Called with what has become needed, or needed no more.
        """
        self._on_change = on_change
        self._coming: dict[str, tuple[PodRef, frozenset[DependentKey]]] = {}
        self._present: dict[str, tuple[PodRef, frozenset[DependentKey]]] = {}
        self._coming_by_key: dict[NamespacedName, str] = {}
        self._holders: dict[DependentKey, dict[str, int]] = {}
        self._scopes: dict[tuple[str, str], int] = {}

    def expect(self, ref: PodRef, keys: Iterable[DependentKey]) -> None:
        """Note what a pod needs that is about to be made."""
        self.keep_expected(ref.key, ref.uid)
        self._coming_by_key[ref.key] = ref.uid
        self._set(self._coming, ref, frozenset(keys))

    def set_present(self, ref: PodRef, keys: Iterable[DependentKey]) -> None:
        """Note what a pod needs that is there; what was expected of it is told by itself now."""
        self._set(self._present, ref, frozenset(keys))
        self._drop_expected(ref.uid)

    def extend_present(self, ref: PodRef, keys: Iterable[DependentKey]) -> None:
        """Note more that a pod needs that is there: an ephemeral container came to it."""
        if ref.uid in self._present:
            self._set(self._present, ref, self._present[ref.uid][1] | frozenset(keys))

    def keep_expected(self, key: NamespacedName, uid: str) -> None:
        """Expect no pod of that name but the one of that UID; "" for none."""
        known = self._coming_by_key.get(key)
        if known is not None and known != uid:
            self._drop_expected(known)

    def _drop_expected(self, uid: str) -> None:
        ref = self._drop(self._coming, uid)
        if ref is not None and self._coming_by_key.get(ref.key) == uid:
            del self._coming_by_key[ref.key]

    def drop_present(self, uid: str) -> None:
        """Note that a pod is gone."""
        self._drop(self._present, uid)

    def has_pod(self, uid: str) -> bool:
        """Whether a pod of home is there, or about to be made."""
        return uid in self._present or uid in self._coming

    def is_needed(self, key: DependentKey) -> bool:
        """Whether any pod needs it."""
        return key in self._holders

    def is_used(self, key: DependentKey) -> bool:
        """Whether any pod that is there needs it."""
        return any(
            uid in self._present and key in self._present[uid][1]
            for uid in self._holders.get(key, ())
        )

    def in_scope(self, scope: tuple[str, str]) -> list[DependentKey]:
        """Return what is needed of a kind in a namespace."""
        return [key for key in self._holders if key.scope == scope]

    def uses_scope(self, scope: tuple[str, str]) -> bool:
        """Whether anything of a kind in a namespace is needed."""
        return scope in self._scopes

    def _set(
        self,
        pods: dict[str, tuple[PodRef, frozenset[DependentKey]]],
        ref: PodRef,
        keys: frozenset[DependentKey],
    ) -> None:
        before = pods[ref.uid][1] if ref.uid in pods else frozenset()
        pods[ref.uid] = ref, keys
        for key in keys - before:
            self._add(key, ref.uid)
        for key in before - keys:
            self._remove(key, ref.uid)

    def _drop(
        self, pods: dict[str, tuple[PodRef, frozenset[DependentKey]]], uid: str
    ) -> PodRef | None:
        known = pods.pop(uid, None)
        if known is None:
            return None
        ref, keys = known
        for key in keys:
            self._remove(key, uid)
        return ref

    def _add(self, key: DependentKey, uid: str) -> None:
        holders = self._holders.get(key)
        if holders is None:
            holders = self._holders[key] = {}
            self._scopes[key.scope] = self._scopes.get(key.scope, 0) + 1
            self._on_change(key)
        holders[uid] = holders.get(uid, 0) + 1

    def _remove(self, key: DependentKey, uid: str) -> None:
        holders = self._holders[key]
        holders[uid] -= 1
        if not holders[uid]:
            del holders[uid]
        if not holders:
            del self._holders[key]
            self._scopes[key.scope] -= 1
            if not self._scopes[key.scope]:
                del self._scopes[key.scope]
            self._on_change(key)


def written_needs_of(metadata: ObjectMeta) -> tuple[str, str]:
    """Return whose needs a remote pod has written down, and as what."""
    return home_uid_of(metadata), metadata.annotations.get(DEPENDENTS, "")
