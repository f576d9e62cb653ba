"""What a pod takes of its node, as the scheduler counts it."""

from decimal import Decimal
from typing import Any

import pytest

from provider.requests import decode_counted_pod, pod_requests
from vkubelet.kube.objects import encode_object


def container(name: str = "c", **requests: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}}


def requests_of(pod: dict[str, Any]) -> dict[str, Decimal]:
    return dict(pod_requests(decode_counted_pod(encode_object(pod))))


CASES: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("no requests: one pod", {"containers": [{"name": "c"}]}, {}),
    (
        "containers add up",
        {"containers": [container(cpu="1"), container("d", cpu="500m")]},
        {"cpu": "1.5"},
    ),
    (
        "limits aren't requests",
        {
            "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}}}
            ]
        },
        {"cpu": "0.1"},
    ),
    (
        "an init container that takes more",
        {"containers": [container(cpu="1")], "initContainers": [container("i", cpu="3")]},
        {"cpu": "3"},
    ),
    (
        "sidecars run beside the containers and beside later init containers",
        {
            "containers": [container(cpu="1"), container("d", cpu="1")],
            "initContainers": [
                container("side", cpu="500m") | {"restartPolicy": "Always"},
                container("i", cpu="3"),
            ],
            "overhead": {"cpu": "250m"},
        },
        {"cpu": "3.75"},
    ),
    (
        "a sidecar that starts after an init container doesn't add to it",
        {
            "containers": [container(cpu="1")],
            "initContainers": [
                container("i", cpu="3"),
                container("side", cpu="500m") | {"restartPolicy": "Always"},
            ],
        },
        {"cpu": "3"},
    ),
    (
        "pod-level resources win for cpu and memory, not for others",
        {
            "containers": [container(**{"cpu": "1", "nvidia.com/gpu": "2"})],
            "resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "9"}},
        },
        {"cpu": "4", "nvidia.com/gpu": "2"},
    ),
]


@pytest.mark.parametrize(
    ("spec", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_requests(spec: dict[str, Any], expected: dict[str, str]) -> None:
    wanted = {name: Decimal(text) for name, text in expected.items()} | {"pods": Decimal(1)}
    assert requests_of({"spec": spec}) == wanted


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminal_pod_takes_nothing(phase: str) -> None:
    assert (
        requests_of({"spec": {"containers": [container(cpu="1")]}, "status": {"phase": phase}})
        == {}
    )


def resized(spec: str, actual: str, allocated: str, reason: str = "") -> dict[str, Any]:
    conditions = (
        [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    )
    return {
        "spec": {"containers": [container(cpu=spec)]},
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "containerStatuses": [
                {
                    "name": "c",
                    "resources": {"requests": {"cpu": actual}},
                    "allocatedResources": {"cpu": allocated},
                }
            ],
        },
    }


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        (resized("2", "1", "1"), "2"),
        (resized("1", "2", "1"), "2"),
        (resized("1", "1", "3"), "3"),
        (resized("5", "1", "1", "Deferred"), "5"),
        (resized("5", "1", "2", "Infeasible"), "2"),
    ],
)
def test_a_resize_counts_the_most_unless_it_is_infeasible(pod: dict[str, Any], cpu: str) -> None:
    assert requests_of(pod)["cpu"] == Decimal(cpu)


def test_null_fields_are_as_absent() -> None:
    pod = {
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": None}}],
            "initContainers": None,
        }
    }
    assert requests_of(pod) == {"pods": Decimal(1)}
