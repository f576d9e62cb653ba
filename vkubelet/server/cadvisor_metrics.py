"""`/metrics/cadvisor`: cpu, memory and limits of containers, as dashboards read them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aiohttp import web

from vkubelet.interface import NodeUsage, UsageSample
from vkubelet.kube.objects import KubeObject
from vkubelet.kube.quantity import parse_quantity
from vkubelet.server.exposition import Exposition, respond_exposition
from vkubelet.server.lookup import PodLookup
from vkubelet.server.node_usage import read_usage
from vkubelet.server.services import NODE_CONTEXT

_PERIOD_MICROSECONDS = 100_000
_SHARES_PER_CORE = 1024
_MIN_SHARES = 2
_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")

_CPU = ("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.")
_GAUGES = {
    "container_memory_usage_bytes": "Current memory usage in bytes.",
    "container_memory_working_set_bytes": "Current working set in bytes.",
    "container_start_time_seconds": "Start time of the container since unix epoch in seconds.",
    "container_spec_cpu_period": "CPU period of the container.",
    "container_spec_cpu_quota": "CPU quota of the container.",
    "container_spec_cpu_shares": "CPU share of the container.",
    "container_spec_memory_limit_bytes": "Memory limit for the container.",
}
_MACHINE = {
    "machine_cpu_cores": ("cpu", "Number of logical CPU cores."),
    "machine_memory_bytes": ("memory", "Amount of memory installed on the machine."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """A container, or a pod as a whole (without container and image)."""

    labels: tuple[tuple[str, str], ...]
    sample: UsageSample
    limits: Mapping[str, float] = field(default_factory=dict)

    def value_of(self, name: str) -> float | None:
        match name:
            case "container_memory_usage_bytes" | "container_memory_working_set_bytes":
                return self.sample.memory_bytes
            case "container_start_time_seconds":
                return self.sample.started.timestamp()
            case _:
                return self.limits.get(name)


async def get_cadvisor_metrics(request: web.Request) -> web.Response:
    """Answer a scrape; what isn't known (network, disks, page cache) is left out."""
    context = request.app[NODE_CONTEXT]
    services = context.services
    usage = await read_usage(context)
    series = list(_list_series(usage, services.pods, context.node_name))
    text = Exposition()
    text.start_family(*_CPU)
    for one in series:
        labels = (*one.labels, ("cpu", "total"))
        text.add(one.sample.cpu_seconds, labels, time=one.sample.time)
    for name, description in _GAUGES.items():
        text.start_family(name, "gauge", description)
        for one in series:
            value = one.value_of(name)
            if value is not None:
                text.add(value, one.labels, time=one.sample.time if "memory_" in name else None)
    capacity = services.capacity(context.node_name)
    for name, (resource, description) in _MACHINE.items():
        text.start_family(name, "gauge", description)
        if resource in capacity:
            text.add(float(parse_quantity(capacity[resource])))
    return respond_exposition(text.serialize())


def _list_series(usage: NodeUsage, pods: PodLookup, node_name: str) -> Iterator[_Series]:
    for pod in usage.pods:
        ref = pod.ref
        home_pod = pods.find(node_name, ref.namespace, ref.name)
        specs = {} if home_pod is None else _index_containers(home_pod.decode().get("spec") or {})
        path = f"/kubepods/pod{ref.uid}"

        def label(path: str, container: str, image: str) -> tuple[tuple[str, str], ...]:
            # All labels in each series, as Prometheus joins by them.
            return (
                ("container", container),
                ("id", path),
                ("image", image),
                ("name", ""),
                ("namespace", ref.namespace),  # noqa: B023 - called in this turn only
                ("pod", ref.name),  # noqa: B023
            )

        yield _Series(labels=label(path, "", ""), sample=pod.pod)
        for name, sample in pod.containers.items():
            spec = specs.get(name, {})
            yield _Series(
                labels=label(f"{path}/{name}", name, str(spec.get("image", ""))),
                sample=sample,
                limits=build_limits(spec),
            )


def _index_containers(spec: KubeObject) -> dict[str, KubeObject]:
    return {
        container["name"]: container
        for kind in _CONTAINER_LISTS
        for container in spec.get(kind) or ()
    }


def build_limits(container: KubeObject) -> dict[str, float]:
    """Build what a kubelet would set for a container's requests and limits."""
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    requests = {**limits, **(resources.get("requests") or {})}
    values: dict[str, float] = {"container_spec_cpu_period": _PERIOD_MICROSECONDS}
    cores = float(parse_quantity(str(requests.get("cpu", "0"))))
    values["container_spec_cpu_shares"] = max(int(cores * _SHARES_PER_CORE), _MIN_SHARES)
    if "cpu" in limits:
        quota = float(parse_quantity(str(limits["cpu"]))) * _PERIOD_MICROSECONDS
        values["container_spec_cpu_quota"] = int(quota)
    memory = parse_quantity(str(limits.get("memory", "0")))
    values["container_spec_memory_limit_bytes"] = int(memory)
    return values
