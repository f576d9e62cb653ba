"""Use of a node as its endpoints tell it: only pods that are on it now."""

from vkubelet.interface import NodeUsage, UsageSample
from vkubelet.server.services import NodeContext

MIN_CPU_SECONDS = 1e-6
MIN_MEMORY_BYTES = 1
"""metrics-server takes zero for a missing value, and drops the whole pod or node for it."""


async def read_usage(context: NodeContext) -> NodeUsage:
    """Ask the provider; what it tells of pods that aren't on this node (any more) is left out."""
    usage = await context.services.provider.stats(context.node_name)
    find = context.services.pods.find
    pods = []
    for pod in usage.pods:
        known = find(context.node_name, pod.ref.namespace, pod.ref.name)
        if known is not None and known.metadata.uid == pod.ref.uid:
            pods.append(pod)
    return NodeUsage(node=usage.node, pods=tuple(pods))


def tell_cpu_seconds(sample: UsageSample) -> float:
    """Return the cumulative cpu time, never zero."""
    return max(sample.cpu_seconds, MIN_CPU_SECONDS)


def tell_memory_bytes(sample: UsageSample) -> int:
    """Return the working set, never zero."""
    return max(sample.memory_bytes, MIN_MEMORY_BYTES)
