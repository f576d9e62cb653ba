"""Nodes of a fake API server, kept as a provider wants them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.api_server import FakeApiServer
from tests.fakes.provider import build_virtual_node
from vkubelet.config import KubeletPolicy, UnreachableAction, UnreachablePolicy
from vkubelet.interface import (
    NodeCondition,
    Reachable,
    Synced,
    Taint,
    Unreachable,
    VirtualNode,
)
from vkubelet.kube.events import EventRecorder
from vkubelet.kube.objects import EVENTS, NODES, KubeObject
from vkubelet.node.controller import NodeController

pytestmark = pytest.mark.virtual_time

START = datetime(2026, 1, 1, tzinfo=UTC)
KEEP = UnreachablePolicy(action=UnreachableAction.KEEP)


def build_policy(**fields: Any) -> KubeletPolicy:
    return KubeletPolicy(owner_labels={"owner": "us"}, address="10.0.0.9", **fields)


class Clock:
    """The wall clock, in step with the loop; across loops of one test it goes on."""

    def __init__(self) -> None:
        self.offset = START

    def now(self) -> datetime:
        return self.offset + timedelta(seconds=asyncio.get_running_loop().time())


class World:
    """A node controller at a fake API server."""

    def __init__(self, fake: FakeApiServer, controller: NodeController) -> None:
        self.fake = fake
        self.controller = controller

    async def settle(self, seconds: float = 3.0) -> None:
        await asyncio.sleep(seconds)

    def node(self, name: str = "n") -> KubeObject:
        return self.fake.get(NODES, "", name)

    def find(self, name: str = "n") -> KubeObject | None:
        return self.fake.find(NODES, "", name)

    def condition(self, kind: str = "Ready", name: str = "n") -> tuple[str, str]:
        for condition in self.node(name)["status"]["conditions"]:
            if condition["type"] == kind:
                return condition["status"], condition["reason"]
        return "", ""

    def taints(self) -> list[str]:
        return [taint["key"] for taint in self.node()["spec"].get("taints") or ()]

    def edit(self, part: str, **fields: Any) -> None:
        """As another client: change keys of metadata, spec or status."""
        node = self.node()
        changed = {
            key: value for key, value in {**node[part], **fields}.items() if value is not None
        }
        self.fake.put({**node, part: changed})

    def writes(self) -> list[str]:
        verbs = {"create", "update", "patch", "apply", "delete"}
        return [
            call.what
            for call in self.fake.requests
            if call.verb in verbs and not call.what.endswith(" events")
        ]

    def forget_writes(self) -> None:
        self.fake.requests.clear()


@asynccontextmanager
async def open_world(
    *nodes: VirtualNode,
    fake: FakeApiServer | None = None,
    synced: bool = True,
    port: int | None = 10250,
    **policy: Any,
) -> AsyncIterator[World]:
    """Without `nodes` the provider hasn't spoken yet."""
    if fake is None:
        async with (
            FakeApiServer() as fresh,
            open_world(*nodes, fake=fresh, synced=synced, port=port, **policy) as world,
        ):
            yield world
        return
    async with fake.client("home") as client:
        events = EventRecorder(client, component="test")
        controller = NodeController(client, events, build_policy(**policy), now=Clock().now)
        world = World(fake, controller)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run()) for run in (events.run, controller.run)]
            await controller.wait_synced()
            if synced:
                controller.handle_status(Synced())
            if nodes:
                controller.set_desired(nodes)
            for name in controller.names if port else ():
                controller.set_port(name, port)
            await world.settle()
            yield world
            for task in tasks:
                task.cancel()


async def test_node_is_registered_complete_and_ready() -> None:
    async with open_world(build_virtual_node("n")) as world:
        node = world.node()
        assert node["metadata"]["labels"]["owner"] == "us"
        assert world.taints() == ["virtual"]
        assert world.condition() == ("True", "AllGood")
        assert world.writes() == ["create nodes"]
        assert await world.controller.wait_registered("n") == node["metadata"]["uid"]
        assert world.controller.is_published("n")


