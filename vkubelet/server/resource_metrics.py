"""`/metrics/resource`: what metrics-server reads, and so `kubectl top` and autoscalers."""

from collections.abc import Callable, Sequence

from aiohttp import web

from vkubelet.interface import NodeUsage, UsageSample
from vkubelet.server.exposition import Exposition, respond_exposition
from vkubelet.server.node_usage import read_usage, tell_cpu_seconds, tell_memory_bytes
from vkubelet.server.services import NODE_CONTEXT

_Labels = tuple[tuple[str, str], ...]


async def get_resource_metrics(request: web.Request) -> web.Response:
    """Answer a scrape from what the provider knows; empty if that's nothing."""
    usage = await read_usage(request.app[NODE_CONTEXT])
    return respond_exposition(build_resource_metrics(usage))


def build_resource_metrics(usage: NodeUsage) -> bytes:
    """Build the text: times are those of the samples, and the second label is the pod."""
    node: list[tuple[_Labels, UsageSample]] = [] if usage.node is None else [((), usage.node)]
    pods: list[tuple[_Labels, UsageSample]] = []
    containers: list[tuple[_Labels, UsageSample]] = []
    for pod in usage.pods:
        namespace, name = pod.ref.namespace, pod.ref.name
        pods.append(((("namespace", namespace), ("pod", name)), pod.pod))
        containers += (
            ((("container", container), ("pod", name), ("namespace", namespace)), sample)
            for container, sample in pod.containers.items()
        )
    text = Exposition()
    _add_cpu_and_memory(text, "node", "the node", node)
    _add_cpu_and_memory(text, "container", "the container", containers)
    text.start_family(
        "container_start_time_seconds",
        "gauge",
        "[STABLE] Start time of the container since unix epoch in seconds",
    )
    for labels, sample in containers:
        text.add(sample.started.timestamp(), labels)
    _add_cpu_and_memory(text, "pod", "the pod", pods)
    for name in ("scrape_error", "resource_scrape_error"):
        text.start_family(
            name, "gauge", "1 if there was an error while getting container metrics, 0 otherwise"
        )
        text.add(0)
    return text.serialize()


def _add_cpu_and_memory(
    text: Exposition, prefix: str, whose: str, samples: Sequence[tuple[_Labels, UsageSample]]
) -> None:
    families: tuple[tuple[str, str, str, Callable[[UsageSample], float]], ...] = (
        (
            f"{prefix}_cpu_usage_seconds_total",
            "counter",
            f"[STABLE] Cumulative cpu time consumed by {whose} in core-seconds",
            tell_cpu_seconds,
        ),
        (
            f"{prefix}_memory_working_set_bytes",
            "gauge",
            f"[STABLE] Current working set of {whose} in bytes",
            tell_memory_bytes,
        ),
    )
    for name, kind, description, tell in families:
        text.start_family(name, kind, description)
        for labels, sample in samples:
            text.add(tell(sample), labels, time=sample.time)
