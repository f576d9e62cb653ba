"""Use of a node with one pod, as a provider tells it."""

from datetime import UTC, datetime, timedelta

from vkubelet.interface import NodeUsage, PodRef, PodUsage, UsageSample

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
REF = PodRef("ns", "pod", "uid-1")


def build_sample(cpu_seconds: float = 12.5, memory: int = 2048, *, age: float = 60) -> UsageSample:
    return UsageSample(
        time=STARTED + timedelta(seconds=age),
        cpu_seconds=cpu_seconds,
        memory_bytes=memory,
        started=STARTED,
    )


def build_usage(ref: PodRef = REF) -> NodeUsage:
    pod = PodUsage(ref=ref, pod=build_sample(3.0, 300), containers={"c": build_sample(2.0, 200)})
    return NodeUsage(node=build_sample(), pods=(pod,))
