"""The home pods on our nodes, followed for a set of nodes that changes."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from typing import NoReturn, TypeAlias

import msgspec

from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import KubeError
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import (
    PODS,
    CachedObject,
    NamespacedName,
    ObjectMeta,
    encode_object,
)
from vkubelet.kube.trimmed import trim_pod
from vkubelet.pods.decide import MIRROR_ANNOTATION, PodKind
from vkubelet.supervision import run_component

logger = logging.getLogger(__name__)

MAX_NODES_APART = 16
"""Nodes up to which the pods of each are asked for apart: field selectors have no set form."""

Handler: TypeAlias = Callable[[NamespacedName], None]
"""Called with the key of a pod that came, changed or went. Sync, quick, must not raise."""


class HomePod(CachedObject, frozen=True, kw_only=True, gc=False):
    """
    A pod on one of our nodes; `raw` lacks managedFields, and is empty on nodes that aren't ours.

    Attributes:
        node: Its node.
        digest: Of what is applied behind: spec, labels, annotations; for this process only.
    """

    node: str
    digest: int = 0


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Identity(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str


class _Outline(msgspec.Struct):
    metadata: _Identity
    spec: _Spec


_decode_outline = msgspec.json.Decoder(_Outline).decode


def decode_home_pod(raw: bytes) -> HomePod:
    """Decode a pod in full."""
    pod = trim_pod(raw)
    metadata = pod.read_metadata()
    labels = tuple(sorted(metadata.labels.items()))
    annotations = tuple(sorted(metadata.annotations.items()))
    return HomePod(
        metadata=metadata,
        node=msgspec.json.decode(pod.spec, type=_Spec).node_name,
        digest=hash((bytes(pod.spec), labels, annotations)),
        raw=pod.encode(),
    )


def kind_of(pod: HomePod) -> PodKind:
    """How a pod came to its node."""
    if MIRROR_ANNOTATION in pod.metadata.annotations:
        return PodKind.MIRROR
    owner = pod.metadata.controller
    if owner is not None and owner.kind == "DaemonSet":
        return PodKind.DAEMON_SET
    return PodKind.ORDINARY


class HomePods:
    """
    A read-only view of the pods on our nodes; `run` keeps it in step with the API server.

    Up to MAX_NODES_APART nodes are watched one by one, more by a single watch over all bound pods,
    from which those on other nodes are dropped while decoding.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._nodes: frozenset[str] = frozenset()
        self._pods: dict[NamespacedName, HomePod] = {}
        self._by_node: dict[str, dict[NamespacedName, HomePod]] = {}
        self._handlers: list[Handler] = []
        self._sources: dict[str, _Source] = {}
        self._work = asyncio.Event()
        self._synced = asyncio.Event()
        self._has_nodes = False

    def add_handler(self, handler: Handler) -> None:
        """Register a handler; to be done before `run`."""
        self._handlers.append(handler)

    def set_nodes(self, nodes: Collection[str]) -> None:
        """Follow the pods of these nodes; until the first call nothing is synced."""
        wanted = frozenset(nodes)
        if self._has_nodes and wanted == self._nodes:
            return
        if not self._has_nodes or wanted - self._nodes:
            self._synced.clear()
        self._has_nodes = True
        self._nodes = wanted
        self._work.set()

    @property
    def synced(self) -> bool:
        """Whether all pods of all nodes are known."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until all pods of all nodes are known."""
        await self._synced.wait()

    def get(self, key: NamespacedName) -> HomePod | None:
        """The pod of that key if it's on one of our nodes."""
        return self._pods.get(key)

    def find(self, node_name: str, namespace: str, name: str) -> HomePod | None:
        """The pod of that name if it's on that node, which must be ours."""
        pod = self._pods.get(NamespacedName(namespace, name))
        return pod if pod is not None and pod.node == node_name else None

    async def read(self, namespace: str, name: str) -> HomePod | None:
        """Ask the API server for a pod, on whatever node; None if it can't be had."""
        try:
            pod = await self._client.get(PODS, NamespacedName(namespace, name))
        except KubeError as error:
            logger.debug("%s/%s: not read: %s", namespace, name, error)
            return None
        return decode_home_pod(encode_object(pod))

    def on_node(self, node: str) -> Iterator[HomePod]:
        """The pods on a node; O(their number)."""
        return iter(list(self._by_node.get(node, {}).values()))

    def __iter__(self) -> Iterator[HomePod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    async def run(self) -> NoReturn:
        """Follow the nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._work.wait()
                self._work.clear()
                await self._follow(group)
        raise AssertionError("the loop above ends only by an exception")

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        """Start and stop watches until the set of nodes has been met."""
        nodes = self._nodes
        single = len(nodes) > MAX_NODES_APART or _ALL in self._sources
        for source in [_ALL] if single else sorted(nodes):
            self._start(group, source)
        if single and self._sources[_ALL].misses(nodes):
            self._stop(_ALL)
            self._start(group, _ALL)
        if not single:
            for source in self._sources.keys() - nodes:
                self._stop(source)
        while not all(source.informer.synced for source in self._sources.values()):
            changed = await self._wait_sources()
            if changed:
                return  # the set changed meanwhile: `run` comes again
        if single:
            for source in self._sources.keys() - {_ALL}:
                self._stop(source)
        self._drop_strays(nodes)
        if nodes == self._nodes:
            self._synced.set()
            logger.debug("pods of %d nodes are known: %d", len(nodes), len(self._pods))

    async def _wait_sources(self) -> bool:
        """Wait for the next watch to be synced; whether the set of nodes changed first."""
        pending = next(s for s in self._sources.values() if not s.informer.synced)
        async with asyncio.TaskGroup() as group:
            waits = [
                group.create_task(pending.informer.wait_synced(), name="home-pods-synced"),
                group.create_task(self._wait_work(), name="home-pods-nodes"),
            ]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        return self._work.is_set()

    async def _wait_work(self) -> None:
        await self._work.wait()

    def _start(self, group: asyncio.TaskGroup, name: str) -> None:
        if name in self._sources:
            return
        selector = "spec.nodeName!=" if name == _ALL else f"spec.nodeName={name}"
        decode = self._decode_of_ours if name == _ALL else decode_home_pod
        informer = Informer(self._client, PODS, decode, field_selector=selector)
        informer.add_handler(self._handle)
        task = group.create_task(
            run_component(f"home pods {name}", informer.run), name=f"home-pods-{name}"
        )
        self._sources[name] = _Source(informer, task)

    def _stop(self, name: str) -> None:
        self._sources.pop(name).task.cancel()

    def _decode_of_ours(self, raw: bytes) -> HomePod:
        outline = _decode_outline(raw)
        if outline.spec.node_name in self._nodes:
            return decode_home_pod(raw)
        identity = outline.metadata
        metadata = ObjectMeta(
            name=identity.name,
            namespace=identity.namespace,
            uid=identity.uid,
            resource_version=identity.resource_version,
        )
        return HomePod(metadata=metadata, raw=b"", node=outline.spec.node_name)

    def _handle(self, old: HomePod | None, new: HomePod | None) -> None:
        if new is not None and new.raw:
            key = new.metadata.key
            self._keep(key, new)
        elif old is not None and old.raw:
            key = old.metadata.key
            known = self._pods.get(key)
            if known is None or known.metadata.uid != old.metadata.uid:
                return
            self._drop(key)
        else:
            return
        self._notify(key)

    def _drop_strays(self, nodes: Collection[str]) -> None:
        """Forget pods that no watch has any more."""
        stores = [source.informer.store for source in self._sources.values()]
        for key, pod in list(self._pods.items()):
            found = next((found for store in stores if (found := store.get(key))), None)
            if found is None or not found.raw or pod.node not in nodes:
                self._drop(key)
                self._notify(key)

    def _keep(self, key: NamespacedName, pod: HomePod) -> None:
        known = self._pods.get(key)
        if known is not None and known.node != pod.node:
            self._drop(key)
        self._pods[key] = pod
        self._by_node.setdefault(pod.node, {})[key] = pod

    def _drop(self, key: NamespacedName) -> None:
        node = self._pods.pop(key).node
        del self._by_node[node][key]
        if not self._by_node[node]:
            del self._by_node[node]

    def _notify(self, key: NamespacedName) -> None:
        for handler in self._handlers:
            handler(key)


_ALL = ""


class _Source:
    """A watch and its task."""

    def __init__(self, informer: Informer[HomePod], task: asyncio.Task[NoReturn]) -> None:
        self.informer = informer
        self.task = task

    def misses(self, nodes: Collection[str]) -> bool:
        """Whether pods were dropped while decoding whose nodes weren't ours then."""
        return any(not pod.raw and pod.node in nodes for pod in self.informer.store)
