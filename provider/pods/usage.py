"""What all pods of the remote cluster take of its nodes: one filtered watch, into the ledger."""

import msgspec

from provider.capacity import CapacityLedger
from provider.labels import HOME_POD_UID
from provider.peering import Peering
from provider.requests import Resources, decode_counted_pod, pod_requests
from vkubelet.kube.client import KubeClient
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import PODS, ObjectMeta

NON_TERMINAL = "status.phase!=Succeeded,status.phase!=Failed"


class UsedPod(msgspec.Struct, frozen=True, kw_only=True):
    """
    A remote pod, as far as it's counted.

    Attributes:
        metadata: Its identity only.
        node: Its physical node, "" while it has none.
        requests: What it takes.
        home_uid: UID of its home pod if it's one of ours.
    """

    metadata: ObjectMeta
    node: str
    requests: Resources
    home_uid: str = ""


class RemoteUsage:
    """
    Keeps the ledger in step with the remote cluster's pods.

    Attributes:
        informer: Follows all pods that aren't terminal.
    """

    def __init__(self, client: KubeClient, peering: Peering, ledger: CapacityLedger) -> None:
        self._peering = peering
        self._ledger = ledger
        self.informer: Informer[UsedPod] = Informer(
            client, PODS, self._decode, field_selector=NON_TERMINAL
        )
        self.informer.add_handler(self._on_change)

    def _decode(self, raw: bytes) -> UsedPod:
        pod = decode_counted_pod(raw)
        metadata = pod.metadata
        return UsedPod(
            metadata=ObjectMeta(
                name=metadata.name,
                namespace=metadata.namespace,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
            ),
            node=pod.spec.node_name,
            requests=pod_requests(pod),
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
