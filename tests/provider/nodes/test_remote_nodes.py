"""Virtual nodes that follow the remote cluster's nodes and the ledger."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest

from provider.mapping.errors import MappingError
from provider.mapping.groups import NodeGroup, NodeMapping
from provider.mapping.label import LabelMapping
from provider.mapping.membership import MembershipRules
from provider.mapping.naming import NodeNaming
from provider.mapping.per_node import PerNodeMapping
from provider.mapping.physical import PhysicalNode
from provider.mapping.resolve import restore_state
from provider.mapping.selector import SelectorMapping, parse_named_selector
from provider.nodes.remote_nodes import NodePlan, RemoteNodes
from provider.nodes.virtual_node import NodeSettings
from tests.fakes.api_server import FakeApiServer
from tests.fakes.physical_nodes import raw_node, taint
from tests.provider.values import PEERING
from vkubelet.interface import VirtualNode
from vkubelet.kube.objects import NODES, NamespacedName
from vkubelet.supervision import run_component

pytestmark = pytest.mark.virtual_time

BY_ZONE = LabelMapping("zone", NodeNaming("cloud-"))


def build_plan(mapping: NodeMapping = BY_ZONE, **parts: object) -> NodePlan:
    return NodePlan(
        mapping=mapping,
        rules=MembershipRules(),
        settings=NodeSettings(peering=PEERING, mapping="label"),
        **parts,  # type: ignore[arg-type]  # fields of the plan
    )


class World:
    """Remote nodes that run against a fake; `nodes` is what was yielded last."""

    def __init__(self, fake: FakeApiServer, remote: RemoteNodes) -> None:
        self.fake = fake
        self.remote = remote
        self.nodes: dict[str, VirtualNode] = {}
        self.yields = 0

    async def follow(self) -> None:
        async for nodes in self.remote.watch():
            self.nodes = {node.name: node for node in nodes}
            self.yields += 1

    async def settle(self) -> None:
        await asyncio.sleep(2)  # "a change is on the virtual node within 2 s"

    def cpu(self, name: str) -> str:
        return self.nodes[name].allocatable["cpu"]


@asynccontextmanager
async def open_world(
    *nodes: dict[str, object], plan: NodePlan | None = None
) -> AsyncIterator[World]:
    async with FakeApiServer() as fake, fake.client("remote") as client:
        for node in nodes:
            fake.put(node)
        world = World(fake, RemoteNodes(client, plan or build_plan()))
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(run_component("nodes", world.remote.informer.run)),
                group.create_task(run_component("follow", world.follow)),
            ]
            await world.settle()
            yield world
            for task in tasks:
                task.cancel()


async def test_values_of_the_label_come_and_go() -> None:
    async with open_world(raw_node("n1", {"zone": "a"})) as world:
        assert set(world.nodes) == {"cloud-a"}
        world.fake.put(raw_node("n2", {"zone": "b"}))
        await world.settle()
        assert set(world.nodes) == {"cloud-a", "cloud-b"}
        world.fake.put(raw_node("n1", {"zone": "b"}))
        await world.settle()
        assert set(world.nodes) == {"cloud-b"}
        assert world.cpu("cloud-b") == "8"


async def test_readiness_cordons_and_taints_are_followed() -> None:
    async with open_world(
        raw_node("n1", {"zone": "a"}), raw_node("n2", {"zone": "a"}, cpu="2")
    ) as world:
        assert world.cpu("cloud-a") == "6"
        world.fake.put(raw_node("n1", {"zone": "a"}, ready=False))
        await world.settle()
        assert world.cpu("cloud-a") == "2"
        world.fake.put(raw_node("n1", {"zone": "a"}, unschedulable=True))
        await world.settle()
        assert world.cpu("cloud-a") == "2"
        assert world.nodes["cloud-a"].capacity["cpu"] == "6"  # still a member
        world.fake.put(raw_node("n1", {"zone": "a"}, taints=[taint("x=y:NoSchedule")]))
        await world.settle()
        assert world.nodes["cloud-a"].capacity["cpu"] == "2"


async def test_the_ledger_is_subtracted_and_given_back() -> None:
    async with open_world(raw_node("n1", {"zone": "a"})) as world:
        ledger = world.remote.ledger
        ledger.set_remote_pod(
            NamespacedName("x", "foreign"), node="n1", requests={"cpu": Decimal(1)}
        )
        await world.settle()
        assert world.cpu("cloud-a") == "3"
        ledger.set_home_pod("u1", virtual_node="cloud-a", requests={"cpu": Decimal("0.5")})
        ledger.set_remote_pod(
            NamespacedName("x", "own"), node="n1", requests={"cpu": Decimal("0.5")}, home_uid="u1"
        )
        await world.settle()
        assert world.cpu("cloud-a") == "3"
        world.fake.remove(NODES, "", "n1")
        await world.settle()
        world.fake.put(raw_node("n1", {"zone": "a"}))
        await world.settle()
        assert world.cpu("cloud-a") == "3"  # the pods were there all the time


async def test_pods_on_an_overlap_are_foreign_use_for_the_other() -> None:
    mapping = SelectorMapping((parse_named_selector("all="), parse_named_selector("zone-a=zone=a")))
    node = raw_node("n1", {"zone": "a"})
    async with open_world(node, plan=build_plan(mapping)) as world:
        ledger = world.remote.ledger
        ledger.set_home_pod("u1", virtual_node="all", requests={"cpu": Decimal(1)})
        ledger.set_remote_pod(
            NamespacedName("x", "own"), node="n1", requests={"cpu": Decimal(1)}, home_uid="u1"
        )
        await world.settle()
        assert (world.cpu("all"), world.cpu("zone-a")) == ("4", "3")


async def test_a_heartbeat_yields_nothing() -> None:
    node = raw_node("n1", {"zone": "a"})
    async with open_world(node) as world:
        before = world.yields
        node["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:00Z"
        world.fake.put(node)
        await world.settle()
        assert world.yields == before


async def test_changes_that_come_together_are_yielded_together() -> None:
    async with open_world(raw_node("n0", {"zone": "a"})) as world:
        before = world.yields
        for number in range(1, 50):
            world.fake.put(raw_node(f"n{number}", {"zone": "a"}))
        await world.settle()
        assert world.cpu("cloud-a") == "200"
        assert world.yields - before <= 3


async def test_however_many_changes_there_are_they_are_told_once_a_second() -> None:
    async with open_world(raw_node("n1", {"zone": "a"})) as world:
        before = world.yields
        for number in range(100):
            world.remote.ledger.set_remote_pod(
                NamespacedName("x", f"p{number}"), node="n1", requests={"cpu": Decimal("0.01")}
            )
            await asyncio.sleep(0.1)
        await world.settle()
        assert 9 <= world.yields - before <= 12
        assert world.cpu("cloud-a") == "3"


async def test_names_and_slices_stay_across_a_restart() -> None:
    plan = build_plan(max_nodes=2)
    raw = [raw_node(f"n{number}", {"zone": "a"}) for number in range(1, 5)]
    async with open_world(*raw[1:], plan=plan) as world:
        nodes = dict(world.nodes)
        before = {name: world.remote.placement(name) for name in nodes}
    state = restore_state((name, node.annotations) for name, node in nodes.items())
    async with open_world(*raw, plan=build_plan(max_nodes=2, state=state)) as world:
        assert set(world.nodes) == set(nodes)
        after = {name: world.remote.placement(name) for name in world.nodes}
        kept = [name for name in nodes if before[name] == after[name]]
        assert len(kept) == 1  # n1 filled the free place of one slice, the other is as it was


async def test_what_confines_pods_is_known_for_each_virtual_node() -> None:
    async with open_world(raw_node("n1", {"zone": "a"})) as world:
        placement = world.remote.placement("cloud-a")
        assert placement is not None
        assert placement.selection.matches("n1", {"zone": "a"})
        assert not placement.selection.matches("n1", {"zone": "b"})
        assert world.remote.placement("cloud-b") is None


class _Unreliable:
    """A plugin that fails when it's told to."""

    def __init__(self) -> None:
        self.fails = False

    def group_nodes(self, nodes: Sequence[PhysicalNode]) -> Sequence[NodeGroup]:
        if self.fails:
            raise MappingError("node mapping 'odd' failed: ZeroDivisionError()")
        return BY_ZONE.group_nodes(nodes)