async def test_settled_node_costs_one_write_in_five_minutes() -> None:
    async with open_world(build_virtual_node("n")) as world:
        world.forget_writes()
        await world.settle(290)
        assert world.writes() == []
        await world.settle(1200)
        assert world.writes() == ["patch nodes/status"] * 4
        assert world.condition() == ("True", "AllGood")


async def test_node_is_not_there_before_its_server_listens() -> None:
    async with open_world(build_virtual_node("n"), port=None) as world:
        await world.settle(60)
        assert world.find() is None
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


async def test_what_others_edit_of_ours_is_restored() -> None:
    async with open_world(build_virtual_node("n")) as world:
        wrong = {"addresses": [{"type": "InternalIP", "address": "6.6.6.6"}], "capacity": {}}
        world.edit("status", **wrong)
        world.edit("spec", taints=[])
        world.edit("metadata", labels={"owner": "us", "type": "edited"})
        await world.settle()
        node = world.node()
        assert node["status"]["addresses"] == [{"type": "InternalIP", "address": "10.0.0.9"}]
        assert node["status"]["capacity"] == {"cpu": "8", "pods": "110"}
        assert world.taints() == ["virtual"]
        assert node["metadata"]["labels"]["type"] == "virtual-kubelet"


async def test_owner_label_that_was_taken_off_is_restored() -> None:
    async with open_world(build_virtual_node("n")) as world:
        uid = world.node()["metadata"]["uid"]
        world.edit("metadata", labels={"type": "virtual-kubelet"})
        await world.settle()
        assert world.node()["metadata"]["labels"]["owner"] == "us"
        assert world.node()["metadata"]["uid"] == uid


async def test_what_users_set_stays() -> None:
    async with open_world(build_virtual_node("n")) as world:
        labels = {**world.node()["metadata"]["labels"], "user": "label"}
        world.edit("metadata", labels=labels)
        taints = [*world.node()["spec"]["taints"], {"key": "user", "effect": "NoExecute"}]
        world.edit("spec", taints=taints, unschedulable=True)
        world.controller.set_desired([build_virtual_node("n", labels={"new": "label"})])
        await world.settle(600)
        node = world.node()
        assert node["metadata"]["labels"] == {"owner": "us", "user": "label", "new": "label"}
        assert world.taints() == ["virtual", "user"]
        assert node["spec"]["unschedulable"] is True


async def test_lifecycle_taints_pass() -> None:
    unreachable = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    wanted = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")
    nodes = build_virtual_node("n", taints=(wanted,))
    async with open_world(nodes) as world:
        assert world.taints() == []
        world.edit("spec", taints=[unreachable])
        await world.settle()
        assert world.taints() == ["node.kubernetes.io/unreachable"]
        world.edit("spec", taints=[])
        await world.settle(600)
        assert world.taints() == []


async def test_taint_and_label_that_are_no_longer_wanted_go_also_after_a_restart() -> None:
    async with FakeApiServer() as fake:
        async with open_world(build_virtual_node("n"), fake=fake):
            pass
        changed = build_virtual_node("n", taints=(Taint(key="other", effect="NoSchedule"),))
        async with open_world(changed, fake=fake) as world:
            assert world.taints() == ["other"]
            annotations = world.node()["metadata"]["annotations"]
            assert annotations["vkubelet.io/taints"] == "other:NoSchedule"
            world.controller.set_desired([build_virtual_node("n", taints=())])
            await world.settle()
            assert world.taints() == []
            assert "vkubelet.io/taints" not in world.node()["metadata"]["annotations"]


async def test_cordon_of_ours_comes_and_goes() -> None:
    async with open_world(build_virtual_node("n")) as world:
        world.controller.set_desired([build_virtual_node("n", cordon=True)])
        await world.settle()
        assert world.node()["spec"]["unschedulable"] is True
        world.controller.set_desired([build_virtual_node("n")])
        await world.settle()
        assert "unschedulable" not in world.node()["spec"]
        assert "vkubelet.io/cordoned" not in world.node()["metadata"]["annotations"]


