"""`/stats/summary`: use of the node and its pods as JSON (`stats/v1alpha1`)."""

from collections.abc import Hashable, Mapping

from aiohttp import web

from vkubelet.interface import NodeUsage, PodUsage, UsageSample
from vkubelet.kube.objects import KubeObject, encode_object
from vkubelet.server.node_usage import read_usage, tell_memory_bytes
from vkubelet.server.services import NODE_CONTEXT
from vkubelet.times import format_time

_Rates = Mapping[Hashable, int | None]


async def get_stats_summary(request: web.Request) -> web.Response:
    """Answer with cpu and memory, which is all that is known; `only_cpu_and_memory` or not."""
    context = request.app[NODE_CONTEXT]
    usage = await read_usage(context)
    rates = context.cpu_rates.update(_list_samples(usage))
    body = encode_object(build_summary(context.node_name, usage, rates))
    return web.Response(body=body, content_type="application/json")


def _list_samples(usage: NodeUsage) -> dict[Hashable, UsageSample]:
    samples: dict[Hashable, UsageSample] = {}
    if usage.node is not None:
        samples[()] = usage.node
    for pod in usage.pods:
        samples[pod.ref.uid] = pod.pod
        samples |= {(pod.ref.uid, name): sample for name, sample in pod.containers.items()}
    return samples


def build_summary(node_name: str, usage: NodeUsage, rates: _Rates) -> KubeObject:
    """
    Build a Summary.

    Args:
        node_name: The node.
        usage: What is known.
        rates: Nanocores: of the node by (), of pods by UID, of containers by UID and name.
    """
    node: KubeObject = {"nodeName": node_name}
    if usage.node is not None:
        node |= _build_stats(usage.node, rates.get(()))
    return {"node": node, "pods": [_build_pod(pod, rates) for pod in usage.pods]}


def _build_pod(usage: PodUsage, rates: _Rates) -> KubeObject:
    ref = usage.ref
    return {
        "podRef": {"name": ref.name, "namespace": ref.namespace, "uid": ref.uid},
        **_build_stats(usage.pod, rates.get(ref.uid)),
        "containers": [
            {"name": name, **_build_stats(sample, rates.get((ref.uid, name)))}
            for name, sample in usage.containers.items()
        ],
    }


def _build_stats(sample: UsageSample, nano_cores: int | None) -> KubeObject:
    time = format_time(sample.time)
    cpu: KubeObject = {"time": time, "usageCoreNanoSeconds": round(sample.cpu_seconds * 1e9)}
    if nano_cores is not None:
        cpu["usageNanoCores"] = nano_cores
    memory = tell_memory_bytes(sample)
    return {
        "startTime": format_time(sample.started),
        "cpu": cpu,
        "memory": {"time": time, "usageBytes": memory, "workingSetBytes": memory},
    }
