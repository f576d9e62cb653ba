"""The home pods that are bound to some nodes."""

from collections.abc import Iterable

from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import PODS, KubeObject
from vkubelet.pods.home import MAX_NODES_APART


async def list_pods_on(client: KubeClient, nodes: Iterable[str]) -> list[KubeObject]:
    """List the pods that are bound to these nodes."""
    names = set(nodes)
    pods: list[KubeObject] = []
    if len(names) <= MAX_NODES_APART:
        for name in sorted(names):
            pods += await client.list(PODS, field_selector=f"spec.nodeName={name}")
        return pods
    bound = await client.list(PODS, field_selector="spec.nodeName!=")
    return [pod for pod in bound if pod["spec"].get("nodeName") in names]
