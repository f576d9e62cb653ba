import pytest

from provider.mapping.errors import MappingError
from provider.mapping.label import LabelMapping
from provider.mapping.naming import NodeNaming
from tests.fakes.physical_nodes import make_node

POOLS = LabelMapping("pool", NodeNaming("cloud-"))


def test_a_virtual_node_a_value() -> None:
    a1, a2 = make_node("n1", {"pool": "A"}), make_node("n3", {"pool": "A"})
    b = make_node("n2", {"pool": "b_1"})
    groups = POOLS.group_nodes([a1, b, a2, make_node("n4")])
    assert [(group.key, group.name, group.members) for group in groups] == [
        ("A", "cloud-a", (a1, a2)),
        ("b_1", "cloud-b-1", (b,)),
    ]
    assert not groups[0].named
    assert groups[0].selection.matches("x", {"pool": "A"})
    assert not groups[0].selection.matches("x", {"pool": "a"})


def test_no_nodes_no_virtual_nodes() -> None:
    assert POOLS.group_nodes([]) == ()


def test_why_a_node_is_left_out() -> None:
    assert POOLS.reason_left_out(make_node("n")) == "no label pool"
    assert POOLS.reason_left_out(make_node("n", {"pool": ""})) == "label pool has no value"


def test_a_key_that_is_none_is_refused() -> None:
    with pytest.raises(MappingError, match="--mapping-label 'a b' is not a label key"):
        LabelMapping("a b", NodeNaming())
