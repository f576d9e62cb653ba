import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from provider.mapping.groups import NodeGroup, Slice
from provider.mapping.physical import PhysicalNode
from provider.nodes.figures import Figures, FreeNode, OfferPolicy, compute_figures
from provider.nodes.virtual_node import (
    NodeSettings,
    build_deserted,
    build_view,
    build_virtual_node,
    describe_mixed,
    replace_figures,
)
from provider.peering import Peering
from provider.translation.selection import Selection
from tests.fakes.physical_nodes import make_node, taint
from vkubelet.interface import NodeCondition, Taint, VirtualNode
from vkubelet.kube.names import is_label_value

SETTINGS = NodeSettings(peering=Peering("h-1", "home", "cloud"), mapping="cluster")


def settings(**fields: Any) -> NodeSettings:
    return NodeSettings(peering=SETTINGS.peering, mapping="cluster", **fields)


def build(
    *members: PhysicalNode,
    with_settings: NodeSettings = SETTINGS,
    name: str = "cloud",
    **fields: Any,
) -> VirtualNode:
    group = group_of(*members, name=name, **fields)
    return build_virtual_node(group, compute_figures(group, OfferPolicy()), with_settings)


def group_of(*members: PhysicalNode, name: str = "cloud", **fields: Any) -> NodeGroup:
    return NodeGroup(key="k", name=name, members=members, selection=Selection.of_all(), **fields)


def conditions(node: VirtualNode) -> dict[str, tuple[str, str]]:
    return {item.type: (item.status, item.reason) for item in node.conditions}


def test_the_whole_node() -> None:
    common = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "zone": "a"}
    node = build(
        make_node("n1", {**common, "kubernetes.io/hostname": "n1", "disk": "ssd"}),
        make_node("n2", {**common, "kubernetes.io/hostname": "n2", "disk": "hdd"}),
    )
    assert node == VirtualNode(
        name="cloud",
        labels={
            **common,
            "topology.kubernetes.io/region": "cloud",
            "type": "virtual-kubelet",
            "kubernetes.io/hostname": "cloud",
            "node.kubernetes.io/exclude-from-external-load-balancers": "",
            "vkubelet.io/home-cluster": "h-1",
            "vkubelet.io/peering": "cloud",
            "vkubelet.io/node-mapping": "cluster",
        },
        inherited=frozenset({*common, "topology.kubernetes.io/region"}),
        annotations={
            "vkubelet.io/group": "k",
            "vkubelet.io/members": '{"eligible":2,"members":2}',
            "vkubelet.io/largest-free-node": (
                '{"free":{"cpu":"4","memory":"8Gi","pods":"110"},"name":"n1"}'
            ),
        },
        taints=(Taint(key="virtual-kubelet.io/provider", value="cloud", effect="NoSchedule"),),
        capacity={"cpu": "8", "memory": "16Gi", "pods": "220"},
        allocatable={"cpu": "8", "memory": "16Gi", "pods": "220"},
        conditions=(
            NodeCondition(
                type="Ready",
                status="True",
                reason="KubeletReady",
                message="2 of 2 physical nodes are ready and schedulable",
            ),
            NodeCondition(
                type="MemoryPressure", status="False", reason="KubeletHasSufficientMemory"
            ),
            NodeCondition(type="DiskPressure", status="False", reason="KubeletHasNoDiskPressure"),
            NodeCondition(type="PIDPressure", status="False", reason="KubeletHasSufficientPID"),
            NodeCondition(type="NetworkUnavailable", status="False", reason="RouteCreated"),
        ),
        node_info=node.node_info,
    )


def test_labels_of_the_user_win_over_physical_ones_but_not_over_ours() -> None:
    given = settings(labels={"disk": "mine", "type": "real", "vkubelet.io/peering": "x"})
    labels = build(make_node("n", {"disk": "ssd"}), with_settings=given).labels
    assert labels["disk"] == "mine"
    assert labels["type"] == "virtual-kubelet"
    assert labels["vkubelet.io/peering"] == "cloud"


