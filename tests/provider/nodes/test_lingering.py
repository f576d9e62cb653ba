"""Virtual nodes whose group is gone."""

import asyncio

import pytest

from provider.nodes.lingering import LingeringNodes
from vkubelet.interface import NodeCondition, VirtualNode

pytestmark = pytest.mark.virtual_time

NETWORK = NodeCondition(type="NetworkUnavailable", status="False", reason="RouteCreated")
NODE = VirtualNode(
    name="n",
    labels={"zone": "a"},
    annotations={"vkubelet.io/largest-free-node": "x", "other": "y"},
    capacity={"cpu": "8"},
    allocatable={"cpu": "7", "nvidia.com/gpu": "1"},
    conditions=(NodeCondition(type="Ready", status="True", reason="KubeletReady"), NETWORK),
    node_info={"architecture": "amd64"},
)


async def test_it_stays_for_a_while_with_nothing_to_offer() -> None:
    lingering = LingeringNodes(300.0)
    lingering.update({"n": NODE}, {"m": NODE})
    [kept] = lingering.current()
    assert kept.allocatable == {"cpu": "0", "nvidia.com/gpu": "0"}
    assert kept.capacity == NODE.capacity
    assert kept.labels == NODE.labels
    assert kept.node_info == NODE.node_info
    ready, network = kept.conditions
    assert (ready.type, ready.status, ready.reason) == ("Ready", "False", "NoEligibleNodes")
    assert network == NETWORK
    assert "other" in kept.annotations
    assert lingering.seconds_to_next == 300.0
    await asyncio.sleep(299)
    assert lingering.current() == [kept]
    await asyncio.sleep(1)
    assert lingering.current() == []
    assert lingering.seconds_to_next is None


async def test_its_time_counts_from_when_it_went() -> None:
    lingering = LingeringNodes(300.0)
    lingering.update({"n": NODE}, {})
    await asyncio.sleep(200)
    lingering.update({"m": NODE}, {})
    await asyncio.sleep(100)
    assert len(lingering.current()) == 1
    assert lingering.seconds_to_next == pytest.approx(200.0)


async def test_group_that_comes_back_ends_it() -> None:
    lingering = LingeringNodes(300.0)
    lingering.update({"n": NODE}, {})
    lingering.update({}, {"n": NODE})
    assert lingering.current() == []
    lingering.update({"n": NODE}, {"n": NODE})
    assert lingering.current() == []


async def test_no_delay() -> None:
    lingering = LingeringNodes(0.0)
    lingering.update({"n": NODE}, {})
    assert lingering.current() == []
