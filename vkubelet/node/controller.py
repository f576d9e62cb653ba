"""Registers our Nodes and keeps them as the provider wants them."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NoReturn

from vkubelet.config import KubeletPolicy
from vkubelet.interface import StatusEvent, VirtualNode
from vkubelet.kube.client import KubeClient, PatchType
from vkubelet.kube.errors import AlreadyExistsError, NotFoundError
from vkubelet.kube.events import EventRecorder
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import NODES, CachedObject, KubeObject, NamespacedName, decode_cached
from vkubelet.kube.workqueue import WorkQueue
from vkubelet.node import object as node_object
from vkubelet.node.reachability import Reachability
from vkubelet.node.status import build_status_patch, heartbeat_of, port_of
from vkubelet.node.wanted import WantedNode, compose
from vkubelet.supervision import run_component
from vkubelet.times import utc_now

logger = logging.getLogger(__name__)

TAKEN_RETRY_SECONDS = 60.0
"""How often it's looked whether a name that somebody else's Node has is free."""

USER_AGENT_MANAGER = "vkubelet"
"""Field manager of what isn't applied but created or patched: the client's User-Agent."""

_LATE_WATCH_SECONDS = 1.0
_ROUNDING_SECONDS = 0.01  # a timer that fires a moment early would be set once more


class NodeController:
    """
    All our Nodes.

    A Node is registered once its port is known (its server listens); somebody else's Node of the
    same name is never touched. Nodes of ours that the provider doesn't want are left alone, with a
    warning.
    """

    def __init__(
        self,
        client: KubeClient,
        events: EventRecorder,
        policy: KubeletPolicy,
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._client = client
        self._events = events
        self._policy = policy
        self._now = now
        selector = ",".join(f"{key}={value}" for key, value in policy.owner_labels.items())
        self._informer: Informer[CachedObject] = Informer(
            client, NODES, decode_cached, label_selector=selector
        )
        self._queue: WorkQueue[str] = WorkQueue("nodes")
        self._managers = {policy.field_manager, USER_AGENT_MANAGER}
        self._reachability = Reachability(policy.unreachable.after_seconds)
        self._desired: dict[str, VirtualNode] | None = None
        self._ports: dict[str, int] = {}
        self._uids: dict[str, str] = {}
        self._applied: dict[str, tuple[set[str], set[str]]] = {}
        self._answers: dict[str, tuple[str, KubeObject]] = {}
        self._status_at: dict[str, float] = {}
        self._registered: dict[str, asyncio.Event] = {}
        self._told: set[str] = set()
        self._drops_features = False
        self._handlers: list[Callable[[], None]] = []
        self._informer.add_handler(self._handle)

    # What others tell and ask.

    def add_handler(self, handler: Callable[[], None]) -> None:
        """Have a function called when names, or which of them are published, may have changed."""
        self._handlers.append(handler)

    def set_desired(self, nodes: Sequence[VirtualNode]) -> None:
        """Take the provider's full set of nodes."""
        desired = {node.name: node for node in nodes}
        before = self._desired or {}
        self._desired = desired
        for name in desired.keys() | before.keys():
            if desired.get(name) != before.get(name):
                self._queue.add(name)
        if self._informer.synced:
            self._warn_of_unwanted()
        self._notify()

    def handle_status(self, event: StatusEvent) -> None:
        """Take in whether what is behind can be reached."""
        if self._reachability.handle_status(event):
            for name in self._ports:
                self._queue.add(name)

    def set_port(self, name: str, port: int | None) -> None:
        """Tell where the node's server listens; None: it doesn't, and the Node isn't written."""
        if port is None:
            self._ports.pop(name, None)
        else:
            self._ports[name] = port
            self._queue.add(name)
        self._notify()

    @property
    def names(self) -> frozenset[str]:
        """Nodes that are to be served: those wanted; until that is known, those already ours."""
        if self._desired is not None:
            return frozenset(self._desired)
        return self.owned_names

    @property
    def owned_names(self) -> frozenset[str]:
        """All Nodes that are ours, wanted or not."""
        return frozenset(key.name for key in self._informer.store.keys())  # noqa: SIM118 - no dict

    @property
    def synced(self) -> bool:
        """Whether it's known which Nodes are ours and which are wanted."""
        return self._informer.synced and self._desired is not None

    async def wait_synced(self) -> None:
        """Wait until it's known which Nodes are ours."""
        await self._informer.wait_synced()

    def is_published(self, name: str) -> bool:
        """Whether the Node is there and its server listens."""
        return name in self._ports and NamespacedName("", name) in self._informer.store

    def published_ports(self) -> dict[str, int]:
        """The ports of all Nodes that are ours; 0 for one that has none yet."""
        return {node.metadata.name: port_of(node.decode()) for node in self._informer.store}

    async def wait_registered(self, name: str) -> str:
        """Wait until the Node is there, and return its UID."""
        while True:
            live = self._informer.store.get(NamespacedName("", name))
            if live is not None:
                return live.metadata.uid
            event = self._registered.setdefault(name, asyncio.Event())
            event.clear()
            await event.wait()

    async def claim(self, name: str) -> None:
        """Wait until no Node of somebody else has this name; an error and an event name it."""
        while self._informer.store.get(NamespacedName("", name)) is None:
            try:
                found = await self._client.get(NODES, NamespacedName("", name))
            except NotFoundError:
                break
            if self._is_ours(found):
                break
            self._tell_taken(found)
            await asyncio.sleep(TAKEN_RETRY_SECONDS)
        self._told.discard(name)

    def is_taken(self, name: str) -> bool:
        """Whether the name was found to be somebody else's."""
        return name in self._told

    async def run(self) -> NoReturn:
        """Follow and write Nodes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(
                run_component("node informer", self._informer.run), name="node-informer"
            )
            await self._informer.wait_synced()
            self._warn_of_unwanted()
            self._notify()
            await self._queue.run(self._reconcile, workers=self._policy.node_workers)
        raise AssertionError("the queue runs until it's cancelled")

    # Reconciling.

    def _handle(self, old: CachedObject | None, new: CachedObject | None) -> None:
        node = old if new is None else new
        if node is None:
            return
        name = node.metadata.name
        if new is None:
            if name in self._ports:
                logger.info("%s: the Node is gone", name)
        else:
            self._uids[name] = new.metadata.uid
            if name in self._registered:
                self._registered.pop(name).set()
        if old is None and self._informer.synced:
            self._warn_of_unwanted()
        if old is None or new is None:
            self._notify()
        self._queue.add(name)

    def _notify(self) -> None:
        for handler in self._handlers:
            handler()

    def _warn_of_unwanted(self) -> None:
        if self._desired is None:
            return
        for node in self._informer.store:
            name = node.metadata.name
            if name not in self._desired and name not in self._told:
                self._told.add(name)
                logger.warning(
                    "%s: this Node is ours but no longer wanted: left alone, without Lease", name
                )
        self._told -= self._desired.keys() & {node.metadata.name for node in self._informer.store}

    def _is_ours(self, node: KubeObject) -> bool:
        """By its labels, or as one that this process knew: somebody may have taken a label off."""
        metadata = node["metadata"]
        known = self._uids.get(metadata["name"]) == metadata["uid"]
        return known or node_object.is_owned(node, self._policy.owner_labels)

    def _tell_taken(self, node: KubeObject) -> None:
        name = node["metadata"]["name"]
        if name in self._told:
            return
        self._told.add(name)
        self._notify()
        labels = ",".join(f"{key}={value}" for key, value in self._policy.owner_labels.items())
        message = f"Node {name} exists and isn't ours (it lacks the labels {labels}): not touched"
        logger.error("%s: %s", name, message)
        self._events.record_nowait(node, type="Warning", reason="NodeNameTaken", message=message)

    async def _reconcile(self, name: str) -> float | None:
        """Bring one Node one step further."""
        port = self._ports.get(name)
        virtual = None if self._desired is None else self._desired.get(name)
        if port is None or (self._desired is not None and virtual is None):
            return None
        if virtual is not None and self._drops_features:
            virtual = replace(virtual, declared_features=())
        wanted = compose(virtual, self._policy, self._reachability.reach, port=port)
        live = self._find_live(name)
        if live is not None:
            return await self._update(name, live, wanted)
        return None if virtual is None else await self._register(name, wanted)

    def _find_live(self, name: str) -> KubeObject | None:
        """The Node as known, or as our last write left it while the watch hasn't caught up."""
        cached = self._informer.store.get(NamespacedName("", name))
        version, answer = self._answers.get(name, ("", {}))
        if cached is not None and cached.metadata.resource_version == version:
            return answer
        self._answers.pop(name, None)
        return None if cached is None else cached.decode()

    def _remember(self, name: str, answer: KubeObject) -> KubeObject:
        cached = self._informer.store.get(NamespacedName("", name))
        if cached is not None and cached.metadata.uid == answer["metadata"]["uid"]:
            self._answers[name] = (cached.metadata.resource_version, answer)
        return answer

    async def _register(self, name: str, wanted: WantedNode) -> float | None:
        try:
            body = node_object.build_node(wanted, self._policy, self._now())
            created = await self._client.create(NODES, body)
        except AlreadyExistsError:
            found = await self._client.get(NODES, NamespacedName("", name))
            if not self._is_ours(found):
                self._tell_taken(found)
                return TAKEN_RETRY_SECONDS
            if node_object.is_owned(found, self._policy.owner_labels):
                return _LATE_WATCH_SECONDS
            await self._write_metadata(name, found, wanted)
            return None
        self._uids[name] = created["metadata"]["uid"]
        self._applied[name] = (
            set(body["metadata"]["labels"]),
            set(body["metadata"]["annotations"]),
        )
        self._status_at[name] = asyncio.get_running_loop().time()
        logger.info("%s: registered, kubelet API on port %d", name, wanted.port)
        return self._next_seconds(created, wanted)

    async def _update(self, name: str, live: KubeObject, wanted: WantedNode) -> float | None:
        if wanted.virtual is not None:
            live = await self._write_metadata(name, live, wanted)
        taints = node_object.build_taints_patch(live, wanted, self._policy)
        if taints is not None:
            live = await self._patch(name, taints, PatchType.JSON)
        if wanted.virtual is not None:
            cordon = wanted.virtual.cordon
            patch = node_object.build_cordon_patch(live, self._policy, cordon=cordon)
            if patch is not None:
                logger.info("%s: %s", name, "cordoned" if cordon else "our cordon is undone")
                live = await self._patch(name, patch, PatchType.MERGE)
        return await self._write_status(name, live, wanted)

    async def _patch(
        self,
        name: str,
        patch: KubeObject | list[KubeObject],
        patch_type: PatchType,
        *,
        subresource: str = "",
    ) -> KubeObject:
        key = NamespacedName("", name)
        answer = await self._client.patch(NODES, key, patch, patch_type, subresource=subresource)
        return self._remember(name, answer)

    async def _write_metadata(self, name: str, live: KubeObject, wanted: WantedNode) -> KubeObject:
        annotations = node_object.wanted_annotations(live, wanted, self._policy)
        removal = node_object.build_removal_patch(
            live, self._find_stale(name, live, wanted.labels, annotations)
        )
        if removal is not None:
            live = await self._patch(name, removal, PatchType.MERGE)
        body = node_object.build_metadata_apply(live, wanted.labels, annotations)
        if body is not None:
            answer = await self._client.apply(
                NODES, body, field_manager=self._policy.field_manager, force=True
            )
            live = self._remember(name, answer)
        self._applied[name] = (set(wanted.labels), set(annotations))
        return live

    def _find_stale(
        self,
        name: str,
        live: KubeObject,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
    ) -> dict[str, set[str]]:
        """Keys that we set, now or in an earlier life, and want no more; what others set stays."""
        kept = {"labels": labels.keys(), "annotations": annotations.keys()}
        stale = {}
        for field, applied in zip(kept, self._applied.get(name, (set(), set())), strict=True):
            ours, others = node_object.managed_keys(live, field, self._managers)
            gone = (ours | applied) - kept[field] - others
            stale[field] = gone - {self._policy.cordon_annotation}
        return stale

    async def _write_status(self, name: str, live: KubeObject, wanted: WantedNode) -> float | None:
        loop = asyncio.get_running_loop()
        full = self._seconds_to_resync(live) <= 0
        patch = build_status_patch(live, wanted, self._policy, self._now(), full=full)
        if patch is None:
            return self._next_seconds(live, wanted)
        pause = self._status_at.get(name, -1e9) + self._policy.status_interval_seconds - loop.time()
        if pause > 0:
            return pause
        self._status_at[name] = loop.time()
        live = await self._patch(name, patch, PatchType.MERGE, subresource="status")
        if wanted.features and not live["status"].get("declaredFeatures"):
            self._drops_features = True  # a server without that field: don't write it for ever
        return self._next_seconds(live, wanted)

    def _seconds_to_resync(self, live: KubeObject) -> float:
        heartbeat = heartbeat_of(live)
        interval = timedelta(seconds=self._policy.status_resync_seconds)
        if heartbeat is None:
            return 0.0
        age = self._now() - heartbeat
        return (interval - age).total_seconds() if age > -interval else 0.0

    def _next_seconds(self, live: KubeObject, wanted: WantedNode) -> float | None:
        """When the Node has to be looked at though nothing happens."""
        times = []
        loss = self._reachability.seconds_to_loss
        if loss is not None:
            times.append(loss)
        if wanted.conditions:
            times.append(max(self._policy.status_interval_seconds, self._seconds_to_resync(live)))
        return min(times) + _ROUNDING_SECONDS if times else None
