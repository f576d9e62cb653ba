from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st

from provider.mapping.groups import NodeGroup
from provider.mapping.physical import PhysicalNode
from provider.nodes.figures import FreeNode, GroupFigures, OfferPolicy, compute_figures
from provider.translation.selection import Selection
from tests.fakes.physical_nodes import make_node

ALL = OfferPolicy()


def group_of(*members: PhysicalNode, **fields: Any) -> NodeGroup:
    return NodeGroup(key="g", name="g", members=members, selection=Selection.of_all(), **fields)


def amounts(**texts: str) -> dict[str, Decimal]:
    return {name: Decimal(text) for name, text in texts.items()}


def test_sums_of_every_resource() -> None:
    gpu = make_node("n1", capacity={"cpu": "4", "x/gpu": "2"}, allocatable={"cpu": "3500m"})
    figures = compute_figures(group_of(gpu, make_node("n2", cpu="2", memory="1")), ALL)
    assert figures.capacity == {"cpu": 6, "x/gpu": 2, "memory": 1, "pods": 110}
    assert figures.allocatable == {"cpu": Decimal("5.5"), "x/gpu": 0, "memory": 1, "pods": 110}


def test_a_node_that_is_not_eligible_gives_nothing_and_its_pods_take_nothing() -> None:
    figures = compute_figures(
        group_of(make_node("a"), make_node("b", unschedulable=True), make_node("c", ready=False)),
        ALL,
        used=lambda name: {} if name == "a" else amounts(cpu="3", pods="50"),
    )
    assert figures.allocatable["cpu"] == 4
    assert figures.allocatable["pods"] == 110
    assert figures.capacity["cpu"] == 12


def test_what_others_use_is_gone_and_what_home_counts_itself_comes_back() -> None:
    figures = compute_figures(
        group_of(make_node("a"), make_node("b")),
        ALL,
        used=lambda name: amounts(cpu="1.5", pods="3") if name == "a" else {},
        returned=amounts(cpu="0.25", pods="1"),
    )
    assert figures.allocatable["cpu"] == Decimal("6.75")
    assert figures.allocatable["pods"] == 218


def test_never_below_zero() -> None:
    figures = compute_figures(
        group_of(make_node("a")), ALL, used=lambda _: amounts(cpu="9", pods="200")
    )
    assert figures.allocatable["cpu"] == 0
    assert figures.allocatable["pods"] == 0


@pytest.mark.parametrize(
    ("policy", "caps", "cpu"),
    [
        (OfferPolicy(percent=50), {}, "2"),
        (OfferPolicy(percent=33), {}, "1.32"),
        (OfferPolicy(limits=amounts(cpu="1")), {}, "1"),
        (OfferPolicy(limits=amounts(cpu="100")), {}, "4"),
        (OfferPolicy(percent=50, limits=amounts(cpu="3")), amounts(cpu="1.5"), "1.5"),
        (ALL, amounts(cpu="0"), "0"),
    ],
)
def test_shares_limits_and_caps(policy: OfferPolicy, caps: dict[str, Decimal], cpu: str) -> None:
    figures = compute_figures(group_of(make_node("a"), caps=caps), policy)
    assert figures.allocatable["cpu"] == Decimal(cpu)


def test_a_group_without_members_offers_nothing() -> None:
    figures = compute_figures(group_of(), ALL)
    assert figures.capacity == figures.allocatable == amounts(cpu="0", memory="0", pods="0")
    assert figures.largest_free is None


def test_the_largest_free_member() -> None:
    nodes = [make_node("a"), make_node("b"), make_node("c", cpu="64", unschedulable=True)]
    figures = compute_figures(
        group_of(*nodes), ALL, used=lambda name: amounts(cpu="1") if name == "a" else {}
    )
    assert figures.largest_free == FreeNode("b", nodes[1].allocatable)
    equal = compute_figures(group_of(*nodes), ALL).largest_free
    assert equal is not None
    assert equal.name == "a"


MEMBERS = group_of(
    make_node("a", cpu="4"),
    make_node("b", cpu="4"),
    make_node("c", cpu="8", unschedulable=True),
    caps={"memory": Decimal(2**34)},
)
uses = st.dictionaries(
    st.sampled_from(["cpu", "memory", "x/gpu"]),
    st.decimals(min_value=0, max_value=10, places=2),
    max_size=3,
)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "other"]), uses), max_size=200))
def test_kept_up_to_date_they_are_as_computed_afresh(
    changes: list[tuple[str, dict[str, Decimal]]],
) -> None:
    used: dict[str, dict[str, Decimal]] = {}
    policy = OfferPolicy(percent=50)
    kept = GroupFigures(MEMBERS, policy, lambda name: used.get(name, {}))
    for name, amount in changes:
        used[name] = amount
        kept.update(name)
        fresh = compute_figures(MEMBERS, policy, used=lambda name: used.get(name, {}))
        assert kept.compute() == fresh


def test_what_is_outdated_does_not_pile_up() -> None:
    used: dict[str, dict[str, Decimal]] = {}
    kept = GroupFigures(MEMBERS, ALL, lambda name: used.get(name, {}))
    for number in range(1000):
        used["a"] = {"cpu": Decimal(number % 4)}
        kept.update("a")
    assert len(kept._by_room) < 100
    assert kept.compute().largest_free == FreeNode("b", MEMBERS.members[1].allocatable)
