"""`/metrics`: what a kubelet tells of itself; the peering's own metrics aren't for home users."""

from typing import Final

from aiohttp import web
from prometheus_client import REGISTRY, generate_latest

from vkubelet.server.exposition import Exposition, respond_exposition
from vkubelet.server.lookup import list_running_containers
from vkubelet.server.services import NODE_CONTEXT

PROCESS_METRICS: Final = (
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
)
"""Of the process, which serves all virtual nodes."""


async def get_kubelet_metrics(request: web.Request) -> web.Response:
    """Answer a scrape."""
    context = request.app[NODE_CONTEXT]
    counts = [
        len(list_running_containers(pod.raw))
        for pod in context.services.pods.on_node(context.node_name)
    ]
    text = Exposition()
    text.start_family(
        "kubelet_node_name", "gauge", "[ALPHA] The node's name. The count is always 1."
    )
    text.add(1, [("node", context.node_name)])
    text.start_family(
        "kubelet_running_containers", "gauge", "[ALPHA] Number of containers currently running"
    )
    text.add(sum(counts), [("container_state", "running")])
    text.start_family(
        "kubelet_running_pods", "gauge", "[ALPHA] Number of pods that have a running container"
    )
    text.add(sum(map(bool, counts)))
    process = generate_latest(REGISTRY.restricted_registry(PROCESS_METRICS))
    return respond_exposition(text.serialize() + process)
