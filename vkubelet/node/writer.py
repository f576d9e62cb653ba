"""Writes Nodes: what makes a live one as wanted, and no more often than it has to."""

import asyncio
import logging
import zlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

from vkubelet.config import KubeletPolicy
from vkubelet.kube.client import KubeClient, PatchType
from vkubelet.kube.objects import NODES, CachedObject, KubeObject, NamespacedName
from vkubelet.kube.store import Store
from vkubelet.node import object as node_object
from vkubelet.node.reachability import Reachability
from vkubelet.node.status import build_status_patch, heartbeat_of
from vkubelet.node.wanted import WantedNode

logger = logging.getLogger(__name__)

USER_AGENT_MANAGER = "vkubelet"
"""Field manager of what isn't applied but created or patched: the client's User-Agent."""

_ROUNDING_SECONDS = 0.01  # a timer that fires a moment early would be set once more
_RESYNC_SPREAD = 0.1  # nodes that came together aren't written together for ever


class NodeWriter:
    """
    Writes live Nodes.

    Attributes:
        drops_features: Whether the API server was seen to drop status.declaredFeatures.
    """

    def __init__(
        self,
        client: KubeClient,
        policy: KubeletPolicy,
        store: Store[CachedObject],
        reachability: Reachability,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._policy = policy
        self._store = store
        self._reachability = reachability
        self._now = now
        self._managers = {policy.field_manager, USER_AGENT_MANAGER}
        self._applied: dict[str, tuple[set[str], set[str]]] = {}
        self._answers: dict[str, tuple[str, KubeObject]] = {}
        self._status_at: dict[str, float] = {}
        self.drops_features = False

    def find_live(self, name: str) -> KubeObject | None:
        """The Node as known, or as our last write left it while nothing came by the watch since."""
        cached = self._store.get(NamespacedName("", name))
        version, answer = self._answers.get(name, ("", {}))
        if cached is not None and cached.metadata.resource_version == version:
            return answer
        self._answers.pop(name, None)
        return None if cached is None else cached.decode()

    async def _remember(self, name: str, write: Awaitable[KubeObject]) -> KubeObject:
        """Write, and remember the answer beside the version that was known before."""
        cached = self._store.get(NamespacedName("", name))
        answer = await write
        if cached is not None and cached.metadata.uid == answer["metadata"]["uid"]:
            # What comes by the watch while we write may be newer than the answer.
            self._answers[name] = (cached.metadata.resource_version, answer)
        return answer

    def note_registered(self, name: str, body: KubeObject) -> None:
        """Note what a Node was created with: all of that is ours."""
        metadata = body["metadata"]
        self._applied[name] = (set(metadata["labels"]), set(metadata["annotations"]))
        self._status_at[name] = asyncio.get_running_loop().time()

    def forget(self, name: str) -> None:
        """Forget a Node that is no more."""
        for known in (self._applied, self._answers, self._status_at):
            known.pop(name, None)

    async def update(self, name: str, live: KubeObject, wanted: WantedNode) -> float | None:
        """
        Make a Node as wanted; returns when it has to be looked at though nothing happens.

        Raises:
            KubeError: If a write fails; what was written stays.
        """
        if wanted.virtual is not None:
            live = await self.write_metadata(name, live, wanted)
        taints = node_object.build_taints_patch(live, wanted, self._policy)
        if taints is not None:
            live = await self.patch(name, taints, PatchType.JSON)
        if wanted.virtual is not None:
            cordon = wanted.virtual.cordon
            patch = node_object.build_cordon_patch(live, self._policy, cordon=cordon)
            if patch is not None:
                logger.info("%s: %s", name, "cordoned" if cordon else "our cordon is undone")
                live = await self.patch(name, patch, PatchType.MERGE)
        return await self._write_status(name, live, wanted)

    async def patch(
        self,
        name: str,
        patch: KubeObject | list[KubeObject],
        patch_type: PatchType,
        *,
        subresource: str = "",
    ) -> KubeObject:
        """Patch a Node and remember the answer."""
        key = NamespacedName("", name)
        return await self._remember(
            name, self._client.patch(NODES, key, patch, patch_type, subresource=subresource)
        )

    async def write_metadata(self, name: str, live: KubeObject, wanted: WantedNode) -> KubeObject:
        """Write the labels and annotations that are ours, and take away those that were."""
        labels = node_object.wanted_labels(live, wanted, self._policy, self._managers)
        annotations = node_object.wanted_annotations(live, wanted, self._policy)
        removal = node_object.build_removal_patch(
            live, self._find_stale(name, live, labels, annotations)
        )
        if removal is not None:
            live = await self.patch(name, removal, PatchType.MERGE)
        body = node_object.build_metadata_apply(live, labels, annotations)
        if body is not None:
            manager = self._policy.field_manager
            live = await self._remember(
                name, self._client.apply(NODES, body, field_manager=manager, force=True)
            )
        self._applied[name] = (set(labels), set(annotations))
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
        stale["annotations"].add(self._policy.removal_annotation)
        return stale

    async def _write_status(self, name: str, live: KubeObject, wanted: WantedNode) -> float | None:
        loop = asyncio.get_running_loop()
        full = self._seconds_to_resync(name, live) <= 0
        patch = build_status_patch(live, wanted, self._policy, self._now(), full=full)
        if patch is None:
            return self.next_seconds(name, live, wanted)
        pause = self._status_at.get(name, -1e9) + self._policy.status_interval_seconds - loop.time()
        if pause > 0:
            return pause
        self._status_at[name] = loop.time()
        live = await self.patch(name, patch, PatchType.MERGE, subresource="status")
        if wanted.features and not live["status"].get("declaredFeatures"):
            self.drops_features = True  # a server without that field: don't write it for ever
        return self.next_seconds(name, live, wanted)

    def _seconds_to_resync(self, name: str, live: KubeObject) -> float:
        """Seconds until the status is written anew; less than the interval, a little, by name."""
        heartbeat = heartbeat_of(live)
        share = 1 - _RESYNC_SPREAD * zlib.crc32(name.encode()) / 2**32
        interval = timedelta(seconds=self._policy.status_resync_seconds * share)
        if heartbeat is None:
            return 0.0
        age = self._now() - heartbeat
        return (interval - age).total_seconds() if age > -interval else 0.0

    def next_seconds(self, name: str, live: KubeObject, wanted: WantedNode) -> float | None:
        """When the Node has to be looked at though nothing happens."""
        times = []
        loss = self._reachability.seconds_to_loss
        if loss is not None:
            times.append(loss)
        if wanted.conditions:
            resync = self._seconds_to_resync(name, live)
            times.append(max(self._policy.status_interval_seconds, resync))
        return min(times) + _ROUNDING_SECONDS if times else None
