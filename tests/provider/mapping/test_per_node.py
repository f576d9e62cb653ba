from provider.mapping.naming import NodeNaming
from provider.mapping.per_node import PerNodeMapping
from tests.fakes.physical_nodes import make_node


def test_a_virtual_node_a_node() -> None:
    nodes = [make_node("n1"), make_node("n2.example.com")]
    groups = PerNodeMapping(NodeNaming("cloud-")).group_nodes(nodes)
    assert [(group.key, group.name) for group in groups] == [
        ("n1", "cloud-n1"),
        ("n2.example.com", "cloud-n2.example.com"),
    ]
    assert all(group.one_to_one and not group.named for group in groups)
    assert groups[0].members == (nodes[0],)
    assert groups[0].selection.matches("n1", {})
    assert not groups[0].selection.matches("n2.example.com", {})


def test_exact_names_also_the_longest() -> None:
    name = ".".join(["n" * 62] * 4) + "nn"
    (group,) = PerNodeMapping(NodeNaming()).group_nodes([make_node(name)])
    assert len(group.name) == 253
    assert group.name == name