async def test_status_is_written_at_most_once_a_second() -> None:
    async with open_world(build_virtual_node("n")) as world:
        world.forget_writes()
        for number in range(100):
            allocatable = {"cpu": str(number)}
            world.controller.set_desired([build_virtual_node("n", allocatable=allocatable)])
            await asyncio.sleep(0.1)
        await world.settle()
        assert world.node()["status"]["allocatable"] == {"cpu": "99"}
        assert 9 <= len(world.writes()) <= 12


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


async def test_restart_with_everything_well_writes_nothing() -> None:
    async with FakeApiServer() as fake:
        async with open_world(build_virtual_node("n"), fake=fake):
            pass
        fake.requests.clear()
        async with open_world(build_virtual_node("n"), fake=fake) as world:
            await world.settle(60)
            assert world.writes() == []


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


async def test_moved_process_publishes_its_address() -> None:
    async with FakeApiServer() as fake:
        node = build_virtual_node("n")
        async with open_world(node, fake=fake):
            pass
        live = fake.get(NODES, "", "n")
        old = [{"type": "InternalIP", "address": "10.0.0.1"}]
        fake.put({**live, "status": {**live["status"], "addresses": old}})
        async with open_world(fake=fake, synced=False) as world:
            assert world.node()["status"]["addresses"][0]["address"] == "10.0.0.9"


async def test_unwanted_node_of_ours_is_named_and_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeApiServer() as fake:
        async with open_world(build_virtual_node("old"), fake=fake):
            pass
        before = fake.get(NODES, "", "old")
        async with open_world(build_virtual_node("n"), fake=fake) as world:
            await world.settle(600)
            assert fake.get(NODES, "", "old") == before
            assert world.controller.names == {"n"}
            assert world.controller.owned_names == {"n", "old"}
        warnings = [r.getMessage() for r in caplog.records if "no longer wanted" in r.getMessage()]
        assert len(warnings) == 1
        assert warnings[0].startswith("old: ")


async def test_every_write_may_fail() -> None:
    async with FakeApiServer() as fake:
        fake.fail_next("create nodes", 500)
        fake.drop_next("create nodes")
        fake.cut_body_next("create nodes")  # it was made, but nobody told us
        for verb in ("patch", "apply"):
            fake.fail_next(f"{verb} nodes", 409, reason="Conflict")
            fake.fail_next(f"{verb} nodes", 500)
        fake.fail_next("patch nodes/status", 409, reason="Conflict")
        fake.fail_next("patch nodes/status", 500)
        async with open_world(build_virtual_node("n"), fake=fake) as world:
            await world.settle(30)
            changed = build_virtual_node(
                "n",
                labels={"new": "x"},
                taints=(Taint(key="other", effect="NoSchedule"),),
                cordon=True,
                conditions=(NodeCondition(type="Ready", status="False", reason="Down"),),
            )
            world.controller.set_desired([changed])
            await world.settle(60)
            node = world.node()
            assert node["metadata"]["labels"] == {"owner": "us", "new": "x"}
            assert world.taints() == ["other"]
            assert node["spec"]["unschedulable"] is True
            assert world.condition() == ("False", "Down")


async def test_cut_watch_and_a_node_deleted_meanwhile() -> None:
    async with open_world(build_virtual_node("n")) as world:
        await world.settle(10)
        world.fake.cut_watches()
        world.fake.remove(NODES, "", "n")
        world.fake.expire_history()
        await world.settle(60)
        assert world.condition() == ("True", "AllGood")


async def test_features_that_the_server_drops_are_written_once() -> None:
    async with FakeApiServer() as fake:

        def drop(call: Any) -> KubeObject:
            node = fake.get(NODES, "", "n")
            known = {k: v for k, v in call.body["status"].items() if k != "declaredFeatures"}
            return fake.put({**node, "status": {**node["status"], **known}})

        fake.handle("patch nodes/status", drop)
        async with open_world(build_virtual_node("n"), fake=fake) as world:
            features = build_virtual_node("n", declared_features=("A",))
            world.controller.set_desired([features])
            await world.settle(10)
            assert len(fake.calls("patch nodes/status")) == 1
