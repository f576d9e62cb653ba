"""Nodes that aren't wanted any more."""

from typing import Any

import pytest

from tests.fakes.api_server import ApiCall, ApiFailureError, FakeApiServer
from tests.fakes.provider import build_virtual_node
from tests.vkubelet.node.world import World, open_world
from tests.vkubelet.pods.world import build_pod
from vkubelet.config import UnreachableAction, UnreachablePolicy
from vkubelet.interface import NodeCondition, Reachable, Synced, Unreachable
from vkubelet.kube.objects import EVENTS, NODES, PODS, KubeObject

pytestmark = pytest.mark.virtual_time

CORDON, SINCE = "vkubelet.io/cordoned", "vkubelet.io/removing-since"
OTHER = build_virtual_node("other")
NODE = build_virtual_node("n")


def refuse(_: ApiCall) -> KubeObject:
    raise ApiFailureError(429, "TooManyRequests", "Cannot evict pod: the budget is used up.")


def marks(world: World) -> set[str]:
    annotations: KubeObject = world.node()["metadata"].get("annotations", {})
    return {CORDON, SINCE} & annotations.keys()


def cordoned(world: World) -> bool:
    return bool(world.node()["spec"].get("unschedulable"))


async def test_unwanted_node_is_cordoned_emptied_and_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with open_world(NODE, OTHER) as world:
        world.fake.put(build_pod())
        await world.settle()
        uid = world.node()["metadata"]["uid"]
        world.controller.set_desired([OTHER])
        await world.settle(10)
        assert cordoned(world)
        assert marks(world) == {CORDON, SINCE}
        assert world.controller.leaving_names == {"n"}
        assert world.controller.names == {"n", "other"}  # it's served until it's gone
        assert world.fake.get(PODS, "a", "p")["metadata"]["deletionTimestamp"]
        world.fake.remove(PODS, "a", "p")
        await world.settle(1)
        assert world.find() is None
        [call] = world.fake.calls("delete nodes")
        assert call.body["preconditions"] == {"uid": uid}
        assert world.controller.names == {"other"}
        assert world.find("other") is not None
        assert [event["reason"] for event in world.fake.objects(EVENTS)] == ["NodeBeingRemoved"]
        told = [r.getMessage() for r in caplog.records if "not wanted any more" in r.getMessage()]
        assert len(told) == 1


async def test_empty_node_goes_soon_but_not_before_schedulers_know_of_the_cordon() -> None:
    async with open_world(NODE) as world:
        world.controller.set_desired([])
        await world.settle(4)
        assert cordoned(world)
        await world.settle(2)
        assert world.find() is None


async def test_node_of_an_earlier_configuration_goes_after_a_restart() -> None:
    async with FakeApiServer() as fake:
        async with open_world(NODE, fake=fake):
            pass
        async with open_world(OTHER, fake=fake) as world:
            await world.settle(7)
            assert world.find() is None
            assert world.find("other") is not None


async def test_ready_does_not_flip_meanwhile() -> None:
    async with open_world(NODE) as world:
        world.fake.handle("create pods/eviction", refuse)
        world.fake.put(build_pod())
        ready = world.node()["status"]["conditions"][0]
        world.controller.set_desired([])
        await world.settle(20)
        [after] = world.node()["status"]["conditions"]
        assert (after["status"], after["reason"]) == ("True", "NodeBeingRemoved")
        assert after["lastTransitionTime"] == ready["lastTransitionTime"]
        assert world.node()["status"]["addresses"][0]["address"] == "10.0.0.9"
        assert world.taints() == ["virtual"]


async def test_ready_that_was_false_stays_so() -> None:
    down = NodeCondition(type="Ready", status="False", reason="NoEligibleNodes", message="none")
    async with open_world(build_virtual_node("n", conditions=(down,))) as world:
        world.fake.handle("create pods/eviction", refuse)
        world.fake.put(build_pod())
        world.controller.set_desired([])
        await world.settle(20)
        assert world.condition() == ("False", "NoEligibleNodes")


