from decimal import Decimal

from provider.mapping.physical import build_physical_node, decode_physical_node
from provider.taints import NodeTaint
from tests.fakes.physical_nodes import raw_node, taint
from vkubelet.kube.objects import encode_object


def test_what_is_decided_on() -> None:
    raw = raw_node(
        "n1",
        {"disk": "ssd"},
        taints=[taint("gpu=yes:NoSchedule"), {"key": "spot", "effect": "NoExecute"}],
        unschedulable=True,
        memory="1Gi",
        nodeInfo={"kubeletVersion": "v1.37.2", "swap": {"capacity": 1}},
        declaredFeatures=["A"],
    )
    node = build_physical_node(raw)
    assert (node.name, node.uid, node.labels) == ("n1", "uid-n1", {"disk": "ssd"})
    assert node.taints == (
        NodeTaint("gpu", "yes", "NoSchedule"),
        NodeTaint("spot", "", "NoExecute"),
    )
    assert node.unschedulable
    assert node.is_ready
    assert node.capacity["memory"] == Decimal(2**30)
    assert node.node_info == {"kubeletVersion": "v1.37.2"}
    assert node.declared_features == ("A",)
    assert decode_physical_node(encode_object(raw)) == node


def test_a_node_that_has_just_registered_is_not_ready() -> None:
    node = decode_physical_node(b'{"metadata":{"name":"n1","newer":1},"newest":{}}')
    assert node.name == "n1"
    assert not node.is_ready
    assert node.capacity == {}


def test_unknown_is_not_ready() -> None:
    raw = raw_node("n1", conditions=[{"type": "Ready", "status": "Unknown", "newer": 1}])
    assert not build_physical_node(raw).is_ready
