"""What is written to live Nodes, and what isn't."""

import asyncio
from typing import Any

import pytest

from tests.fakes.api_server import FakeApiServer
from tests.fakes.provider import build_virtual_node
from tests.vkubelet.node.world import open_world
from vkubelet.interface import (
    NodeCondition,
    Taint,
)
from vkubelet.kube.objects import NODES, KubeObject

pytestmark = pytest.mark.virtual_time


async def test_settled_node_costs_one_write_in_five_minutes() -> None:
    async with open_world(build_virtual_node("n")) as world:
        world.forget_writes()
        await world.settle(265)
        assert world.writes() == []
        await world.settle(1200)
        assert world.writes() in (["patch nodes/status"] * 4, ["patch nodes/status"] * 5)
        assert world.condition() == ("True", "AllGood")


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


async def test_value_that_a_user_sets_wins_over_an_inherited_one_only() -> None:
    mine = {"type": "virtual-kubelet", "zone": "a", "disk": "ssd"}
    node = build_virtual_node("n", labels=mine, inherited=frozenset({"zone", "disk", "owner"}))
    async with open_world(node) as world:
        by_user: KubeObject = {
            "manager": "kubectl-label",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:zone": {}, "f:type": {}, "f:owner": {}}},
            },
        }
        labels = {"type": "edited", "zone": "of-the-user", "owner": "us", "disk": "hdd"}
        world.edit("metadata", labels=labels, managedFields=[by_user])
        await world.settle()
        found = world.node()["metadata"]["labels"]
        assert found == {**mine, "owner": "us", "zone": "of-the-user"}
        world.forget_writes()
        await world.settle(200)
        assert world.writes() == []
        moved = build_virtual_node("n", labels={**mine, "zone": "b"}, inherited=node.inherited)
        world.controller.set_desired([moved])
        await world.settle()
        assert world.node()["metadata"]["labels"]["zone"] == "of-the-user"
        # Nobody's again, it's inherited again.
        kept = {key: value for key, value in found.items() if key != "zone"}
        world.edit("metadata", labels=kept, managedFields=[])
        await world.settle()
        assert world.node()["metadata"]["labels"]["zone"] == "b"


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


async def test_restart_with_everything_well_writes_nothing() -> None:
    async with FakeApiServer() as fake:
        async with open_world(build_virtual_node("n"), fake=fake):
            pass
        fake.requests.clear()
        async with open_world(build_virtual_node("n"), fake=fake) as world:
            await world.settle(60)
            assert world.writes() == []


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


async def test_change_of_others_before_the_answer_to_a_write_is_seen() -> None:
    async with open_world(build_virtual_node("n")) as world:
        world.fake.delay_answer_next("patch nodes", 2.0)
        world.controller.set_desired([build_virtual_node("n", cordon=True)])
        await world.settle(1.0)
        world.edit("metadata", labels={**world.node()["metadata"]["labels"], "others": "label"})
        await world.settle(5.0)
        world.forget_writes()
        world.controller.set_desired([build_virtual_node("n")])
        await world.settle(10.0)
        assert not world.node()["spec"].get("unschedulable")
        assert world.node()["metadata"]["labels"]["others"] == "label"
        assert world.writes() == ["patch nodes"], "none in vain"


async def test_features_that_the_server_drops_are_written_once() -> None:
    async with FakeApiServer() as fake:

        def drop(call: Any) -> KubeObject:
            node = fake.get(NODES, "", "n")
            status = {**node["status"], **call.body["status"]}
            status.pop("declaredFeatures", None)
            return fake.put({**node, "status": status})

        fake.handle("patch nodes/status", drop)
        async with open_world(build_virtual_node("n"), fake=fake) as world:
            features = build_virtual_node("n", declared_features=("A",))
            world.controller.set_desired([features])
            await world.settle(10)
            assert len(fake.calls("patch nodes/status")) == 1


async def test_taint_of_an_admin_that_is_removed_stays_away_over_restarts() -> None:
    async with FakeApiServer() as fake:
        node = build_virtual_node("n")
        async with open_world(node, fake=fake) as world:
            theirs = {"key": "maintenance", "effect": "NoSchedule"}
            world.edit("spec", taints=[*world.node()["spec"]["taints"], theirs])
            await world.settle()
        async with open_world(node, fake=fake) as world:
            assert world.taints() == ["virtual", "maintenance"]
            ours = [taint for taint in world.node()["spec"]["taints"] if taint["key"] == "virtual"]
            world.edit("spec", taints=ours)
            await world.settle(4000)
            assert world.taints() == ["virtual"]
        async with open_world(node, fake=fake) as world:
            await world.settle(600)
            assert world.taints() == ["virtual"]


async def test_taint_of_ours_is_never_there_twice() -> None:
    """The control plane adds lifecycle taints with times of its own beside ours."""
    async with open_world(build_virtual_node("n")) as world:
        lifecycle: KubeObject = {
            "key": "node.kubernetes.io/unreachable",
            "effect": "NoExecute",
            "timeAdded": "2026-01-01T00:00:00Z",
        }
        world.edit("spec", taints=[lifecycle])
        changed = Taint(key="virtual", value="other", effect="NoSchedule")
        world.controller.set_desired([build_virtual_node("n", taints=(changed,))])
        await world.settle()
        assert world.node()["spec"]["taints"] == [
            lifecycle,
            {"key": "virtual", "value": "other", "effect": "NoSchedule"},
        ]


async def test_conditions_and_fields_of_others_stay() -> None:
    async with open_world(build_virtual_node("n")) as world:
        status = world.node()["status"]
        theirs = {"type": "FromAnAgent", "status": "True", "reason": "Agent"}
        world.edit(
            "status", conditions=[*status["conditions"], theirs], volumesInUse=["of-somebody"]
        )
        world.edit("spec", podCIDR="10.1.0.0/24")
        down = NodeCondition(type="Ready", status="False", reason="Down")
        world.controller.set_desired([build_virtual_node("n", conditions=(down,))])
        await world.settle(600)
        node = world.node()
        assert theirs in node["status"]["conditions"]
        assert world.condition() == ("False", "Down")
        assert node["status"]["volumesInUse"] == ["of-somebody"]
        assert node["spec"]["podCIDR"] == "10.1.0.0/24"
