"""Ours means that both labels match."""

import pytest

from provider.peering import home_pod_of, home_uid_of
from tests.provider.values import PEERING
from vkubelet.interface import PodRef
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


@pytest.mark.parametrize(
    ("uid", "namespace", "ref"),
    [("u", "demo", PodRef("demo", "web", "u")), ("", "demo", None), ("u", "", None)],
)
def test_the_home_pod_of_a_remote_pod(uid: str, namespace: str, ref: PodRef | None) -> None:
    metadata = ObjectMeta(
        name="web",
        namespace="demo-r",
        labels={"vkubelet.io/home-pod-uid": uid} if uid else {},
        annotations={"vkubelet.io/home-namespace": namespace} if namespace else {},
    )
    assert home_uid_of(metadata) == uid
    assert home_pod_of(metadata) == ref
