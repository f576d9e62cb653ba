"""Registration of a Node, and the patches that make a live one as wanted."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fakes.api_objects import json_patch, merge_patch
from tests.fakes.provider import build_virtual_node
from vkubelet.config import KubeletPolicy, UnreachableAction, UnreachablePolicy
from vkubelet.interface import Taint
from vkubelet.kube.objects import KubeObject
from vkubelet.node import object as node_object
from vkubelet.node.reachability import Reach
from vkubelet.node.wanted import WantedNode, compose

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
POLICY = KubeletPolicy(owner_labels={"owner": "us"}, address="10.0.0.9", kubelet_version="v1.2.3")
KEEP = replace(POLICY, unreachable=UnreachablePolicy(action=UnreachableAction.KEEP))
KEEP_TAINT = {"key": "vkubelet.io/remote-unreachable", "effect": "NoSchedule"}
OURS = {"key": "virtual", "effect": "NoSchedule", "value": "yes"}
FOREIGN = {"key": "mine", "effect": "NoExecute", "value": "x"}
LIFECYCLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "t"}


def want(policy: KubeletPolicy = POLICY, reach: Reach = Reach.REACHED, **fields: Any) -> WantedNode:
    return compose(build_virtual_node("n", **fields), policy, reach, port=10250)


def build_live(
    wanted: WantedNode | None = None, *, taints: list[KubeObject] | None = None
) -> KubeObject:
    live = node_object.build_node(wanted or want(), POLICY, NOW)
    live["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    if taints is not None:
        live["spec"]["taints"] = taints
    return live


def taints_after(live: KubeObject, wanted: WantedNode, policy: KubeletPolicy = POLICY) -> Any:
    patch = node_object.build_taints_patch(live, wanted, policy)
    return None if patch is None else json_patch(live, patch)["spec"]["taints"]


def test_registration_has_labels_taints_and_status_at_once() -> None:
    node = node_object.build_node(want(annotations={"a": "b"}), POLICY, NOW)
    assert node["metadata"] == {
        "name": "n",
        "labels": {"type": "virtual-kubelet", "kubernetes.io/hostname": "n", "owner": "us"},
        "annotations": {"a": "b", "vkubelet.io/taints": "virtual:NoSchedule"},
    }
    assert node["spec"] == {"taints": [OURS]}
    status = node["status"]
    assert status["addresses"] == [{"type": "InternalIP", "address": "10.0.0.9"}]
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
    assert status["nodeInfo"]["kubeletVersion"] == "v1.2.3"
    assert status["conditions"] == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "AllGood",
            "message": "",
            "lastHeartbeatTime": "2026-01-02T03:04:05Z",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
    ]


def test_registration_before_anything_was_reached_is_not_ready() -> None:
    node = node_object.build_node(want(reach=Reach.UNKNOWN), POLICY, NOW)
    [ready] = node["status"]["conditions"]
    assert (ready["type"], ready["status"]) == ("Ready", "False")


def test_registration_with_a_cordon() -> None:
    node = node_object.build_node(want(cordon=True), POLICY, NOW)
    assert node["spec"]["unschedulable"] is True
    assert node["metadata"]["annotations"]["vkubelet.io/cordoned"] == "true"


def test_lifecycle_taints_are_never_ours() -> None:
    taint = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
    assert want(taints=(taint,)).taints == ()


def test_ownership() -> None:
    live = build_live()
    assert node_object.is_owned(live, {"owner": "us"})
    assert not node_object.is_owned(live, {"owner": "us", "other": "x"})
    assert not node_object.is_owned({"metadata": {"name": "n"}}, {"owner": "us"})


def test_metadata_apply() -> None:
    live = build_live()
    assert node_object.build_metadata_apply(live, {"owner": "us"}, {}) is None
    body = node_object.build_metadata_apply(live, {"owner": "us", "new": "x"}, {"a": "b"})
    assert body is not None
    assert body["metadata"] == {
        "name": "n",
        "uid": "u",
        "labels": {"owner": "us", "new": "x"},
        "annotations": {"a": "b"},
    }
    assert "spec" not in body


def test_managed_keys() -> None:
    def entry(manager: str, *keys: str) -> KubeObject:
        fields: KubeObject = {
            "f:metadata": {"f:labels": {".": {}, **{f"f:{key}": {} for key in keys}}}
        }
        return {"manager": manager, "fieldsV1": fields}

    live = build_live()
    live["metadata"]["managedFields"] = [
        entry("us", "a/b", "c"),
        entry("agent", "d"),
        entry("user", "c"),
        {"manager": "status"},
    ]
    ours, others = node_object.managed_keys(live, "labels", {"us", "agent"})
    assert (ours, others) == ({"a/b", "c", "d"}, {"c"})
    assert node_object.managed_keys(build_live(), "labels", {"us"}) == (set(), set())


def test_removal_of_stale_keys() -> None:
    live = build_live()
    patch = node_object.build_removal_patch(live, {"labels": ["type", "absent"], "annotations": []})
    assert patch is not None
    after = merge_patch(live, patch)
    assert "type" not in after["metadata"]["labels"]
    assert patch["metadata"]["resourceVersion"] == "7"
    assert node_object.build_removal_patch(live, {"labels": ["absent"]}) is None


@pytest.mark.parametrize(
    ("live", "after"),
    [
        ([OURS], None),
        ([], [OURS]),
        ([FOREIGN, LIFECYCLE], [FOREIGN, LIFECYCLE, OURS]),
        ([{**OURS, "value": "edited"}, FOREIGN], [OURS, FOREIGN]),
        ([{**OURS, "effect": "NoExecute"}], [{**OURS, "effect": "NoExecute"}, OURS]),
        ([{**OURS, "timeAdded": "t"}], None),
    ],
)
def test_taints(live: list[KubeObject], after: list[KubeObject] | None) -> None:
    assert taints_after(build_live(taints=live), want()) == after


def test_taints_of_an_earlier_life_are_taken_away() -> None:
    live = build_live(taints=[OURS, FOREIGN])
    wanted = want(taints=(Taint(key="other", effect="NoSchedule"),))
    annotations = node_object.wanted_annotations(live, wanted, POLICY)
    assert annotations["vkubelet.io/taints"] == "other:NoSchedule,virtual:NoSchedule"
    live["metadata"]["annotations"] = annotations
    taints = taints_after(live, wanted)
    assert taints == [FOREIGN, {"key": "other", "effect": "NoSchedule"}]
    live["spec"]["taints"] = taints
    annotations = node_object.wanted_annotations(live, wanted, POLICY)
    assert annotations["vkubelet.io/taints"] == "other:NoSchedule"


def test_taint_that_an_admin_added_and_removed_stays_away() -> None:
    assert taints_after(build_live(taints=[OURS, FOREIGN]), want()) is None
    assert taints_after(build_live(taints=[OURS]), want()) is None


def test_keep_taint_comes_and_goes() -> None:
    live = build_live()
    lost = taints_after(live, want(KEEP, Reach.LOST), KEEP)
    assert lost == [OURS, KEEP_TAINT]
    live["spec"]["taints"] = lost
    assert taints_after(live, want(KEEP, Reach.UNKNOWN), KEEP) is None
    assert taints_after(live, want(KEEP, Reach.REACHED), KEEP) == [OURS]
    assert taints_after(live, want(POLICY, Reach.LOST), POLICY) == [OURS]


def test_taints_while_the_provider_is_silent() -> None:
    live = build_live(taints=[OURS, FOREIGN])
    unknown = compose(None, KEEP, Reach.UNKNOWN, port=1)
    assert taints_after(live, unknown, KEEP) is None
    lost = compose(None, KEEP, Reach.LOST, port=1)
    assert taints_after(live, lost, KEEP) == [OURS, FOREIGN, KEEP_TAINT]


def test_taints_patch_holds_only_for_what_was_seen() -> None:
    live = build_live(taints=[])
    patch = node_object.build_taints_patch(live, want(), POLICY)
    assert patch is not None
    assert [operation["op"] for operation in patch] == ["test", "test", "add"]


@pytest.mark.parametrize(
    ("unschedulable", "marked", "cordon", "after"),
    [
        (False, False, False, None),
        (True, False, False, None),  # a user's own
        (True, True, False, (False, False)),
        (False, True, False, (False, False)),
        (False, False, True, (True, True)),
        (False, True, True, (True, True)),
        (True, False, True, None),
        (True, True, True, None),
    ],
)
def test_cordon(
    *, unschedulable: bool, marked: bool, cordon: bool, after: tuple[bool, bool] | None
) -> None:
    live = build_live()
    if unschedulable:
        live["spec"]["unschedulable"] = True
    if marked:
        live["metadata"]["annotations"]["vkubelet.io/cordoned"] = "true"
    patch = node_object.build_cordon_patch(live, POLICY, cordon=cordon)
    if after is None:
        assert patch is None
        return
    assert patch is not None
    found = merge_patch(live, patch)
    state = (
        found["spec"].get("unschedulable", False),
        "vkubelet.io/cordoned" in found["metadata"]["annotations"],
    )
    assert state == after
