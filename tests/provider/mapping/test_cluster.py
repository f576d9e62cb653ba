from provider.mapping.cluster import ClusterMapping
from tests.fakes.physical_nodes import make_node


def test_all_nodes_stand_behind_one_virtual_node() -> None:
    nodes = [make_node("n1"), make_node("n2")]
    (group,) = ClusterMapping("cloud").group_nodes(nodes)
    assert (group.key, group.name, group.named) == ("cluster", "cloud", True)
    assert group.members == tuple(nodes)
    assert group.selection.matches("anything", {})


def test_it_exists_without_nodes() -> None:
    (group,) = ClusterMapping("cloud").group_nodes([])
    assert group.members == ()
