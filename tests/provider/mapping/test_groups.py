from provider.mapping.cluster import ClusterMapping
from provider.mapping.groups import ExplainsLeftOut, NodeGroup, Slice
from provider.mapping.label import LabelMapping
from provider.mapping.naming import NodeNaming
from provider.translation.selection import Selection


def test_origin_is_the_group_before_it_was_split() -> None:
    group = NodeGroup(key="k", name="n", members=(), selection=Selection.of_all())
    assert group.origin == "k"
    part = NodeGroup(
        key="k[1]",
        name="n-1",
        members=(),
        selection=Selection.of_all(),
        slice=Slice("k", 1, plain=False),
    )
    assert part.origin == "k"


def test_a_mapping_need_not_explain() -> None:
    assert isinstance(LabelMapping("a", NodeNaming()), ExplainsLeftOut)
    assert not isinstance(ClusterMapping("a"), ExplainsLeftOut)