async def test_a_mapping_that_fails_later_leaves_the_nodes_as_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mapping = _Unreliable()
    async with open_world(raw_node("n1", {"zone": "a"}), plan=build_plan(mapping)) as world:
        before = dict(world.nodes)
        mapping.fails = True
        with caplog.at_level(logging.ERROR):
            world.fake.put(raw_node("n2", {"zone": "b"}))
            await world.settle()
        assert world.nodes == before
        assert "node mapping 'odd' failed" in caplog.text
        mapping.fails = False
        world.fake.put(raw_node("n3", {"zone": "c"}))
        await world.settle()
        assert set(world.nodes) == {"cloud-a", "cloud-b", "cloud-c"}


async def test_a_mapping_that_fails_at_first_ends_it() -> None:
    mapping = _Unreliable()
    mapping.fails = True
    async with FakeApiServer() as fake, fake.client("remote") as client:
        remote = RemoteNodes(client, build_plan(mapping))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(run_component("nodes", remote.informer.run))
            with pytest.raises(MappingError, match="failed"):
                await anext(remote.watch())
            task.cancel()


async def test_group_that_is_gone_is_kept_for_a_while_and_may_come_back() -> None:
    plan = build_plan(removal_delay_seconds=300.0)
    node = raw_node("n1", labels={"zone": "a"})
    async with open_world(node, raw_node("n2", labels={"zone": "b"}), plan=plan) as world:
        assert set(world.nodes) == {"cloud-a", "cloud-b"}
        world.fake.remove(NODES, "", "n1")
        await world.settle()
        assert set(world.nodes) == {"cloud-a", "cloud-b"}
        assert world.cpu("cloud-a") == "0"
        assert world.nodes["cloud-a"].conditions[0].reason == "NoEligibleNodes"
        assert world.remote.placement("cloud-a") is None
        await asyncio.sleep(200)
        world.fake.put(node)
        await world.settle()
        assert world.cpu("cloud-a") != "0"
        await asyncio.sleep(600)
        assert set(world.nodes) == {"cloud-a", "cloud-b"}
        world.fake.remove(NODES, "", "n1")
        await asyncio.sleep(298)
        assert set(world.nodes) == {"cloud-a", "cloud-b"}
        await asyncio.sleep(4)
        assert set(world.nodes) == {"cloud-b"}


async def test_a_change_of_what_confines_pods_is_told() -> None:
    told: list[str] = []
    plan = build_plan(PerNodeMapping(NodeNaming("cloud-")), max_nodes=1)
    async with open_world(
        raw_node("n1", {"zone": "a"}), raw_node("n2", {"zone": "b"}), plan=plan
    ) as world:
        world.remote.add_selection_handler(told.append)
        world.fake.put(raw_node("n1", {"zone": "a"}, cpu="8"))
        await world.settle()
        assert told == [], "capacity confines nobody"
        world.fake.put(raw_node("n1", {"zone": "c"}))  # a pod's own constraints look at the labels
        await world.settle()
        assert told == ["cloud-n1"]


async def test_the_physical_node_of_a_virtual_one() -> None:
    plan = build_plan(PerNodeMapping(NodeNaming("cloud-")))
    async with open_world(raw_node("a"), raw_node("b"), plan=plan) as world:
        assert world.remote.physical_node("cloud-a") == "a"
        assert world.remote.physical_node("gone") is None
    async with open_world(raw_node("a", labels={"zone": "x"})) as world:
        assert world.remote.physical_node("cloud-x") is None