def test_labels_of_vendors_and_of_virtual_nodes_are_not_taken_over() -> None:
    physical = {
        "kubernetes.azure.com/cluster": "c",
        "vkubelet.io/peering": "other",
        "virtual-kubelet.io/x": "y",
        "type": "physical",
        "keep": "me",
    }
    labels = build(make_node("n", physical)).labels
    assert labels["keep"] == "me"
    assert labels["vkubelet.io/peering"] == "cloud"
    assert not {"kubernetes.azure.com/cluster", "virtual-kubelet.io/x"} & labels.keys()
    chosen = settings(excluded_labels=("ke?p",))
    labels = build(make_node("n", physical), with_settings=chosen).labels
    assert "keep" not in labels
    assert "kubernetes.azure.com/cluster" in labels


def test_a_common_region_is_kept() -> None:
    node = build(make_node("n", {"topology.kubernetes.io/region": "eu"}))
    assert node.labels["topology.kubernetes.io/region"] == "eu"


def test_mixed_architectures_are_left_out_and_told() -> None:
    group = group_of(
        make_node("n1", {"kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux"}),
        make_node("n2", {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}),
    )
    node = build(*group.members)
    assert "kubernetes.io/arch" not in node.labels
    assert node.labels["kubernetes.io/os"] == "linux"
    assert describe_mixed(group) == ("kubernetes.io/arch is left out: members have amd64, arm64",)
    assert describe_mixed(group_of(make_node("n"))) == ()


def test_a_long_name_is_hashed_in_the_hostname() -> None:
    node = build(make_node("n"), name="n" * 253)
    assert is_label_value(node.labels["kubernetes.io/hostname"])


def test_taints() -> None:
    own = Taint(key="team", value="a", effect="NoSchedule")
    physical = [taint("spot:NoSchedule"), taint("node.kubernetes.io/x:NoExecute")]
    tainted = make_node("n", taints=physical)
    default = Taint(key="virtual-kubelet.io/provider", value="cloud", effect="NoSchedule")
    assert build(tainted, with_settings=settings(taints=(own, own))).taints == (default, own)
    assert build(tainted, with_settings=settings(default_taint=False)).taints == ()
    replaced = Taint(key="virtual-kubelet.io/provider", value="x", effect="NoSchedule")
    assert build(tainted, with_settings=settings(taints=(replaced,))).taints == (replaced,)


def test_a_named_virtual_node_without_members() -> None:
    node = build(named=True)
    assert conditions(node)["Ready"] == ("False", "NoEligibleNodes")
    assert node.allocatable == {"cpu": "0", "memory": "0", "pods": "0"}
    assert node.declared_features == ()
    assert node.labels["topology.kubernetes.io/region"] == "cloud"


@pytest.mark.parametrize("options", [{"ready": False}, {"unschedulable": True}])
def test_members_that_are_not_eligible_evict_nobody(options: dict[str, Any]) -> None:
    node = build(make_node("n1", **options), make_node("n2", **options))
    assert conditions(node)["Ready"] == ("True", "NoEligibleNodes")
    assert node.allocatable["cpu"] == "0"
    assert node.capacity["cpu"] == "8"
    assert not node.cordon


