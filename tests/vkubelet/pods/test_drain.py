"""Nodes of a fake API server, emptied of their pods."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.fakes.api_server import ApiCall, ApiFailureError, FakeApiServer
from tests.vkubelet.pods.world import DAEMON_SET, build_pod
from vkubelet.kube.objects import PODS, KubeObject
from vkubelet.pods.drain import PodDrain
from vkubelet.pods.home import HomePods

pytestmark = pytest.mark.virtual_time


class World:
    """A drain at a fake API server, and what it told."""

    def __init__(self, fake: FakeApiServer, home: HomePods, drain: PodDrain) -> None:
        self.fake = fake
        self.home = home
        self.drain = drain
        self.left: list[str] = []
        drain.add_handler(self.left.append)

    def start(self, seconds: float = 300.0, node: str = "n") -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        self.drain.start(node, deadline=deadline)

    def evicted(self) -> list[str]:
        return [call.resource.name for call in self.fake.calls("create pods/eviction")]

    def deleted(self) -> list[str]:
        return [call.resource.name for call in self.fake.calls("delete pods")]


@asynccontextmanager
async def open_world(*pods: KubeObject) -> AsyncIterator[World]:
    async with FakeApiServer() as fake, fake.client("home") as client:
        for pod in pods:
            fake.put(pod)
        home = HomePods(client)
        world = World(fake, home, PodDrain(client, home))
        home.set_nodes({"n", "m"})
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run()) for run in (home.run, world.drain.run)]
            await home.wait_synced()
            yield world
            for task in tasks:
                task.cancel()


def refuse(call: ApiCall) -> KubeObject:
    """As a disruption budget that is used up."""
    message = f"Cannot evict pod {call.resource.name} as it would violate the pod's budget."
    raise ApiFailureError(429, "TooManyRequests", message)


async def test_only_what_would_be_lost_is_evicted() -> None:
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    pods = (
        build_pod("plain"),
        build_pod("done", status={"phase": "Succeeded"}),
        build_pod("failed", status={"phase": "Failed"}),
        build_pod("daemon", metadata={"ownerReferences": [DAEMON_SET]}),
        build_pod("mirror", metadata=mirror),
        build_pod("elsewhere", node="m"),
    )
    async with open_world(*pods) as world:
        world.start()
        await asyncio.sleep(60)
        assert world.evicted() == ["plain"]
        [eviction] = world.fake.calls("create pods/eviction")
        assert eviction.body["deleteOptions"] == {"preconditions": {"uid": "uid-plain"}}
        assert "gracePeriodSeconds" not in eviction.body["deleteOptions"]
        assert world.deleted() == []
        assert not await world.drain.is_empty("n")  # it's still stopping
        world.fake.remove(PODS, "a", "plain")
        await asyncio.sleep(1)
        assert world.left == ["n"]
        assert await world.drain.is_empty("n")


async def test_pod_that_comes_later_goes_too_and_one_that_ends_is_no_matter() -> None:
    async with open_world(build_pod("ends", metadata={"finalizers": ["x/y"]})) as world:
        world.fake.handle("create pods/eviction", refuse)
        world.start()
        await asyncio.sleep(1)
        world.fake.put(build_pod("late"))
        await asyncio.sleep(1)
        assert set(world.evicted()) == {"ends", "late"}
        world.fake.put(build_pod("ends", status={"phase": "Failed"}))
        world.fake.remove(PODS, "a", "late")
        await asyncio.sleep(1)
        assert world.left == ["n", "n"]
        assert await world.drain.is_empty("n")


async def test_budget_that_refuses_is_asked_again_without_haste(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with open_world(build_pod()) as world:
        world.fake.handle("create pods/eviction", refuse)
        world.start()
        await asyncio.sleep(290)
        assert 15 <= len(world.evicted()) <= 35
        assert world.deleted() == []
        told = [r for r in caplog.records if "not evicted" in r.getMessage()]
        assert len(told) == 1
        assert "violate the pod's budget" in told[0].getMessage()


async def test_after_its_time_a_pod_is_deleted_with_its_own_grace() -> None:
    async with open_world(build_pod(spec={"terminationGracePeriodSeconds": 77})) as world:
        world.fake.handle("create pods/eviction", refuse)
        world.start()
        await asyncio.sleep(303)
        [call] = world.fake.calls("delete pods")
        assert call.body["preconditions"] == {"uid": "uid-p"}
        assert "gracePeriodSeconds" not in call.body
        pod = world.fake.get(PODS, "a", "p")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 77
        await asyncio.sleep(600)
        assert len(world.deleted()) == 1


async def test_no_time_at_all_deletes_at_once() -> None:
    async with open_world(build_pod()) as world:
        world.start(0)
        await asyncio.sleep(1)
        assert world.evicted() == []
        assert world.deleted() == ["p"]


async def test_stopped_drain_leaves_pods_alone() -> None:
    async with open_world(build_pod(), build_pod("q", node="m")) as world:
        world.fake.handle("create pods/eviction", refuse)
        world.start()
        world.start(node="m")
        await asyncio.sleep(1)
        world.drain.stop("n")
        world.drain.stop("n")
        world.fake.requests.clear()
        await asyncio.sleep(600)
        assert set(world.evicted()) == {"q"}
        assert world.deleted() == ["q"]


@pytest.mark.parametrize("status", [404, 409])
async def test_pod_that_went_meanwhile(status: int) -> None:
    async with open_world(build_pod()) as world:
        world.fake.fail_next("create pods/eviction", status)
        world.start()
        await asyncio.sleep(5)
        assert world.evicted() == ["p", "p"]


async def test_failures_are_tried_again_and_then_deletes() -> None:
    async with open_world(build_pod()) as world:
        world.fake.fail_next("create pods/eviction", 500, times=1000)
        world.fake.fail_next("delete pods", 500)
        world.start(100)
        await asyncio.sleep(150)
        assert len(world.evicted()) >= 5
        assert world.deleted() == ["p", "p"]


async def test_eviction_of_which_nothing_is_heard_is_made_again() -> None:
    async with open_world(build_pod()) as world:
        swallowed: KubeObject = {"kind": "Status", "status": "Success"}
        world.fake.handle("create pods/eviction", lambda _: swallowed)
        world.start()
        await asyncio.sleep(100)
        assert 3 <= len(world.evicted()) <= 5


async def test_the_api_server_has_the_last_word() -> None:
    async with open_world() as world:
        assert await world.drain.is_empty("n")
        world.fake.mute_watches()
        world.fake.put(build_pod("unseen"))
        await asyncio.sleep(1)
        assert list(world.home.on_node("n")) == []
        assert not await world.drain.is_empty("n")


async def test_nothing_is_empty_before_it_is_known() -> None:
    async with FakeApiServer() as fake, fake.client("home") as client:
        drain = PodDrain(client, HomePods(client))
        assert not await drain.is_empty("n")
        assert fake.requests == []


async def test_many_pods_are_evicted_some_at_a_time() -> None:
    at_once, most = 0, 0

    async def evict(_: Any) -> KubeObject:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.1)
        at_once -= 1
        return {"kind": "Status", "status": "Success"}

    async with open_world(*(build_pod(f"p{number}") for number in range(40))) as world:
        world.fake.handle("create pods/eviction", evict)
        world.start()
        await asyncio.sleep(20)
        assert len(set(world.evicted())) == 40
        assert most <= 10
