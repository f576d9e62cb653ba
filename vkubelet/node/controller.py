"""Registers our Nodes and keeps them as the provider wants them."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
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
from vkubelet.node.removal import Drain, NodeRemoval
from vkubelet.node.status import port_of, ready_while_leaving
from vkubelet.node.wanted import WantedNode, compose, declare_server
from vkubelet.node.writer import NodeWriter
from vkubelet.supervision import run_component
from vkubelet.times import utc_now

logger = logging.getLogger(__name__)

TAKEN_RETRY_SECONDS = 60.0
"""How often it's looked whether a name that somebody else's Node has is free."""

MAX_CLAIMS = 10
"""Names that are looked up at once: each takes a connection meanwhile."""

_LATE_WATCH_SECONDS = 1.0


class NodeController:
    """
    All our Nodes.

    A Node is registered once its port is known (its server listens); somebody else's Node of the
    same name is never touched. A Node of ours that the provider doesn't want (any more) is removed,
    but only while what is behind can be reached and is known in full.
    """

    def __init__(
        self,
        client: KubeClient,
        events: EventRecorder,
        policy: KubeletPolicy,
        drain: Drain,
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
        self._reachability = Reachability(policy.unreachable.after_seconds)
        self._writer = NodeWriter(client, policy, self._informer.store, self._reachability, now)
        self._removal = NodeRemoval(client, events, policy, drain, now)
        self._desired: dict[str, VirtualNode] | None = None
        self._ports: dict[str, int] = {}
        self._published: dict[str, int] = {}
        self._uids: dict[str, str] = {}
        self._told: set[str] = set()
        self._claims = asyncio.Semaphore(MAX_CLAIMS)
        self._handlers: list[Callable[[], None]] = []
        self._informer.add_handler(self._handle)
        drain.add_handler(self._queue.add)

    # What others tell and ask.

    def add_handler(self, handler: Callable[[], None]) -> None:
        """Have a function called when names, or which of them are published, may have changed."""
        self._handlers.append(handler)

    def set_desired(self, nodes: Sequence[VirtualNode]) -> None:
        """Take the provider's full set of nodes."""
        desired = {node.name: node for node in nodes}
        before = dict.fromkeys(self.owned_names) if self._desired is None else self._desired
        self._desired = desired
        for name in desired.keys() | before.keys():
            if desired.get(name) != before.get(name) or name not in desired:
                self._queue.add(name)
        self._notify()

    def handle_status(self, event: StatusEvent) -> None:
        """Take in whether what is behind can be reached."""
        if self._reachability.handle_status(event):
            for name in self._ports.keys() | self.leaving_names:
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
        """Nodes that are to be served: those wanted, and all that are (still) ours."""
        return self.owned_names.union(self._desired or ())

    @property
    def leaving_names(self) -> frozenset[str]:
        """Nodes of ours that aren't wanted any more; none while it isn't known what is wanted."""
        return frozenset() if self._desired is None else self.owned_names - self._desired.keys()

    def capacity(self, name: str) -> Mapping[str, str]:
        """Capacity of a node that is wanted, quantities by resource; else nothing."""
        node = (self._desired or {}).get(name)
        return {} if node is None else node.capacity

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
        return dict(self._published)

    def find_uid(self, name: str) -> str | None:
        """The UID of a Node that is ours, None if it isn't there (yet)."""
        live = self._informer.store.get(NamespacedName("", name))
        return None if live is None else live.metadata.uid

    async def claim(self, name: str) -> None:
        """Wait until no Node of somebody else has this name; an error and an event name it."""
        while self._informer.store.get(NamespacedName("", name)) is None:
            try:
                async with self._claims:
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
            self._published.pop(name, None)
            if name in self._ports:
                logger.info("%s: the Node is gone", name)
        else:
            self._uids[name] = new.metadata.uid
            self._published[name] = port_of(new.decode())
            self._told.discard(name)
        if old is None or new is None:
            self._notify()
        self._queue.add(name)

    def _notify(self) -> None:
        for handler in self._handlers:
            handler()

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
        virtual = None if self._desired is None else self._desired.get(name)
        if self._desired is not None and virtual is None:
            return await self._let_go(name)
        self._removal.pause(name)
        port = self._ports.get(name)
        if port is None:
            return None
        if virtual is not None and self._writer.drops_features:
            virtual = replace(virtual, declared_features=())
        elif virtual is not None:
            virtual = declare_server(virtual, self._policy)
        wanted = compose(virtual, self._policy, self._reachability.reach, port=port)
        live = self._writer.find_live(name)
        if live is not None:
            return await self._writer.update(name, live, wanted)
        return None if virtual is None else await self._register(name, wanted)

    async def _let_go(self, name: str) -> float | None:
        """Bring a Node that isn't wanted a step closer to its end, and show its state meanwhile."""
        live = self._writer.find_live(name)
        if live is None:
            self._removal.pause(name)
            self._forget(name)
            return None
        removes = self._reachability.in_contact
        if removes:
            live = await self._mark(name, live)
        else:
            self._removal.pause(name)
        times = [await self._show_leaving(name, live)]
        if removes and self._is_to_go(name):
            times.append(await self._removal.advance(live, lambda: self._is_to_go(name)))
        return min((seconds for seconds in times if seconds is not None), default=None)

    def _is_to_go(self, name: str) -> bool:
        return (
            self._desired is not None
            and name not in self._desired
            and NamespacedName("", name) in self._informer.store
            and self._reachability.in_contact
        )

    async def _mark(self, name: str, live: KubeObject) -> KubeObject:
        patch = node_object.build_removal_mark(live, self._policy, self._now())
        if patch is None:
            return live
        live = await self._writer.patch(name, patch, PatchType.MERGE)
        if self._policy.removal_annotation in patch["metadata"]["annotations"]:
            self._removal.announce(live)
        return live

    async def _show_leaving(self, name: str, live: KubeObject) -> float | None:
        port = self._ports.get(name)
        if port is None:
            return None
        ready = ready_while_leaving(live, self._policy)
        wanted = compose(None, self._policy, self._reachability.reach, port=port, leaving=ready)
        return await self._writer.update(name, live, wanted)

    def _forget(self, name: str) -> None:
        self._told.discard(name)
        self._uids.pop(name, None)
        self._writer.forget(name)

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
            await self._writer.write_metadata(name, found, wanted)
            return None
        self._uids[name] = created["metadata"]["uid"]
        self._writer.note_registered(name, body)
        logger.info("%s: registered, kubelet API on port %d", name, wanted.port)
        return self._writer.next_seconds(name, created, wanted)
