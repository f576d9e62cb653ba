"""The plan for people: fits 80 columns, loses nothing."""

from io import StringIO

from rich.console import Console

from provider.commands.plan_table import print_plan
from provider.mapping.membership import MembershipRules
from provider.mapping.physical import PhysicalNode
from provider.mapping.selector import SelectorMapping, parse_named_selector
from provider.node_report import build_node_report
from provider.nodes.remote_nodes import NodePlan
from provider.nodes.virtual_node import NodeSettings
from tests.fakes.physical_nodes import make_node, taint
from tests.provider.values import PEERING


def show(nodes: list[PhysicalNode], *virtual_nodes: str, max_nodes: int | None = None) -> str:
    plan = NodePlan(
        mapping=SelectorMapping(tuple(parse_named_selector(text) for text in virtual_nodes)),
        rules=MembershipRules(),
        settings=NodeSettings(peering=PEERING, mapping="selector"),
        max_nodes=max_nodes,
    )
    file = StringIO()
    print_plan(build_node_report(nodes, plan), Console(file=file, width=80))
    text = file.getvalue()
    assert all(len(line) <= 80 for line in text.splitlines())
    return text


def words(text: str) -> str:
    return " ".join(text.split())


def test_shows_all_there_is_to_a_virtual_node() -> None:
    nodes = [
        make_node("ssd-1", {"disk": "ssd", "kubernetes.io/arch": "amd64"}),
        make_node("ssd-2", {"disk": "ssd", "kubernetes.io/arch": "arm64"}, ready=False),
        make_node("hdd-1", {"disk": "hdd"}),
        make_node("master", {"disk": "ssd"}, taints=[taint("control-plane:NoSchedule")]),
    ]
    text = words(show(nodes, "fast=disk=ssd", "none=disk=tape"))
    assert "node mapping selector: 2 virtual nodes over 2 of 4 physical nodes" in text
    assert "fast behind it (2): ssd-1, ssd-2" in text
    assert "resource capacity allocatable largest free: ssd-1" in text
    assert "cpu 8 4 4 memory 16Gi 8Gi 8Gi pods 220 110 110" in text
    assert "its pods can go to: (disk=ssd, type!=virtual-kubelet)" in text
    assert "kubernetes.io/arch is left out: members have amd64, arm64" in text
    assert "none behind it (0): no physical node" in text
    assert "hdd-1 no --virtual-node's selector matches" in text
    assert "master taint control-plane:NoSchedule" in text
    assert "ssd-2 NotReady (KubeletNotReady)" in text
    assert "warning: no physical node stands behind virtual node none" in text


def test_long_names_wrap() -> None:
    nodes = [make_node(f"node-{number}.{'x' * 200}", {"disk": "ssd"}) for number in range(9)]
    text = show(nodes, "fast=disk=ssd", max_nodes=4)
    assert "fast-2" in text