def test_one_to_one_mirrors_conditions_and_cordon() -> None:
    physical = make_node(
        "n1",
        unschedulable=True,
        conditions=[
            {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "m"},
            {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure"},
            {"type": "NetworkUnavailable", "status": "True", "reason": "NoRoute"},
        ],
    )
    node = build(physical, one_to_one=True)
    assert conditions(node) == {
        "Ready": ("Unknown", "NodeStatusUnknown"),
        "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
        "DiskPressure": ("True", "KubeletHasDiskPressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID"),
        "NetworkUnavailable": ("False", "RouteCreated"),
    }
    assert node.cordon


def test_one_to_one_has_all_labels() -> None:
    node = build(make_node("n1", {"foo": "bar", "kubernetes.io/hostname": "n1"}), one_to_one=True)
    assert node.labels["foo"] == "bar"
    assert node.labels["kubernetes.io/hostname"] == "cloud"


def test_one_to_one_says_once_what_is_free() -> None:
    node = build(make_node("n1"), one_to_one=True)
    assert set(node.annotations) == {"vkubelet.io/group", "vkubelet.io/members"}


def test_other_figures_change_nothing_else() -> None:
    group = group_of(make_node("n1"), make_node("n2"))
    used = {"n1": {"cpu": Decimal(3)}}
    figures = compute_figures(group, OfferPolicy(), used=lambda name: used.get(name, {}))
    before = build(make_node("n1"), make_node("n2"))
    after = replace_figures(before, figures)
    assert after == build_virtual_node(group, figures, SETTINGS)
    assert after.allocatable["cpu"] == "5"
    assert json.loads(after.annotations["vkubelet.io/largest-free-node"])["name"] == "n2"


def test_features_that_all_members_declare() -> None:
    first = make_node("n1", declaredFeatures=["A", "B", "ExtendWebSocketsToKubelet"])
    second = make_node("n2", declaredFeatures=["ExtendWebSocketsToKubelet", "B", "C"])
    assert build(first, second).declared_features == ("B",)


def test_node_info_is_what_members_share_and_the_lowest_version() -> None:
    def info(version: str, kernel: str) -> dict[str, str]:
        return {"kubeletVersion": version, "kernelVersion": kernel, "operatingSystem": "linux"}

    node = build(
        make_node("n1", nodeInfo=info("v1.10.1", "6.1")),
        make_node("n2", nodeInfo=info("v1.9.12", "6.2")),
    )
    assert node.node_info["kubeletVersion"] == "v1.9.12"
    assert node.node_info["kernelVersion"] == ""
    assert node.node_info["operatingSystem"] == "linux"
    assert len(node.node_info) == 10
    assert build(named=True).node_info["kubeletVersion"] == ""


def test_a_slice_keeps_its_members_in_an_annotation() -> None:
    node = build(make_node("n1"), slice=Slice("k", 2, plain=False))
    assert json.loads(node.annotations["vkubelet.io/slice-members"]) == {
        "parent": "k",
        "index": 2,
        "plain": False,
        "members": ["n1"],
    }


def test_members_and_how_many_take_pods_are_told() -> None:
    node = build(make_node("n1"), make_node("n2", ready=False), make_node("n3"))
    assert json.loads(node.annotations["vkubelet.io/members"]) == {"eligible": 2, "members": 3}
    deserted = build_deserted(node)
    assert json.loads(deserted.annotations["vkubelet.io/members"]) == {"eligible": 0, "members": 0}


def test_annotations_of_the_user() -> None:
    node = build(make_node("n1"), with_settings=settings(annotations={"a": "b"}))
    assert node.annotations["a"] == "b"


def test_amounts_are_canonical_text() -> None:
    figures = Figures(
        {"cpu": Decimal("1.5"), "memory": Decimal(2**30)},
        {"cpu": Decimal("0.0001"), "x/gpu": Decimal("2.5")},
        FreeNode("n1", {"cpu": Decimal("0.1")}),
    )
    node = build_virtual_node(group_of(make_node("n1")), figures, SETTINGS)
    assert node.capacity == {"cpu": "1500m", "memory": "1Gi"}
    assert node.allocatable == {"cpu": "0", "x/gpu": "2"}
    assert json.loads(node.annotations["vkubelet.io/largest-free-node"]) == {
        "name": "n1",
        "free": {"cpu": "100m"},
    }


def test_a_pod_is_held_against_what_only_the_virtual_node_has() -> None:
    given = settings(labels={"team": "a"})
    group = group_of(make_node("n1", {"zone": "a"}))
    view = build_view(build(*group.members, with_settings=given), group, given)
    home_only = ("team", "topology.kubernetes.io/region", "type", "kubernetes.io/hostname")
    assert all(view.is_home_only(key) for key in home_only)
    assert not view.is_home_only("zone")
    assert view.labels["team"] == "a"
    regional = group_of(make_node("n1", {"topology.kubernetes.io/region": "eu"}))
    view = build_view(build(*regional.members), regional, SETTINGS)
    assert not view.is_home_only("topology.kubernetes.io/region")


def test_what_the_user_or_we_set_is_not_inherited() -> None:
    settings = replace(SETTINGS, labels={"zone": "mine", "extra": "x"})
    member = make_node("n1", {"zone": "a", "disk": "ssd", "type": "physical"})
    node = build(member, with_settings=settings)
    assert node.labels["zone"] == "mine"
    assert node.inherited == {"disk", "topology.kubernetes.io/region"}
