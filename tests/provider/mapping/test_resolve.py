import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from provider.mapping.cluster import ClusterMapping
from provider.mapping.label import LabelMapping
from provider.mapping.membership import MembershipRules, NodeReason
from provider.mapping.naming import NodeNaming
from provider.mapping.per_node import PerNodeMapping
from provider.mapping.resolve import MappedNodes, MappingState, map_nodes, restore_state
from provider.mapping.selector import SelectorMapping, parse_named_selector
from provider.mapping.split import format_slice
from tests.fakes.physical_nodes import make_node, taint
from vkubelet.kube.selector import parse_selector

CLUSTER = ClusterMapping("cloud")
POOLS = LabelMapping("pool", NodeNaming())
NO_RULES = MembershipRules()


def layout(mapped: MappedNodes) -> dict[str, list[str]]:
    return {group.name: [node.name for node in group.members] for group in mapped.groups}


def test_every_node_is_behind_a_virtual_node_or_left_out_with_a_reason() -> None:
    nodes = [
        make_node("b", {"disk": "ssd"}),
        make_node("a", {"disk": "ssd"}, ready=False),
        make_node("c", {"disk": "hdd"}),
        make_node("d", {"disk": "ssd"}, taints=[taint("x:NoSchedule")]),
        make_node("e", {"disk": "ssd", "type": "virtual-kubelet"}),
        make_node("f", {"disk": "ssd"}, unschedulable=True),
    ]
    mapped = map_nodes(nodes, CLUSTER, MembershipRules(parse_selector("disk=ssd")))
    assert layout(mapped) == {"cloud": ["a", "b", "f"]}
    assert mapped.left_out == (
        NodeReason("c", "selector disk=ssd doesn't match"),
        NodeReason("d", "taint x:NoSchedule"),
        NodeReason("e", "is a virtual node"),
    )
    assert mapped.ineligible == (
        NodeReason("a", "NotReady (KubeletNotReady)"),
        NodeReason("f", "cordoned"),
    )
    assert mapped.warnings == ()


@pytest.mark.parametrize(
    "mapping",
    [
        CLUSTER,
        POOLS,
        PerNodeMapping(NodeNaming()),
        SelectorMapping((parse_named_selector("x=pool"),)),
    ],
)
@pytest.mark.parametrize("max_nodes", [None, 1])
def test_node_selector_and_no_virtual_nodes_are_in_every_selection(
    mapping: Any, max_nodes: int | None
) -> None:
    rules = MembershipRules(parse_selector("disk=ssd"))
    nodes = [make_node(name, {"pool": "p", "disk": "ssd"}) for name in ("n1", "n2")]
    mapped = map_nodes(nodes, mapping, rules, max_nodes=max_nodes)
    for group in mapped.groups:
        for node in group.members:
            assert group.selection.matches(node.name, node.labels)
            assert not group.selection.matches(node.name, {**node.labels, "disk": "hdd"})
            assert not group.selection.matches(
                node.name, {**node.labels, "type": "virtual-kubelet"}
            )


def test_a_mode_says_why_it_leaves_a_node_out() -> None:
    mapped = map_nodes([make_node("n")], POOLS, NO_RULES)
    assert mapped.groups == ()
    assert mapped.left_out == (NodeReason("n", "no label pool"),)


def test_named_virtual_nodes_exist_without_members_and_a_warning_says_so() -> None:
    mapping = SelectorMapping((parse_named_selector("ssd=disk=ssd"),))
    mapped = map_nodes([make_node("n")], mapping, NO_RULES)
    assert layout(mapped) == {"ssd": []}
    assert mapped.warnings == ("no physical node stands behind virtual node ssd",)


def test_overlap_is_warned_of() -> None:
    mapping = SelectorMapping((parse_named_selector("a=x"), parse_named_selector("b=x")))
    nodes = [make_node(f"n{number}", {"x": ""}) for number in range(5)]
    (warning,) = map_nodes(nodes, mapping, NO_RULES).warnings
    assert warning == (
        "virtual nodes a and b overlap: pods on one take from the other (n0, n1, n2 and 2 more)"
    )


