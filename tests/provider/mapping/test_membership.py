from typing import Any

import pytest

from provider.mapping.membership import (
    MembershipRules,
    NodeReason,
    find_eligible,
    reason_ineligible,
)
from provider.taints import parse_accepted_taint
from tests.fakes.physical_nodes import make_node, taint
from vkubelet.kube.selector import parse_selector

RULES = MembershipRules(
    parse_selector("pool in (a,b)"), (parse_accepted_taint("spot=yes:NoSchedule"),)
)


@pytest.mark.parametrize(
    ("labels", "taints", "reason"),
    [
        ({"pool": "a"}, [], None),
        ({"pool": "c"}, [], "selector pool in (a,b) doesn't match"),
        ({}, [], "selector pool in (a,b) doesn't match"),
        ({"pool": "a", "type": "virtual-kubelet"}, [], "is a virtual node"),
        ({"pool": "a", "type": "other"}, [], None),
        ({"pool": "a"}, ["gpu=yes:NoSchedule"], "taint gpu=yes:NoSchedule"),
        ({"pool": "a"}, ["gpu:NoExecute"], "taint gpu:NoExecute"),
        ({"pool": "a"}, ["gpu:PreferNoSchedule"], None),
        ({"pool": "a"}, ["spot=yes:NoSchedule"], None),
        ({"pool": "a"}, ["spot=no:NoSchedule"], "taint spot=no:NoSchedule"),
        ({"pool": "a"}, ["spot=yes:NoSchedule", "x:NoSchedule"], "taint x:NoSchedule"),
        (
            {"pool": "a"},
            ["node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/x:NoSchedule"],
            None,
        ),
    ],
)
def test_members(labels: dict[str, str], taints: list[str], reason: str | None) -> None:
    node = make_node("n", labels, taints=[taint(text) for text in taints])
    assert RULES.reason_left_out(node) == reason


def test_a_control_plane_is_left_out_by_default() -> None:
    node = make_node("n", taints=[taint("node-role.kubernetes.io/control-plane:NoSchedule")])
    reason = MembershipRules().reason_left_out(node)
    assert reason == "taint node-role.kubernetes.io/control-plane:NoSchedule"


@pytest.mark.parametrize("options", [{"ready": False}, {"unschedulable": True}])
def test_a_cordon_or_blip_changes_no_membership(options: dict[str, Any]) -> None:
    assert MembershipRules().reason_left_out(make_node("n", **options)) is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, None),
        ({"ready": False}, "NotReady (KubeletNotReady)"),
        ({"conditions": []}, "NotReady"),
        ({"unschedulable": True}, "cordoned"),
        ({"ready": False, "unschedulable": True}, "NotReady (KubeletNotReady)"),
    ],
)
def test_eligibility(options: dict[str, Any], reason: str | None) -> None:
    node = make_node("n", **options)
    assert reason_ineligible(node) == reason
    assert find_eligible([node]) == ((node,) if reason is None else ())


def test_every_selection_is_kept_off_virtual_nodes() -> None:
    texts = [str(requirement) for requirement in RULES.requirements]
    assert texts == ["pool in (a,b)", "type!=virtual-kubelet"]


def test_a_reason_names_its_node() -> None:
    assert str(NodeReason("n1", "cordoned")) == "n1: cordoned"
