"""What pods take, into the ledger: remote pods of physical nodes, home pods of virtual ones."""

import asyncio
from decimal import Decimal
from typing import NoReturn

import msgspec

from provider.capacity import CapacityLedger
from provider.labels import HOME_POD_UID
from provider.peering import Peering
from provider.pods.followed import FailureHandlers, FollowedPods
from provider.requests import Resources, decode_counted_pod, pod_requests
from vkubelet.kube.client import KubeClient
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import PODS, CachedObject, NamespacedName, ObjectMeta
from vkubelet.pods.home import HomePods

_NO_LABELS: dict[str, str] = {}  # one for all, rather than two a pod

NON_TERMINAL = "status.phase!=Succeeded,status.phase!=Failed"


class UsedPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    A remote pod, as far as it's counted; there may be 150,000 of them.

    Attributes:
        metadata: Its name and version only.
        node: Its physical node, "" while it has none.
        requests: What it takes.
        home_uid: UID of its home pod if it's one of ours.
    """

    metadata: ObjectMeta
    node: str
    requests: Resources
    home_uid: str = ""


class SharedValues:
    """
    Lets equal values be one object: pods share namespaces and nodes, and come in few sizes.

    What is new once there are too many is left as it is.
    """

    def __init__(self, limit: int = 20_000) -> None:
        self._limit = limit
        self._texts: dict[str, str] = {}
        self._resources: dict[frozenset[tuple[str, Decimal]], Resources] = {}

    def share_text(self, text: str) -> str:
        """Return the first text that was equal to this one."""
        if len(self._texts) >= self._limit:
            return self._texts.get(text, text)
        return self._texts.setdefault(text, text)

    def share_resources(self, amounts: Resources) -> Resources:
        """Return the first amounts that were equal to these; they aren't to be changed."""
        key = frozenset(amounts.items())
        if len(self._resources) >= self._limit:
            return self._resources.get(key, amounts)
        return self._resources.setdefault(key, amounts)


class RemoteUsage:
    """
    Keeps the ledger in step with all pods of the remote cluster that aren't terminal.

    One filtered watch; of each pod only what is counted is kept.
    """

    def __init__(self, client: KubeClient, peering: Peering, ledger: CapacityLedger) -> None:
        self._peering = peering
        self._ledger = ledger
        self._shared = SharedValues()
        self._informer: Informer[UsedPod] = Informer(
            client, PODS, self._decode, field_selector=NON_TERMINAL
        )
        self._informer.add_handler(self._on_change)

    async def wait_synced(self) -> None:
        """Wait until what is used is known."""
        await self._informer.wait_synced()

    def report_failures(self, handlers: FailureHandlers) -> None:
        """Have failures of list and watch told."""
        self._informer.add_failure_handler(handlers("usage"))

    async def run(self) -> NoReturn:
        """Keep in step until cancelled."""
        await self._informer.run()

    def _decode(self, raw: bytes) -> UsedPod:
        pod = decode_counted_pod(raw)
        metadata = pod.metadata
        return UsedPod(
            metadata=ObjectMeta(
                name=metadata.name,
                namespace=self._shared.share_text(metadata.namespace),
                resource_version=metadata.resource_version,
                labels=_NO_LABELS,
                annotations=_NO_LABELS,
            ),
            node=self._shared.share_text(pod.spec.node_name),
            requests=self._shared.share_resources(pod_requests(pod)),
            home_uid=(
                metadata.labels.get(HOME_POD_UID, "") if self._peering.owns(metadata) else ""
            ),
        )

    def _on_change(self, old: UsedPod | None, new: UsedPod | None) -> None:
        if new is not None:
            self._ledger.set_remote_pod(
                new.metadata.key, node=new.node, requests=new.requests, home_uid=new.home_uid
            )
        elif old is not None:
            self._ledger.remove_remote_pod(old.metadata.key)


class OwnUsage:
    """Keeps the ledger in step with our own remote pods, where others' may not be seen."""

    def __init__(self, pods: FollowedPods, ledger: CapacityLedger) -> None:
        self._pods = pods
        self._ledger = ledger
        pods.add_handler(self._on_change)

    async def wait_synced(self) -> None:
        """Wait until what is used is known."""
        await self._pods.wait_synced()

    def report_failures(self, handlers: FailureHandlers) -> None:
        """Nothing is watched beside what is followed anyway."""

    async def run(self) -> NoReturn:
        """Wait until cancelled: the pods come by handler."""
        await asyncio.Event().wait()
        raise AssertionError("nothing sets that event")

    def _on_change(self, old: CachedObject | None, new: CachedObject | None) -> None:
        if new is not None:
            pod = decode_counted_pod(new.raw)
            self._ledger.set_remote_pod(
                new.metadata.key,
                node=pod.spec.node_name,
                requests=pod_requests(pod),
                home_uid=new.metadata.labels.get(HOME_POD_UID, ""),
            )
        elif old is not None:
            self._ledger.remove_remote_pod(old.metadata.key)


class HomeUsage:
    """Keeps the ledger in step with the home pods on our virtual nodes."""

    def __init__(self, ledger: CapacityLedger) -> None:
        self._ledger = ledger
        self._pods: HomePods | None = None
        self._uids: dict[NamespacedName, str] = {}

    def follow(self, pods: HomePods) -> None:
        """Take the view of the home pods; to be done before it runs."""
        self._pods = pods
        pods.add_handler(self._on_change)

    async def wait_synced(self) -> None:
        """Wait until the pods on the nodes that are already ours are known."""
        if self._pods is None:
            raise AssertionError("there is no view of the home pods")
        await self._pods.wait_synced()

    def _on_change(self, key: NamespacedName) -> None:
        pod = None if self._pods is None else self._pods.get(key)
        uid = "" if pod is None else pod.metadata.uid
        before = self._uids.pop(key, "")
        if before and before != uid:
            self._ledger.remove_home_pod(before)
        if pod is not None:
            self._uids[key] = uid
            requests = pod_requests(decode_counted_pod(pod.raw))
            self._ledger.set_home_pod(uid, virtual_node=pod.node, requests=requests)
