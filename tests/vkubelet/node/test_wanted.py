"""The rule for what is out of reach."""

from dataclasses import replace

import pytest

from tests.fakes.provider import build_virtual_node
from vkubelet.config import KubeletPolicy, UnreachableAction, UnreachablePolicy
from vkubelet.interface import NodeCondition
from vkubelet.node.reachability import Reach
from vkubelet.node.wanted import compose, declare_server

EVICT = KubeletPolicy(owner_labels={"owner": "us"}, address="10.0.0.9")
KEEP = replace(EVICT, unreachable=UnreachablePolicy(action=UnreachableAction.KEEP))
READY = NodeCondition(type="Ready", status="True", reason="AllGood")
OTHER = NodeCondition(type="MemoryPressure", status="False", reason="Fine")


@pytest.mark.parametrize(
    ("policy", "reach", "statuses"),
    [
        (EVICT, Reach.UNKNOWN, {}),
        (EVICT, Reach.REACHED, {"Ready": "True", "MemoryPressure": "False"}),
        (EVICT, Reach.LOST, {"Ready": "False", "MemoryPressure": "False"}),
        (KEEP, Reach.UNKNOWN, {}),
        (
            KEEP,
            Reach.REACHED,
            {"Ready": "True", "MemoryPressure": "False", "RemoteReachable": "True"},
        ),
        (KEEP, Reach.LOST, {"MemoryPressure": "False", "RemoteReachable": "False"}),
    ],
)
def test_conditions(policy: KubeletPolicy, reach: Reach, statuses: dict[str, str]) -> None:
    virtual = build_virtual_node("n", conditions=(READY, OTHER))
    wanted = compose(virtual, policy, reach, port=1)
    assert {c.type: c.status for c in wanted.conditions} == statuses


@pytest.mark.parametrize(("policy", "condition"), [(EVICT, "Ready"), (KEEP, "RemoteReachable")])
def test_lost_while_the_provider_never_spoke(policy: KubeletPolicy, condition: str) -> None:
    [found] = compose(None, policy, Reach.LOST, port=1).conditions
    assert (found.type, found.status, found.reason) == (condition, "False", "RemoteUnreachable")


def test_owner_labels_win() -> None:
    virtual = build_virtual_node("n", labels={"owner": "them", "x": "y"})
    assert compose(virtual, EVICT, Reach.REACHED, port=1).labels == {"owner": "us", "x": "y"}


@pytest.mark.parametrize(
    ("pass_websockets", "features"),
    [(True, ("A", "ExtendWebSocketsToKubelet", "Z")), (False, ("A", "Z"))],
)
def test_what_our_server_can_do_is_declared(
    pass_websockets: bool, features: tuple[str, ...]
) -> None:
    policy = replace(EVICT, pass_websockets=pass_websockets)
    for declared in (("Z", "A"), ("Z", "A", "ExtendWebSocketsToKubelet")):
        virtual = build_virtual_node("n", declared_features=declared)
        assert declare_server(virtual, policy).declared_features == features
