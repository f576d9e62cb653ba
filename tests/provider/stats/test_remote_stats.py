"""Polling a fake metrics API."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from provider.labels import HOME_NAMESPACE, HOME_POD_UID, VIRTUAL_NODE
from provider.stats.remote_stats import (
    ABSENT_SECONDS,
    ASKED_SECONDS,
    POLL_SECONDS,
    STALE_SECONDS,
    RemoteStats,
)
from tests.fakes.api_server import ApiCall, FakeApiServer
from vkubelet.interface import NodeUsage, PodRef
from vkubelet.kube.objects import (
    CachedObject,
    KubeObject,
    NamespacedName,
    decode_cached,
    encode_object,
)

pytestmark = pytest.mark.virtual_time

MINUTE = "2026-01-01T12:{:02}:{:02}Z"


def at(seconds: int) -> str:
    return MINUTE.format(*divmod(seconds, 60))


def build_pod(name: str, node: str = "virtual", *, uid: str = "", start: int = 0) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "shop-home",
            "name": name,
            "uid": f"remote-{uid or name}",
            "resourceVersion": str(start),
            "labels": {HOME_POD_UID: uid or name},
            "annotations": {HOME_NAMESPACE: "shop", VIRTUAL_NODE: node},
        },
        "status": {
            "startTime": at(0),
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": at(start)}}}],
        },
    }


def build_metrics(
    name: str, seconds: int, cpu: str = "500m", memory: str = "10Mi", **fields: Any
) -> KubeObject:
    return {
        "metadata": {"namespace": "shop-home", "name": name},
        "timestamp": at(seconds),
        "window": "15s",
        "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": memory}}],
        **fields,
    }


@dataclass
class Pods:
    """Our remote pods."""

    namespaces: tuple[str, ...] = ()
    label_selector: str = "ours=yes"
    known: dict[NamespacedName, CachedObject] = field(default_factory=dict)

    def get(self, key: NamespacedName) -> CachedObject | None:
        return self.known.get(key)

    def put(self, pod: KubeObject) -> None:
        cached = decode_cached(encode_object(pod))
        self.known[cached.metadata.key] = cached


@dataclass
class World:
    """A remote cluster with a metrics API."""

    server: FakeApiServer
    pods: Pods
    stats: RemoteStats
    physical: dict[str, str] = field(default_factory=dict)
    pod_metrics: list[KubeObject] = field(default_factory=list)
    node_metrics: list[KubeObject] = field(default_factory=list)

    def list_pods(self, call: ApiCall) -> KubeObject:
        return {"kind": "PodMetricsList", "metadata": {}, "items": self.pod_metrics}

    def list_nodes(self, call: ApiCall) -> KubeObject:
        return {"kind": "NodeMetricsList", "metadata": {}, "items": self.node_metrics}

    async def read_next(self, node: str = "virtual") -> NodeUsage:
        """Read what the next poll gives."""
        await asyncio.sleep(POLL_SECONDS + 1)
        return await self.stats.read(node)

    @property
    def polls(self) -> int:
        return len(self.server.calls(is_pod_metrics))


def is_pod_metrics(call: ApiCall) -> bool:
    return "metrics.k8s.io" in call.path and call.path.endswith("/pods")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with FakeApiServer() as server, server.client("remote") as client:
        pods = Pods()
        physical: dict[str, str] = {}
        stats = RemoteStats(client, pods, physical_node=physical.get)
        made = World(server, pods, stats, physical)
        server.handle("GET /apis/metrics.k8s.io/v1beta1/pods", made.list_pods)
        server.handle("list pods", made.list_pods)
        server.handle("list nodes", made.list_nodes)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(stats.run())
            yield made
            task.cancel()


async def test_first_question_is_answered_from_a_poll(world: World) -> None:
    world.pods.put(build_pod("web"))
    world.pod_metrics = [build_metrics("web", 20)]
    usage = await world.stats.read("virtual")
    (pod,) = usage.pods
    assert pod.ref == PodRef("shop", "web", "web")
    assert list(pod.containers) == ["main"]
    main = pod.containers["main"]
    assert (main.cpu_seconds, main.memory_bytes) == (10, 10 << 20)
    assert (pod.pod.cpu_seconds, pod.pod.memory_bytes) == (10, 10 << 20)
    assert usage.node is not None
    assert (usage.node.cpu_seconds, usage.node.memory_bytes) == (10, 10 << 20)
    assert usage.node.time == main.time
    (call,) = world.server.calls(is_pod_metrics)
    assert call.query["labelSelector"] == "ours=yes"


async def test_counters_grow(world: World) -> None:
    world.pods.put(build_pod("web"))
    world.pod_metrics = [build_metrics("web", 20)]
    await world.stats.read("virtual")
    world.pod_metrics = [build_metrics("web", 40, "2")]
    usage = await world.read_next()
    assert usage.pods[0].containers["main"].cpu_seconds == pytest.approx(50)
    assert usage.node is not None
    assert usage.node.cpu_seconds == pytest.approx(50)
    usage = await world.read_next()  # the same sample again
    assert usage.pods[0].containers["main"].cpu_seconds == pytest.approx(50)
    world.pods.put(build_pod("web", start=45))
    world.pod_metrics = [build_metrics("web", 50, "1")]
    usage = await world.read_next()
    main = usage.pods[0].containers["main"]
    assert main.cpu_seconds == pytest.approx(5)
    assert main.started > usage.pods[0].pod.started
    assert usage.pods[0].pod.cpu_seconds == pytest.approx(60)
    assert usage.node is not None
    assert usage.node.cpu_seconds == pytest.approx(60)


async def test_only_pods_of_that_node(world: World) -> None:
    world.pods.put(build_pod("web"))
    world.pods.put(build_pod("other", "virtual-2"))
    world.pod_metrics = [
        build_metrics("web", 20),
        build_metrics("other", 20),
        build_metrics("foreign", 20, metadata={"namespace": "kube-system", "name": "web"}),
    ]
    usage = await world.stats.read("virtual")
    assert [pod.ref.name for pod in usage.pods] == ["web"]
    usage = await world.stats.read("virtual-2")
    assert [pod.ref.name for pod in usage.pods] == ["other"]


async def test_a_node_without_pods_uses_nothing(world: World) -> None:
    usage = await world.stats.read("virtual")
    assert usage.pods == ()
    assert usage.node is not None
    assert (usage.node.cpu_seconds, usage.node.memory_bytes) == (0, 0)
    before = usage.node.time
    await asyncio.sleep(POLL_SECONDS)
    world.pods.put(build_pod("web"))
    world.pod_metrics = [build_metrics("web", 20)]  # by a clock that is behind
    usage = await world.read_next()
    assert usage.node is not None
    assert usage.node.time >= before


async def test_another_pod_of_that_name(world: World) -> None:
    world.pods.put(build_pod("web"))
    world.pod_metrics = [build_metrics("web", 20)]
    await world.stats.read("virtual")
    world.pods.put(build_pod("web", uid="second", start=30))
    world.pod_metrics = [build_metrics("web", 40)]
    (pod,) = (await world.read_next()).pods
    assert pod.ref.uid == "second"
    assert pod.containers["main"].cpu_seconds == 5


async def test_the_physical_nodes_own_use(world: World) -> None:
    world.physical["virtual"] = "worker"
    world.node_metrics = [
        {
            "metadata": {"name": name},
            "timestamp": at(20),
            "window": "10s",
            "usage": {"cpu": "3", "memory": "1Gi"},
        }
        for name in ("worker", "another")
    ]
    await world.stats.read("virtual")
    for metrics in world.node_metrics:
        metrics["timestamp"] = at(30)
    usage = await world.read_next()
    assert usage.node is not None
    assert (usage.node.cpu_seconds, usage.node.memory_bytes) == (30, 1 << 30)


async def test_nodes_use_may_be_forbidden(world: World) -> None:
    world.physical["virtual"] = "worker"
    world.server.fail_next("list nodes", 403, times=9)
    world.pods.put(build_pod("web"))
    world.pod_metrics = [build_metrics("web", 20)]
    usage = await world.stats.read("virtual")
    assert usage.node is not None
    assert usage.node.cpu_seconds == 10


async def test_named_namespaces(world: World) -> None:
    world.pods.namespaces = ("shop-home", "other-home")
    await world.stats.read("virtual")
    paths = [call.path for call in world.server.calls(is_pod_metrics)]
    prefix = "/apis/metrics.k8s.io/v1beta1/namespaces"
    assert paths == [f"{prefix}/shop-home/pods", f"{prefix}/other-home/pods"]


async def test_idle_when_nobody_asks(world: World) -> None:
    await world.stats.read("virtual")
    await asyncio.sleep(ASKED_SECONDS + POLL_SECONDS)
    polls = world.polls
    assert ASKED_SECONDS / POLL_SECONDS <= polls <= ASKED_SECONDS / POLL_SECONDS + 2
    await asyncio.sleep(3600)
    assert world.polls == polls
    world.pods.put(build_pod("web"))
    world.pod_metrics = [build_metrics("web", 20)]
    assert (await world.stats.read("virtual")).pods


@pytest.mark.parametrize(("code", "words"), [(404, "none"), (503, "none"), (403, "isn't allowed")])
async def test_absent(
    world: World, code: int, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.pods.put(build_pod("web"))
    world.pod_metrics = [build_metrics("web", 20)]
    world.server.fail_next(is_pod_metrics, code, times=2)
    with caplog.at_level(logging.INFO, logger="provider.stats"):
        assert await world.stats.read("virtual") == NodeUsage()
        await asyncio.sleep(ABSENT_SECONDS * 2 + 1)
        assert (await world.stats.read("virtual")).pods
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert words in texts[0]
    assert texts[1].endswith("it answers")


async def test_failures_keep_the_last_samples_for_a_while(world: World) -> None:
    world.pods.put(build_pod("web"))
    world.pod_metrics = [build_metrics("web", 20)]
    before = await world.stats.read("virtual")
    world.server.fail_next(is_pod_metrics, 500, times=100)
    assert await world.read_next() == before
    for _ in range(round(STALE_SECONDS / POLL_SECONDS) + 1):
        await world.read_next()
    assert await world.read_next() == NodeUsage()


async def test_a_slow_api_doesnt_hold_up_the_answer(world: World) -> None:
    world.server.delay_next(is_pod_metrics, 20)
    start = asyncio.get_running_loop().time()
    assert await world.stats.read("virtual") == NodeUsage()
    assert asyncio.get_running_loop().time() - start <= 2.5


async def test_what_cant_be_read_is_left_out(world: World) -> None:
    world.pods.put(build_pod("web"))
    world.pods.put(build_pod("nobodys") | {"status": {}})
    world.physical["virtual"] = "worker"
    world.node_metrics = [{"metadata": {"name": "worker"}, "timestamp": "?", "usage": {}}]
    world.pod_metrics = [
        {"strange": True},
        build_metrics("web", 20, "much"),
        build_metrics("web", 20, containers=[]),
        build_metrics("nobodys", 20),
    ]
    usage = await world.stats.read("virtual")
    assert [pod.ref.name for pod in usage.pods] == ["nobodys"]
