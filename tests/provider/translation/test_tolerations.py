from typing import Any

import pytest

from provider.taints import parse_accepted_taint
from provider.translation.tolerations import describe_lost_tolerations, translate_tolerations

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
GPU = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}


def lifecycle(key: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **more}


@pytest.mark.parametrize(
    ("own", "remote"),
    [
        ([], [GPU]),
        ([GPU], [GPU]),
        ([{"key": "virtual-kubelet.io/provider", "operator": "Exists"}], [GPU]),
        ([{"key": "other", "operator": "Exists"}], [GPU]),
        ([{"key": "gpu", "operator": "Exists"}], [GPU]),
        (
            [lifecycle(NOT_READY, tolerationSeconds=300), lifecycle(UNREACHABLE)],
            [lifecycle(NOT_READY, tolerationSeconds=300), lifecycle(UNREACHABLE), GPU],
        ),
        (
            [{"operator": "Exists"}],
            [lifecycle(NOT_READY), lifecycle(UNREACHABLE), GPU],
        ),
        (
            [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
            [
                lifecycle(NOT_READY, tolerationSeconds=5),
                lifecycle(UNREACHABLE, tolerationSeconds=5),
                GPU,
            ],
        ),
        ([{"operator": "Exists", "effect": "NoSchedule"}], [GPU]),
        ([{"key": NOT_READY, "operator": "Exists"}], [lifecycle(NOT_READY), GPU]),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoSchedule"}], [GPU]),
        ([{"key": NOT_READY, "value": "x", "effect": "NoExecute"}], [GPU]),
        ([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], [GPU]),
        (
            [
                lifecycle(NOT_READY, tolerationSeconds=300),
                lifecycle(NOT_READY, tolerationSeconds=6),
            ],
            [lifecycle(NOT_READY, tolerationSeconds=6), GPU],
        ),
        (
            [{"key": "gpu", "value": "x", "effect": "NoSchedule", "new": [1]}],
            [{"key": "gpu", "value": "x", "effect": "NoSchedule", "new": [1]}, GPU],
        ),
    ],
)
def test_what_travels(own: list[dict[str, Any]], remote: list[dict[str, Any]]) -> None:
    accepted = (parse_accepted_taint("gpu:NoSchedule"),)
    assert translate_tolerations(own, accepted) == remote


def test_seconds_of_the_pod_win_over_an_accepted_taint() -> None:
    accepted = (parse_accepted_taint("spot:NoExecute"),)
    own = [{"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}]
    assert translate_tolerations(own, accepted) == own


def test_nothing_is_lost_in_silence() -> None:
    own = [
        {"operator": "Exists"},
        {"key": "team", "value": "a", "effect": "NoSchedule"},
        {"key": "virtual-kubelet.io/provider", "operator": "Exists"},
        lifecycle(NOT_READY),
        GPU,
    ]
    lost = describe_lost_tolerations(own, (parse_accepted_taint("gpu"),))
    assert lost == ["(every key)", "team=a:NoSchedule"]
