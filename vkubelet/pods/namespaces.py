"""Which home namespaces are reflected."""

import asyncio
from collections.abc import Callable
from typing import NoReturn

from vkubelet.config import NamespaceFilter
from vkubelet.kube.client import KubeClient
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import NAMESPACES, CachedObject, NamespacedName, decode_cached


class ReflectedNamespaces:
    """A NamespaceFilter at work; Namespace objects are watched only if it has a selector."""

    def __init__(self, client: KubeClient, namespaces: NamespaceFilter) -> None:
        self._filter = namespaces
        self._informer: Informer[CachedObject] | None = None
        if namespaces.selector and not namespaces.everything:
            self._informer = Informer(
                client, NAMESPACES, decode_cached, label_selector=namespaces.selector
            )

    @property
    def synced(self) -> bool:
        """Whether `reflects` can be asked."""
        return self._informer is None or self._informer.synced

    async def wait_synced(self) -> None:
        """Wait until `reflects` can be asked."""
        if self._informer is not None:
            await self._informer.wait_synced()

    def add_handler(self, handler: Callable[[str], None]) -> None:
        """Have a function called with a namespace that came under the selector or left it."""
        if self._informer is None:
            return

        def handle(old: CachedObject | None, new: CachedObject | None) -> None:
            changed = old if new is None else new
            if changed is not None and (old is None or new is None):
                handler(changed.metadata.name)

        self._informer.add_handler(handle)

    def reflects(self, namespace: str) -> bool:
        """Whether pods of the namespace are reflected."""
        if self._filter.names_namespace(namespace):
            return True
        if self._informer is None or not self._filter.may_include(namespace):
            return False
        return self._informer.store.get(NamespacedName("", namespace)) is not None

    async def run(self) -> NoReturn:
        """Follow the namespaces until cancelled."""
        if self._informer is not None:
            await self._informer.run()
        await asyncio.Event().wait()
        raise AssertionError("nothing sets that event")
