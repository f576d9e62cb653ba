"""Answers of a metrics API (`metrics.k8s.io/v1beta1`), decoded."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from provider.stats.counters import Rate
from vkubelet.kube.objects import Resource
from vkubelet.kube.quantity import parse_quantity
from vkubelet.times import parse_time

POD_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
NODE_METRICS: Final = Resource(
    "metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False
)

_DEFAULT_WINDOW_SECONDS = 15.0
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_UNIT_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""


class _ContainerMetrics(msgspec.Struct, frozen=True):
    name: str
    usage: dict[str, str]


class PodMetrics(msgspec.Struct, frozen=True):
    """Use of a pod's containers."""

    metadata: _Metadata
    timestamp: str
    containers: list[_ContainerMetrics]
    window: str = ""


class NodeMetrics(msgspec.Struct, frozen=True):
    """Use of a node."""

    metadata: _Metadata
    timestamp: str
    usage: dict[str, str]
    window: str = ""


class _Running(msgspec.Struct, frozen=True, rename="camel"):
    started_at: str | None = None


class _State(msgspec.Struct, frozen=True):
    running: _Running | None = None


class _ContainerStatus(msgspec.Struct, frozen=True):
    name: str
    state: _State = _State()


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    start_time: str | None = None
    container_statuses: list[_ContainerStatus] = []
    init_container_statuses: list[_ContainerStatus] = []
    ephemeral_container_statuses: list[_ContainerStatus] = []


class _Pod(msgspec.Struct, frozen=True):
    status: _PodStatus = _PodStatus()


decode_pod_metrics = msgspec.json.Decoder(PodMetrics).decode
decode_node_metrics = msgspec.json.Decoder(NodeMetrics).decode
_decode_pod = msgspec.json.Decoder(_Pod).decode


def parse_rates(metrics: PodMetrics) -> dict[str, Rate]:
    """
    Read the rates of a pod's containers by name.

    Raises:
        ValueError: If they can't be read.
    """
    return {
        container.name: _build_rate(metrics.timestamp, metrics.window, container.usage)
        for container in metrics.containers
    }


def parse_node_rate(metrics: NodeMetrics) -> Rate:
    """
    Read a node's rate.

    Raises:
        ValueError: If it can't be read.
    """
    return _build_rate(metrics.timestamp, metrics.window, metrics.usage)


def parse_starts(pod: bytes) -> tuple[datetime | None, dict[str, datetime]]:
    """Read when a pod has started, and its running containers by name."""
    status = _decode_pod(pod).status
    starts: dict[str, datetime] = {}
    for container in (
        *status.container_statuses,
        *status.init_container_statuses,
        *status.ephemeral_container_statuses,
    ):
        running = container.state.running
        started = parse_time(running.started_at) if running is not None else None
        if started is not None:
            starts[container.name] = started
    return parse_time(status.start_time), starts


def _build_rate(timestamp: str, window: str, usage: Mapping[str, str]) -> Rate:
    time = parse_time(timestamp)
    if time is None:
        raise ValueError(f"{timestamp!r} isn't a time")
    return Rate(
        time=time,
        window_seconds=_parse_window(window),
        cores=max(float(parse_quantity(usage.get("cpu", "0"))), 0.0),
        memory_bytes=max(int(parse_quantity(usage.get("memory", "0"))), 0),
    )


def _parse_window(text: str) -> float:
    """Read a duration as Go writes it."""
    parts = _DURATION.findall(text)
    seconds = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
    return seconds or _DEFAULT_WINDOW_SECONDS