def test_a_name_clash_is_told_with_both_and_decided_the_same_way_always() -> None:
    nodes = [make_node("n1", {"pool": "gpu"}), make_node("n2", {"pool": "GPU"})]
    mapped = map_nodes(nodes, POOLS, NO_RULES)
    reason = "'gpu' and 'GPU' both give the name 'gpu'"
    assert layout(mapped) == {"gpu": ["n2"]}
    assert mapped.left_out == (NodeReason("n1", reason),)
    assert mapped.warnings == (f"name clash: {reason}",)


def test_who_has_a_name_keeps_it() -> None:
    first = map_nodes([make_node("n1", {"pool": "gpu"})], POOLS, NO_RULES)
    nodes = [make_node("n1", {"pool": "gpu"}), make_node("n2", {"pool": "GPU"})]
    assert layout(map_nodes(nodes, POOLS, NO_RULES, state=first.state)) == {"gpu": ["n1"]}


def test_a_slice_and_a_group_of_the_same_name_clash() -> None:
    mapping = SelectorMapping((parse_named_selector("a=x"), parse_named_selector("a-0=y")))
    nodes = [make_node("n1", {"x": ""}), make_node("n2", {"x": ""}), make_node("n3", {"y": ""})]
    mapped = map_nodes(nodes, mapping, NO_RULES, max_nodes=1)
    assert layout(mapped) == {"a-0": ["n3"], "a-1": ["n2"]}
    assert [reason.node for reason in mapped.left_out] == ["n1"]


def test_split_survives_a_restart_by_the_annotations_of_virtual_nodes() -> None:
    nodes = [make_node(f"n{number}") for number in range(5)]
    mapped = map_nodes(nodes, CLUSTER, NO_RULES, max_nodes=2)
    later = map_nodes(
        [*nodes[1:], make_node("a")], CLUSTER, NO_RULES, max_nodes=2, state=mapped.state
    )
    annotations = [
        (group.name, {"vkubelet.io/group": group.origin, **format_slice(group)})
        for group in later.groups
    ]
    assert restore_state(annotations) == later.state
    assert restore_state([("real-node", {})]) == MappingState()


def test_a_cordon_moves_no_node_between_slices() -> None:
    nodes = [make_node(f"n{number}") for number in range(4)]
    mapped = map_nodes(nodes, CLUSTER, NO_RULES, max_nodes=2)
    blinking = [make_node(f"n{number}", ready=False, unschedulable=True) for number in range(4)]
    later = map_nodes(blinking, CLUSTER, NO_RULES, max_nodes=2, state=mapped.state)
    assert layout(later) == layout(mapped)


def test_one_to_one_is_never_split() -> None:
    mapped = map_nodes([make_node("n")], PerNodeMapping(NodeNaming()), NO_RULES, max_nodes=1)
    assert [(group.name, group.slice) for group in mapped.groups] == [("n", None)]


@given(
    st.lists(st.tuples(st.sampled_from(["gpu", "GPU", "spot", ""]), st.booleans()), max_size=8),
    st.sampled_from([None, 1, 2]),
    st.randoms(use_true_random=False),
)
def test_the_order_of_nodes_does_not_matter(
    kinds: list[tuple[str, bool]], max_nodes: int | None, shuffler: random.Random
) -> None:
    nodes = [
        make_node(f"n{at}", {"pool": pool} if pool else {}, ready=ready)
        for at, (pool, ready) in enumerate(kinds)
    ]
    mapped = map_nodes(nodes, POOLS, NO_RULES, max_nodes=max_nodes)
    grouped = [node.name for group in mapped.groups for node in group.members]
    assert sorted([*grouped, *(item.node for item in mapped.left_out)]) == sorted(
        node.name for node in nodes
    )
    shuffler.shuffle(nodes)
    assert map_nodes(nodes, POOLS, NO_RULES, max_nodes=max_nodes) == mapped
