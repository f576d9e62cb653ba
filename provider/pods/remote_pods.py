"""Reflected pods in the remote cluster: which there are, and the feed of their statuses."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NoReturn

from provider.labels import HOME_POD_UID, VIRTUAL_NODE
from provider.peering import Peering, home_pod_of, home_uid_of
from provider.pods.feed import StatusFeed
from provider.pods.followed import FollowedPods
from provider.pods.namespaces import RemoteNamespaces
from provider.pods.refused import RefusedPods
from provider.pods.writer import RemotePodWriter, Translate
from provider.reflection.dependents import Dependents
from provider.translation.restarts import read_restarts
from provider.translation.status import is_unschedulable, read_observed_generation
from vkubelet.interface import (
    Gone,
    PodEvent,
    PodRef,
    PodStatus,
    Reachable,
    StatusEvent,
    Synced,
    Unblocked,
    Unreachable,
)
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import ConflictError, NotFoundError
from vkubelet.kube.objects import PODS, CachedObject, KubeObject, NamespacedName
from vkubelet.pods.home import HomePods
from vkubelet.supervision import run_component

logger = logging.getLogger(__name__)

TranslateStatus = Callable[[KubeObject], KubeObject]
"""Makes the home status of a remote pod."""


class RemotePods:
    """
    The remote pods of one peering.

    `apply` and `delete` answer when the API server has taken the request; what became of it arrives
    by `watch_statuses`, from the Store that `run` keeps.

    Attributes:
        followed: The remote pods as they are known.
    """

    def __init__(
        self,
        client: KubeClient,
        peering: Peering,
        namespaces: RemoteNamespaces,
        dependents: Dependents,
        *,
        translate: Translate,
        translate_status: TranslateStatus,
        followed: Sequence[str] = (),
    ) -> None:
        """
        Say what to keep in step; `run` does it.

        Args:
            client: To the remote cluster.
            peering: Whose pods they are.
            namespaces: Makes remote namespaces.
            dependents: What pods need beside themselves.
            translate: Makes a remote pod.
            translate_status: Makes a home status.
            followed: Remote namespaces that are followed; none: the whole cluster.
        """
        self._client = client
        self._peering = peering
        self._namespaces = namespaces
        self._dependents = dependents
        self._translate_status = translate_status
        self._feed = StatusFeed()
        self._refused = RefusedPods(self.tell)
        self.followed = FollowedPods(
            client, label_selector=peering.label_selector, namespaces=followed
        )
        self.followed.add_handler(dependents.handle_remote_pod)
        self.followed.add_handler(self._refused.handle_remote_pod)
        self.followed.add_handler(self._on_change)
        self._writer = RemotePodWriter(
            client,
            peering,
            namespaces,
            dependents,
            self.followed,
            translate=translate,
            refused=self._refused,
            put_unwatched=self._feed.put,
        )
        dependents.tell_to(self.tell)

    def follow_home_pods(self, pods: HomePods) -> None:
        """Take the view of the home pods on our nodes; before `run`."""
        self._refused.follow_home_pods(pods)

    async def run(self) -> NoReturn:
        """Keep the Store until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._wait_synced(), name="remote pods synced")
            group.create_task(run_component("refused pods", self._refused.run), name="refused pods")
            await self.followed.run()

    async def _wait_synced(self) -> None:
        await self.followed.wait_synced()
        self._dependents.start()
        self._feed.wake()

    def find(self, ref: PodRef) -> NamespacedName | None:
        """Find the remote pod of a home pod; None if there is none (yet)."""
        key = self._remote_key(ref)
        known = self.followed.get(key)
        return key if known is not None and home_uid_of(known.metadata) == ref.uid else None

    async def apply(self, node: str, pod: KubeObject) -> Sequence[str]:
        """Make the remote pod of a home pod be as it says: see `RemotePodWriter.apply`."""
        return await self._writer.apply(node, pod)

    def handle_selection(self, node: str) -> None:
        """Have pods looked at again that wait for nodes behind a virtual node, which changed."""
        for known in self.followed:
            metadata = known.metadata
            ref = home_pod_of(metadata)
            if ref is None or metadata.annotations.get(VIRTUAL_NODE) != node:
                continue
            if not known.decode()["spec"].get("nodeName"):
                self.tell(Unblocked(ref))

    async def delete(self, ref: PodRef, *, grace_period_seconds: int | None) -> None:
        """
        Delete the remote pod of a home pod; another pod of that name is left alone.

        Raises:
            KubeError: If the API server can't do it now.
        """
        key = self._remote_key(ref)
        known = self.followed.get(key)
        if known is not None and home_uid_of(known.metadata) == ref.uid:
            uid = known.metadata.uid
        else:
            uid = await self._find_uid(key, ref)
        if not uid:
            self._feed.put_gone(ref)
            return
        try:
            await self._client.delete(PODS, key, uid=uid, grace_period_seconds=grace_period_seconds)
        except (NotFoundError, ConflictError):  # gone, or another pod's turn: the watch tells
            if self.followed.get(key) is None:
                self._feed.put_gone(ref)

    async def _find_uid(self, key: NamespacedName, ref: PodRef) -> str:
        """Look at the API server for a pod that the Store doesn't know (yet)."""
        try:
            existing = await self._client.get(PODS, key)
        except NotFoundError:
            return ""
        metadata = existing["metadata"]
        labels = metadata.get("labels", {})
        ours = self._peering.owns_labels(labels) and labels.get(HOME_POD_UID) == ref.uid
        return str(metadata["uid"]) if ours else ""

    def set_trouble(self, trouble: str | None) -> None:
        """Tell the feed that the remote API can't be reached, and why; None: that it can."""
        self._feed.put_note(Reachable() if trouble is None else Unreachable(trouble))

    def tell(self, event: StatusEvent) -> None:
        """Tell the feed of something beside statuses."""
        if isinstance(event, PodEvent | Unblocked):
            self._feed.put_told(event)

    async def watch_statuses(self) -> AsyncIterator[StatusEvent]:
        """Yield statuses as `Provider.watch_statuses` does; for one consumer."""
        told_synced = False
        while True:
            synced = self.followed.synced
            for note in self._feed.take_notes():
                yield note
            for ref, pod in self._feed.take():
                if pod is None:
                    yield Gone(ref)
                else:
                    whole = pod.decode() if isinstance(pod, CachedObject) else pod
                    yield self._build_status(ref, whole)
            for told in self._feed.take_told():
                yield told
            if synced and not told_synced:
                told_synced = True
                yield Synced()
            await self._feed.wait()

    def _build_status(self, ref: PodRef, pod: KubeObject) -> PodStatus:
        metadata = pod["metadata"]
        return PodStatus(
            ref=ref,
            node=metadata.get("annotations", {}).get(VIRTUAL_NODE, ""),
            status=self._translate_status(pod),
            deletion_timestamp=metadata.get("deletionTimestamp"),
            unschedulable=is_unschedulable(pod),
            restarts=read_restarts(metadata),
            generation=read_observed_generation(pod),
        )

    def _on_change(self, old: CachedObject | None, new: CachedObject | None) -> None:
        if old is not None and (
            new is None or home_uid_of(old.metadata) != home_uid_of(new.metadata)
        ):
            ref = home_pod_of(old.metadata)
            if ref is not None:
                if not old.metadata.deletion_timestamp:  # nobody here asked: the anchor may be gone
                    self._namespaces.forget(old.metadata.namespace)
                self._feed.put_gone(ref)
        if new is not None:
            ref = home_pod_of(new.metadata)
            if ref is None:
                logger.warning("remote pod %s has our labels but no home pod", new.metadata.key)
            else:
                self._feed.put(ref, new)

    def _remote_key(self, ref: PodRef) -> NamespacedName:
        return NamespacedName(self._namespaces.name(ref.namespace), ref.name)
