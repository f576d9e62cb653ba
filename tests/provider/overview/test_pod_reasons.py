"""Why pods don't run, in a word."""

from typing import Any

import pytest

from provider.overview.pod_reasons import count_phases, explain_pod, find_phase, group_reasons
from tests.provider.overview.values import build_pod
from vkubelet.kube.objects import NamespacedName


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}


def ended(code: int, reason: str = "", message: str = "") -> dict[str, Any]:
    state = {"exitCode": code, "reason": reason, "message": message}
    return {"name": "main", "state": {"terminated": state}}


UNSCHEDULED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes",
}
NOT_READY = {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}


@pytest.mark.parametrize(
    ("status", "explained"),
    [
        ({"phase": "Running"}, ("", "")),
        ({"phase": "Succeeded", "containerStatuses": [ended(0, "Completed")]}, ("", "")),
        (
            {"phase": "Pending", "reason": "MandatorySecretNotFound", "message": "no secret x"},
            ("MandatorySecretNotFound", "no secret x"),
        ),
        (
            {"phase": "Pending", "containerStatuses": [waiting("ImagePullBackOff", "no such")]},
            ("ImagePullBackOff", "no such"),
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [waiting("CrashLoopBackOff")],
                "containerStatuses": [waiting("PodInitializing")],
            },
            ("CrashLoopBackOff", ""),
        ),
        ({"phase": "Pending", "conditions": [UNSCHEDULED]}, ("Unschedulable", "0/3 nodes")),
        ({"phase": "Running", "conditions": [NOT_READY]}, ("ContainersNotReady", "")),
        (
            {"phase": "Running", "conditions": [NOT_READY], "containerStatuses": [waiting("X")]},
            ("X", ""),
        ),
        (
            {"phase": "Failed", "containerStatuses": [ended(0), ended(137, "OOMKilled")]},
            ("OOMKilled", "exit code 137"),
        ),
        ({"phase": "Failed", "containerStatuses": [ended(3)]}, ("Error", "exit code 3")),
        ({"phase": "Succeeded", "conditions": [NOT_READY]}, ("", "")),
    ],
)
def test_reason(status: dict[str, Any], explained: tuple[str, str]) -> None:
    assert explain_pod(build_pod("web", **status)) == explained


def test_phases_are_counted_and_terminating_is_one() -> None:
    pods = [build_pod("a"), build_pod("b", deleted=True), build_pod("c", phase=None)]
    assert [find_phase(pod) for pod in pods] == ["Running", "Terminating", "Unknown"]
    assert count_phases([*pods, build_pod("d")]) == {"Running": 2, "Terminating": 1, "Unknown": 1}


def test_reasons_are_grouped_with_an_example() -> None:
    pods = [
        build_pod("b", phase="Pending", reason="Missing", message="of b"),
        build_pod("a", phase="Pending", reason="Missing", message="of a"),
        build_pod("c", phase="Pending", reason="Other"),
        build_pod("d", phase="Failed", reason="Missing"),
        build_pod("e"),
    ]
    found = group_reasons(pods)
    assert [(item.phase, item.reason, item.count) for item in found] == [
        ("Pending", "Missing", 2),
        ("Failed", "Missing", 1),
        ("Pending", "Other", 1),
    ]
    assert found[0].example == NamespacedName("demo", "a")
    assert found[0].message == "of a"
