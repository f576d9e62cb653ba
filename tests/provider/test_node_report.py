"""What a plan makes of a cluster, as values."""

from decimal import Decimal

from provider.mapping.label import LabelMapping
from provider.mapping.membership import MembershipRules
from provider.mapping.naming import NodeNaming
from provider.node_report import build_node_report, encode_node_report
from provider.nodes.remote_nodes import NodePlan
from provider.nodes.virtual_node import NodeSettings
from tests.fakes.physical_nodes import make_node, taint
from tests.provider.values import PEERING

PLAN = NodePlan(
    mapping=LabelMapping("zone", NodeNaming("cloud-")),
    rules=MembershipRules(),
    settings=NodeSettings(peering=PEERING, mapping="label"),
)
NODES = [
    make_node("n1", {"zone": "a"}),
    make_node("n2", {"zone": "a"}, unschedulable=True),
    make_node("n3", {}),
    make_node("n4", {"zone": "a"}, taints=[taint("dedicated=x:NoSchedule")]),
]


def test_encodes_what_there_would_be() -> None:
    used = {"n1": {"cpu": Decimal("1.5"), "pods": Decimal(1)}}
    report = build_node_report(NODES, PLAN, used=lambda name: used.get(name, {}))
    encoded = encode_node_report(report)
    (node,) = encoded.pop("virtualNodes")
    assert encoded == {
        "remoteCluster": "cloud",
        "nodeMapping": "label",
        "leftOut": [
            {"node": "n3", "reason": "no label zone"},
            {"node": "n4", "reason": "taint dedicated=x:NoSchedule"},
        ],
        "ineligible": [{"node": "n2", "reason": "cordoned"}],
        "warnings": [],
    }
    assert node["name"] == "cloud-a"
    assert node["physicalNodes"] == ["n1", "n2"]
    assert node["capacity"] == {"cpu": "8", "memory": "16Gi", "pods": "220"}
    assert node["allocatable"] == {"cpu": "2500m", "memory": "8Gi", "pods": "109"}
    assert node["largestFreeNode"] == {
        "name": "n1",
        "free": {"cpu": "2500m", "memory": "8Gi", "pods": "109"},
    }
    assert node["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["a"]},
                {"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]},
            ]
        }
    ]


def test_no_nodes_at_all() -> None:
    encoded = encode_node_report(build_node_report([], PLAN))
    assert encoded["virtualNodes"] == []
