"""Asking for the eviction of a pod."""

from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import PODS, NamespacedName


async def evict_pod(client: KubeClient, key: NamespacedName, *, uid: str) -> None:
    """
    Have this very pod evicted, with its own grace; another pod of that name is left alone.

    Raises:
        TooManyRequestsError: If a disruption budget forbids it for now.
        NotFoundError: If there is no such pod.
        ConflictError: If it's another pod, or it's changing.
        KubeError: If the API server can't do it.
    """
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": key.namespace, "name": key.name},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    await client.create(
        PODS, eviction, namespace=key.namespace, name=key.name, subresource="eviction"
    )
