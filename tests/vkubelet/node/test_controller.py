"""Nodes of a fake API server, kept as a provider wants them."""

import asyncio

import pytest

from tests.fakes.api_server import ApiCall, ApiFailureError, FakeApiServer
from tests.fakes.provider import build_virtual_node
from tests.vkubelet.node.world import open_world
from vkubelet.config import UnreachableAction, UnreachablePolicy
from vkubelet.interface import (
    Reachable,
    Synced,
    Unreachable,
)
from vkubelet.kube.objects import EVENTS, NODES, KubeObject
from vkubelet.node.controller import MAX_CLAIMS

pytestmark = pytest.mark.virtual_time

KEEP = UnreachablePolicy(action=UnreachableAction.KEEP)


async def test_node_is_registered_complete_and_ready() -> None:
    async with open_world(build_virtual_node("n")) as world:
        node = world.node()
        assert node["metadata"]["labels"]["owner"] == "us"
        assert world.taints() == ["virtual"]
        assert world.condition() == ("True", "AllGood")
        assert world.writes() == ["create nodes"]
        assert world.controller.find_uid("n") == node["metadata"]["uid"]
        assert world.controller.is_published("n")


async def test_node_is_not_there_before_its_server_listens() -> None:
    async with open_world(build_virtual_node("n"), port=None) as world:
        await world.settle(60)
        assert world.find() is None
        assert world.controller.find_uid("n") is None
        world.controller.set_port("n", 12345)
        await world.settle()
        assert world.node()["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 12345


async def test_node_is_not_there_before_the_provider_has_spoken() -> None:
    async with open_world() as world:
        world.controller.set_port("n", 1)
        await world.settle(60)
        assert world.find() is None


async def test_node_is_not_ready_before_the_first_contact() -> None:
    async with open_world(build_virtual_node("n"), synced=False) as world:
        assert world.condition() == ("False", "ProviderNotSynced")
        world.controller.handle_status(Synced())
        await world.settle()
        assert world.condition() == ("True", "AllGood")


async def test_deleted_node_is_registered_again_at_once() -> None:
    async with open_world(build_virtual_node("n")) as world:
        uid = world.node()["metadata"]["uid"]
        world.fake.remove(NODES, "", "n")
        await world.settle(0.5)
        assert world.node()["metadata"]["uid"] != uid
        assert world.taints() == ["virtual"]


async def test_node_of_somebody_else_is_never_touched_and_others_go_on() -> None:
    async with FakeApiServer() as fake:
        real = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}, "spec": {}}
        before = fake.put(real)
        nodes = (build_virtual_node("real"), build_virtual_node("n"))
        async with open_world(*nodes, fake=fake) as world:
            await world.settle(600)
            assert fake.get(NODES, "", "real") == before
            assert world.condition() == ("True", "AllGood")
            assert world.controller.is_taken("real")
            [event] = fake.objects(EVENTS)
            assert event["reason"] == "NodeNameTaken"
            assert "Node real exists and isn't ours" in event["message"]
            fake.remove(NODES, "", "real")
            await world.settle(61)
            assert fake.get(NODES, "", "real")["metadata"]["labels"]["owner"] == "us"


async def test_claim_waits_until_the_name_is_free() -> None:
    async with FakeApiServer() as fake:
        fake.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}})
        async with open_world(build_virtual_node("other"), fake=fake) as world:
            async with asyncio.TaskGroup() as group:
                claim = group.create_task(world.controller.claim("n"))
                await world.settle(100)
                assert not claim.done()
                assert world.controller.is_taken("n")
                fake.remove(NODES, "", "n")
            assert not world.controller.is_taken("n")
            await world.controller.claim("other")


async def test_few_names_are_looked_up_at_once() -> None:
    asked = most = 0

    async def look_up(_: ApiCall) -> KubeObject:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await asyncio.sleep(1)
        asked -= 1
        raise ApiFailureError(404, "NotFound", "no")

    async with open_world() as world, asyncio.TaskGroup() as group:
        world.fake.handle("get nodes", look_up)
        for number in range(35):
            group.create_task(world.controller.claim(f"n{number}"))
    assert most == MAX_CLAIMS


async def test_evict_rule() -> None:
    async with open_world(build_virtual_node("n")) as world:
        world.controller.handle_status(Unreachable("cut"))
        await world.settle(25)
        assert world.condition() == ("True", "AllGood")
        await world.settle(10)
        assert world.condition() == ("False", "RemoteUnreachable")
        assert world.taints() == ["virtual"]
        world.controller.handle_status(Reachable())
        await world.settle()
        assert world.condition() == ("True", "AllGood")


async def test_keep_rule() -> None:
    async with open_world(build_virtual_node("n"), unreachable=KEEP) as world:
        assert world.condition("RemoteReachable") == ("True", "RemoteReachable")
        world.controller.handle_status(Unreachable("cut"))
        await world.settle(40)
        assert world.condition() == ("True", "AllGood")
        assert world.condition("RemoteReachable") == ("False", "RemoteUnreachable")
        assert world.taints() == ["virtual", "vkubelet.io/remote-unreachable"]
        world.controller.handle_status(Reachable())
        await world.settle()
        assert world.condition("RemoteReachable") == ("True", "RemoteReachable")
        assert world.taints() == ["virtual"]


async def test_restart_flips_no_condition_while_the_provider_is_silent() -> None:
    async with FakeApiServer() as fake:
        async with open_world(build_virtual_node("n"), fake=fake):
            pass
        fake.requests.clear()
        async with open_world(fake=fake, synced=False, port=10300) as world:
            assert world.controller.names == {"n"}
            assert world.writes() == ["patch nodes/status"]  # the port
            await world.settle(20)
            assert world.condition() == ("True", "AllGood")
            await world.settle(20)
            assert world.condition() == ("False", "RemoteUnreachable")
            assert world.taints() == ["virtual"]
            world.controller.handle_status(Synced())
            world.controller.set_desired([build_virtual_node("n")])
            await world.settle()
            assert world.condition() == ("True", "AllGood")


async def test_cut_watch_and_a_node_deleted_meanwhile() -> None:
    async with open_world(build_virtual_node("n")) as world:
        await world.settle(10)
        world.fake.cut_watches()
        world.fake.remove(NODES, "", "n")
        world.fake.expire_history()
        await world.settle(60)
        assert world.condition() == ("True", "AllGood")


async def test_capacity_of_wanted_nodes() -> None:
    async with open_world(build_virtual_node("n")) as world:
        assert world.controller.capacity("n")["cpu"] == "8"
        assert world.controller.capacity("other") == {}


async def test_slow_node_holds_up_no_other() -> None:
    nodes = [build_virtual_node(f"n{number}") for number in range(30)]
    async with FakeApiServer() as fake:
        slow = lambda call: call.what == "create nodes" and call.body["metadata"]["name"] == "n0"  # noqa: E731
        fake.delay_next(slow, 50.0)
        async with open_world(*nodes, fake=fake) as world:
            await world.settle(5)
            assert len(fake.objects(NODES)) == 29
            await world.settle(60)
            assert len(fake.objects(NODES)) == 30
