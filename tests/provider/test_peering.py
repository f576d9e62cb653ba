"""Ours means that both labels match."""

import pytest

from tests.provider.values import PEERING
from vkubelet.kube.objects import ObjectMeta


@pytest.mark.parametrize(
    ("labels", "ours"),
    [
        ({}, False),
        ({"vkubelet.io/home-cluster": "uid-of-home"}, False),
        ({"vkubelet.io/peering": "cloud"}, False),
        ({"vkubelet.io/home-cluster": "other", "vkubelet.io/peering": "cloud"}, False),
        ({"vkubelet.io/home-cluster": "uid-of-home", "vkubelet.io/peering": "cloud"}, True),
    ],
)
def test_ownership(labels: dict[str, str], ours: bool) -> None:
    assert PEERING.owns(ObjectMeta(labels=labels)) is ours


def test_what_we_stamp_is_ours() -> None:
    assert PEERING.owns_labels({**PEERING.labels, "more": "labels"})
    assert PEERING.label_selector == (
        "vkubelet.io/home-cluster=uid-of-home,vkubelet.io/peering=cloud"
    )
