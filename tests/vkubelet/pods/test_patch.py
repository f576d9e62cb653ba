"""The patch of a home pod's status."""

from typing import Any

import pytest

from tests.fakes.api_objects import strategic_merge
from vkubelet.kube.objects import KubeObject
from vkubelet.pods.patch import (
    Condition,
    WantedStatus,
    build_patch,
    conditions_by_type,
    copy_condition,
)

NOW, BEFORE = "2026-01-02T03:04:05Z", "2026-01-01T00:00:00Z"


def build_home(**status: Any) -> KubeObject:
    return {"metadata": {"namespace": "a", "name": "p", "uid": "1"}, "status": status}


@pytest.mark.parametrize(
    ("live", "wanted", "changes"),
    [
        ({}, {"reason": None, "podIPs": []}, None),
        ({"reason": ""}, {"reason": None}, None),
        ({"reason": "X"}, {"reason": None}, {"reason": None}),
        ({"phase": "Running"}, {"phase": "Running"}, None),
        ({"x": [{"a": 1, "b": {}, "c": ""}]}, {"x": [{"a": 1}]}, None),
        ({"x": [{"a": 1}]}, {"x": [{"a": 1, "b": {}}]}, None),
        ({"x": [{"a": False}]}, {"x": [{}]}, {"x": [{}]}),
        ({"x": [{"a": 0}]}, {"x": [{"a": 1}]}, {"x": [{"a": 1}]}),
        ({}, {"podIPs": [{"ip": "1"}]}, {"podIPs": [{"ip": "1"}]}),
        (
            {"podIPs": [{"ip": "2"}]},
            {"podIPs": [{"ip": "1"}]},
            {"podIPs": [{"ip": "1"}, {"$patch": "replace"}]},
        ),
        ({"m": {"a": 1}}, {"m": {"b": 2}}, {"m": {"b": 2, "$patch": "replace"}}),
    ],
)
def test_fields(live: KubeObject, wanted: KubeObject, changes: KubeObject | None) -> None:
    home = build_home(**live)
    patch = build_patch(home, WantedStatus(wanted), now=NOW)
    if changes is None:
        assert patch is None
        return
    assert patch == {"metadata": {"uid": "1"}, "status": changes}
    after = strategic_merge(home, patch)
    assert build_patch(after, WantedStatus(wanted), now=NOW) is None


@pytest.mark.parametrize(
    ("live", "wanted", "time"),
    [
        ("True", Condition("Ready", "True", "Other"), BEFORE),
        ("False", Condition("Ready", "True", "Other", "m"), NOW),
    ],
)
def test_transition_time(live: str, wanted: Condition, time: str) -> None:
    ready = {"type": "Ready", "status": live, "lastTransitionTime": BEFORE, "message": "old"}
    other = {"type": "PodScheduled", "status": "True"}
    home = build_home(conditions=[other, ready])
    patch = build_patch(home, WantedStatus({}, (wanted,)), now=NOW)
    assert patch is not None
    after = strategic_merge(home, patch)["status"]["conditions"]
    assert after[0] == other
    assert copy_condition(after[1], "Ready") == wanted
    assert after[1]["lastTransitionTime"] == time


def test_condition_that_is_as_wanted() -> None:
    ready = {"type": "Ready", "status": "True", "reason": "R", "lastProbeTime": None}
    home = build_home(conditions=[ready])
    assert build_patch(home, WantedStatus({}, (Condition("Ready", "True", "R"),)), now=NOW) is None
    assert conditions_by_type(home["status"]) == {"Ready": ready}
    assert conditions_by_type({"conditions": None}) == {}


def test_generation_is_told_of_the_status_and_of_our_conditions() -> None:
    other = {"type": "PodScheduled", "status": "True", "observedGeneration": 1}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}
    home = build_home(conditions=[other, ready])
    wanted = WantedStatus({}, (Condition("Ready", "True"),), generation=3)
    patch = build_patch(home, wanted, now=NOW)
    assert patch is not None
    after = strategic_merge(home, patch)
    assert after["status"]["observedGeneration"] == 3
    assert after["status"]["conditions"] == [other, {**ready, "observedGeneration": 3}]
    assert build_patch(after, wanted, now=NOW) is None
    unknown = WantedStatus({}, (Condition("Ready", "False"),))
    patch = build_patch(after, unknown, now=NOW)
    assert patch is not None
    assert "observedGeneration" not in patch["status"]
    assert patch["status"]["conditions"][0]["observedGeneration"] == 3
