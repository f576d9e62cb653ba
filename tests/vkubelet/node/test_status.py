"""Status of a Node, and the patch that writes it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fakes.api_objects import merge_patch
from tests.fakes.provider import build_virtual_node
from vkubelet.config import KubeletPolicy
from vkubelet.interface import NodeCondition
from vkubelet.kube.objects import KubeObject
from vkubelet.node.reachability import Reach
from vkubelet.node.status import (
    build_status,
    build_status_patch,
    heartbeat_of,
    merge_conditions,
    port_of,
)
from vkubelet.node.wanted import WantedNode, compose

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
POLICY = KubeletPolicy(owner_labels={"owner": "us"}, address="10.0.0.9")
PRESSURE = {"type": "MemoryPressure", "status": "False", "lastTransitionTime": "t"}


def want(reach: Reach = Reach.REACHED, **fields: Any) -> WantedNode:
    return compose(build_virtual_node("n", **fields), POLICY, reach, port=10250)


def build_live(wanted: WantedNode | None = None) -> KubeObject:
    status = build_status(wanted or want(), POLICY, NOW)
    return {"metadata": {"name": "n", "uid": "u", "resourceVersion": "7"}, "status": status}


def patched(live: KubeObject, wanted: WantedNode, *, full: bool = False) -> KubeObject:
    patch = build_status_patch(live, wanted, POLICY, LATER, full=full)
    assert patch is not None
    assert patch["metadata"] == {"uid": "u", "resourceVersion": "7"}
    after: KubeObject = merge_patch(live, patch)
    assert build_status_patch(after, wanted, POLICY, LATER, full=False) is None
    found: KubeObject = after["status"]
    return found


def test_nothing_changed() -> None:
    assert build_status_patch(build_live(), want(), POLICY, LATER, full=False) is None


def test_full_write_renews_heartbeats_only() -> None:
    [ready] = patched(build_live(), want(), full=True)["conditions"]
    assert ready["lastHeartbeatTime"] == "2026-01-02T03:05:05Z"
    assert ready["lastTransitionTime"] == "2026-01-02T03:04:05Z"


def test_edited_address_and_port_are_restored() -> None:
    live = build_live()
    live["status"]["addresses"] = [
        {"type": "InternalIP", "address": "1.1.1.1"},
        {"type": "Hostname", "address": "x"},
    ]
    live["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": 1}}
    found = patched(live, want())
    assert found["addresses"] == [{"type": "InternalIP", "address": "10.0.0.9"}]
    assert found["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250


def test_resource_that_vanishes_disappears() -> None:
    live = build_live(want(capacity={"cpu": "8", "gpu": "1"}, allocatable={"cpu": "8", "gpu": "1"}))
    found = patched(live, want(capacity={"cpu": "9"}, allocatable={"cpu": "8"}))
    assert (found["capacity"], found["allocatable"]) == ({"cpu": "9"}, {"cpu": "8"})


def test_empty_node_info_of_the_api_is_no_difference() -> None:
    live = build_live()
    live["status"]["nodeInfo"] |= {"bootID": "", "kernelVersion": ""}
    assert build_status_patch(live, want(), POLICY, LATER, full=False) is None
    live["status"]["nodeInfo"]["kernelVersion"] = "old"
    assert "kernelVersion" not in patched(live, want())["nodeInfo"]


def test_conditions_of_others_stay() -> None:
    live = build_live()
    live["status"]["conditions"].insert(0, PRESSURE)
    changed = want(conditions=(NodeCondition(type="Ready", status="False", reason="Down"),))
    found = patched(live, changed)["conditions"]
    assert found[0] == PRESSURE
    assert (found[1]["status"], found[1]["lastTransitionTime"]) == ("False", "2026-01-02T03:05:05Z")


def test_reason_changes_without_a_transition() -> None:
    changed = want(conditions=(NodeCondition(type="Ready", status="True", reason="Other"),))
    [ready] = patched(build_live(), changed)["conditions"]
    assert (ready["reason"], ready["lastTransitionTime"]) == ("Other", "2026-01-02T03:04:05Z")


def test_unknown_reach_touches_no_condition() -> None:
    live = build_live()
    live["status"]["conditions"][0]["status"] = "Unknown"
    assert build_status_patch(live, want(Reach.UNKNOWN), POLICY, LATER, full=True) is None


def test_declared_features_come_and_go() -> None:
    live = build_live()
    found = patched(live, want(declared_features=("B", "A")))
    assert found["declaredFeatures"] == ["A", "B"]
    live["status"] = found
    assert "declaredFeatures" not in patched(live, want())
    assert build_status(want(declared_features=("A",)), POLICY, NOW)["declaredFeatures"] == ["A"]


def test_nothing_known_but_the_address() -> None:
    wanted = compose(None, replace(POLICY, address="10.0.0.10"), Reach.UNKNOWN, port=2)
    patch = build_status_patch(
        build_live(), wanted, replace(POLICY, address="10.0.0.10"), LATER, full=False
    )
    assert patch is not None
    assert set(patch["status"]) == {"addresses", "daemonEndpoints"}


def test_merge_of_conditions_without_times() -> None:
    [found] = merge_conditions(
        [{"type": "Ready", "status": "True"}],
        [NodeCondition(type="Ready", status="True", reason="R")],
        NOW,
    )
    assert found["lastTransitionTime"] == "2026-01-02T03:04:05Z"


def test_heartbeat_and_port() -> None:
    assert heartbeat_of(build_live()) == NOW
    assert port_of(build_live()) == 10250
    assert heartbeat_of({"metadata": {}}) is None
    assert port_of({"metadata": {}, "status": {}}) == 0
