"""Our own remote pods, followed in the whole cluster or, with lesser rights, in some namespaces."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from vkubelet.kube.client import KubeClient
from vkubelet.kube.informer import FailureHandler, Handler, Informer
from vkubelet.kube.objects import PODS, CachedObject, NamespacedName
from vkubelet.kube.trimmed import decode_trimmed_pod
from vkubelet.supervision import run_component

FailureHandlers = Callable[[str], FailureHandler]
"""Gives a failure handler under a name of its own."""


class FollowedPods:
    """
    One Informer over the cluster, or one a namespace, seen as one.

    Attributes:
        namespaces: Where pods are followed; none: everywhere.
        label_selector: Selects them.
    """

    def __init__(
        self, client: KubeClient, *, label_selector: str, namespaces: Sequence[str] = ()
    ) -> None:
        self.namespaces = tuple(dict.fromkeys(namespaces))
        self.label_selector = label_selector
        self._informers: dict[str, Informer[CachedObject]] = {
            namespace: Informer(
                client, PODS, decode_trimmed_pod, namespace=namespace, label_selector=label_selector
            )
            for namespace in self.namespaces or ("",)
        }

    def get(self, key: NamespacedName) -> CachedObject | None:
        """The pod of that key as far as it's known."""
        informer = self._informers.get(key.namespace if self.namespaces else "")
        return None if informer is None else informer.store.get(key)

    def __iter__(self) -> Iterator[CachedObject]:
        for informer in self._informers.values():
            yield from informer.store

    @property
    def synced(self) -> bool:
        """Whether all of them have been known once."""
        return all(informer.synced for informer in self._informers.values())

    async def wait_synced(self) -> None:
        """Wait until all of them are known for the first time."""
        for informer in self._informers.values():
            await informer.wait_synced()

    def add_handler(self, handler: Handler[CachedObject]) -> None:
        """Register a handler, as an Informer takes it."""
        for informer in self._informers.values():
            informer.add_handler(handler)

    def report_failures(self, handlers: FailureHandlers) -> None:
        """Have failures of list and watch told."""
        for namespace, informer in self._informers.items():
            informer.add_failure_handler(handlers(f"pods {namespace}".strip()))

    async def run(self) -> NoReturn:
        """Keep in step until cancelled."""
        async with asyncio.TaskGroup() as group:
            for namespace, informer in self._informers.items():
                name = f"remote pods {namespace}".strip()
                group.create_task(run_component(name, informer.run), name=name)
        raise AssertionError("the tasks above end only by an exception")