async def test_what_the_control_plane_said_of_a_lost_process_is_put_right() -> None:
    async with FakeApiServer() as fake:
        async with open_world(NODE, fake=fake) as world:
            fake.put(build_pod())
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        live = fake.get(NODES, "", "n")
        fake.put({**live, "status": {**live["status"], "conditions": [unknown]}})
        fake.handle("create pods/eviction", refuse)
        async with open_world(OTHER, fake=fake) as world:
            assert world.condition() == ("True", "NodeBeingRemoved")


async def test_budgets_hold_until_the_time_is_over() -> None:
    async with open_world(NODE, drain_timeout_seconds=60.0) as world:
        world.fake.handle("create pods/eviction", refuse)
        world.fake.put(build_pod())
        world.controller.set_desired([])
        await world.settle(55)
        assert world.fake.calls("create pods/eviction")
        assert not world.fake.calls("delete pods")
        await world.settle(20)
        assert len(world.fake.calls("delete pods")) == 1
        assert world.find() is not None
        world.fake.remove(PODS, "a", "p")
        await world.settle(1)
        assert world.find() is None


async def test_node_that_is_wanted_again_goes_on() -> None:
    async with open_world(NODE) as world:
        world.fake.handle("create pods/eviction", refuse)
        world.fake.put(build_pod())
        world.controller.set_desired([])
        await world.settle(20)
        assert marks(world) == {CORDON, SINCE}
        world.controller.set_desired([NODE])
        await world.settle()
        assert not cordoned(world)
        assert marks(world) == set()
        assert world.condition() == ("True", "AllGood")
        world.forget_writes()
        await world.settle(200)
        assert world.writes() == []
        # A later removal has its whole time again.
        world.controller.set_desired([])
        await world.settle(250)
        assert not world.fake.calls("delete pods")


async def test_node_that_is_wanted_again_after_a_restart_goes_on() -> None:
    async with FakeApiServer() as fake:
        fake.handle("create pods/eviction", refuse)
        async with open_world(NODE, fake=fake) as world:
            fake.put(build_pod())
            world.controller.set_desired([])
            await world.settle(20)
        async with open_world(NODE, fake=fake) as world:
            assert not cordoned(world)
            assert marks(world) == set()


async def test_cordon_of_a_user_stays_when_the_node_is_wanted_again() -> None:
    async with open_world(NODE) as world:
        world.fake.handle("create pods/eviction", refuse)
        world.fake.put(build_pod())
        world.edit("spec", unschedulable=True)
        world.controller.set_desired([])
        await world.settle(20)
        assert marks(world) == {SINCE}
        world.controller.set_desired([NODE])
        await world.settle()
        assert cordoned(world)
        assert marks(world) == set()


async def test_removal_goes_on_after_a_restart_with_what_is_left_of_its_time() -> None:
    async with FakeApiServer() as fake:
        fake.handle("create pods/eviction", refuse)
        policy: dict[str, Any] = {"drain_timeout_seconds": 100.0}
        async with open_world(NODE, fake=fake, **policy) as world:
            fake.put(build_pod())
            world.controller.set_desired([])
            await world.settle(20)
            since = world.node()["metadata"]["annotations"][SINCE]
        async with open_world(OTHER, fake=fake, **policy) as world:
            assert world.node()["metadata"]["annotations"][SINCE] == since
            await world.settle(60)
            assert not fake.calls("delete pods")
            await world.settle(20)
            assert fake.calls("delete pods")


@pytest.mark.parametrize("text", ["nonsense", "2099-01-01T00:00:00Z"])
async def test_edited_mark_gives_no_more_than_the_time(text: str) -> None:
    async with open_world(NODE, drain_timeout_seconds=60.0) as world:
        world.fake.handle("create pods/eviction", refuse)
        world.fake.put(build_pod())
        world.controller.set_desired([])
        await world.settle(10)
        annotations = world.node()["metadata"]["annotations"]
        world.edit("metadata", annotations={**annotations, SINCE: text})
        await world.settle(80)
        assert world.fake.calls("delete pods")


async def test_cordon_that_somebody_undoes_is_made_again() -> None:
    async with open_world(NODE) as world:
        world.fake.handle("create pods/eviction", refuse)
        world.fake.put(build_pod())
        world.controller.set_desired([])
        await world.settle(10)
        world.edit("spec", unschedulable=None)
        await world.settle()
        assert cordoned(world)


async def test_nothing_is_removed_before_the_provider_is_synced() -> None:
    async with FakeApiServer() as fake:
        async with open_world(NODE, fake=fake):
            pass
        before = fake.get(NODES, "", "n")
        async with open_world(OTHER, fake=fake, synced=False) as world:
            await world.settle(20)
            assert fake.get(NODES, "", "n") == before
            await world.settle(100)  # it counts as out of reach by now
            assert not cordoned(world)
            assert world.condition() == ("False", "RemoteUnreachable")
            world.controller.handle_status(Synced())
            await world.settle(10)
            assert world.find() is None


@pytest.mark.parametrize("action", list(UnreachableAction))
async def test_out_of_reach_the_removal_stands_still(action: UnreachableAction) -> None:
    rule = UnreachablePolicy(action=action)
    async with open_world(NODE, unreachable=rule, drain_timeout_seconds=60.0) as world:
        world.fake.handle("create pods/eviction", refuse)
        world.fake.put(build_pod())
        world.controller.set_desired([])
        await world.settle(10)
        world.controller.handle_status(Unreachable("cut"))
        await world.settle()
        world.fake.requests.clear()
        world.fake.remove(PODS, "a", "p")
        await world.settle(300)
        assert not world.fake.calls("create pods/eviction")
        assert not world.fake.calls("delete pods")
        assert not world.fake.calls("delete nodes")
        assert cordoned(world)
        lost = world.taints() == ["virtual", "vkubelet.io/remote-unreachable"]
        assert lost is (action is UnreachableAction.KEEP)
        world.controller.handle_status(Reachable())
        await world.settle(10)
        assert world.find() is None


async def test_node_without_a_server_goes_too() -> None:
    async with FakeApiServer() as fake:
        async with open_world(NODE, fake=fake):
            pass
        async with open_world(OTHER, fake=fake, port=None) as world:
            await world.settle(10)
            assert world.find() is None


async def test_every_step_may_fail() -> None:
    async with open_world(NODE) as world:
        world.fake.put(build_pod("p", status={"phase": "Succeeded"}))
        world.fake.fail_next("patch nodes", 409, reason="Conflict")
        world.fake.fail_next("patch nodes", 500)
        world.fake.fail_next("list pods", 500, times=2)
        world.fake.fail_next("delete nodes", 500, times=2)
        world.fake.drop_next("delete nodes")
        world.controller.set_desired([])
        await world.settle(60)
        assert world.find() is None


async def test_node_deleted_by_somebody_is_not_made_again() -> None:
    async with open_world(NODE) as world:
        world.fake.handle("create pods/eviction", refuse)
        world.fake.put(build_pod())
        world.controller.set_desired([])
        await world.settle(10)
        world.fake.remove(NODES, "", "n")
        await world.settle(60)
        assert world.find() is None
        assert world.controller.names == frozenset()


async def test_name_that_comes_back_after_its_removal_is_registered_anew() -> None:
    async with open_world(NODE) as world:
        uid = world.node()["metadata"]["uid"]
        world.controller.set_desired([])
        await world.settle(10)
        assert world.find() is None
        world.controller.set_desired([NODE])
        await world.settle()
        assert world.node()["metadata"]["uid"] != uid
        assert not cordoned(world)
