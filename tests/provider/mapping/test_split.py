from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from provider.mapping.groups import NodeGroup
from provider.mapping.split import (
    SliceAssignment,
    format_slice,
    merge_assignments,
    read_slice,
    split_group,
)
from provider.translation.selection import Selection
from tests.fakes.physical_nodes import make_node
from vkubelet.kube.names import is_dns_subdomain
from vkubelet.kube.selector import parse_selector

POOL = Selection.of_selector(parse_selector("pool=a"))


def group_of(*names: str, named: bool = False, caps: dict[str, Decimal] | None = None) -> NodeGroup:
    return NodeGroup(
        key="a",
        name="pool",
        members=tuple(make_node(name, {"pool": "a"}) for name in names),
        selection=POOL,
        caps=caps or {},
        named=named,
    )


def layout(groups: tuple[NodeGroup, ...]) -> dict[str, list[str]]:
    return {group.name: [node.name for node in group.members] for group in groups}


def test_a_group_that_fits_stays_as_it_is() -> None:
    (part,), assignment = split_group(group_of("n1", "n2"), 2, None)
    assert (part.key, part.name, part.selection) == ("a", "pool", POOL)
    assert assignment.plain


def test_a_larger_group_is_split() -> None:
    parts, assignment = split_group(group_of("n1", "n2", "n3"), 2, None)
    assert layout(parts) == {"pool-0": ["n1", "n2"], "pool-1": ["n3"]}
    assert [part.key for part in parts] == ["a[0]", "a[1]"]
    assert not assignment.plain
    assert parts[1].selection.matches("n3", {"pool": "a"})
    assert not parts[1].selection.matches("n3", {"pool": "b"})
    assert not parts[1].selection.matches("n1", {"pool": "a"})


def test_leaving_frees_a_place_and_joining_takes_the_first_one() -> None:
    _, state = split_group(group_of("n1", "n2", "n3", "n4", "n5"), 2, None)
    parts, state = split_group(group_of("n1", "n3", "n4", "n5"), 2, state)
    assert layout(parts) == {"pool-0": ["n1"], "pool-1": ["n3", "n4"], "pool-2": ["n5"]}
    parts, state = split_group(group_of("a0", "a1", "n1", "n3", "n4", "n5"), 2, state)
    assert layout(parts)["pool-0"] == ["a0", "n1"]
    assert layout(parts)["pool-2"] == ["a1", "n5"]


def test_a_group_that_outgrows_its_virtual_node_keeps_it() -> None:
    _, state = split_group(group_of("n1", "n2"), 2, None)
    parts, state = split_group(group_of("n0", "n1", "n2"), 2, state)
    assert layout(parts) == {"pool": ["n1", "n2"], "pool-1": ["n0"]}
    assert not parts[0].selection.matches("n0", {"pool": "a"})
    parts, _ = split_group(group_of("n1", "n2"), 2, state)
    assert layout(parts) == {"pool": ["n1", "n2"]}
    assert parts[0].selection == POOL


def test_a_group_that_shrinks_stays_split() -> None:
    _, state = split_group(group_of("n1", "n2", "n3"), 2, None)
    parts, _ = split_group(group_of("n3"), 2, state)
    assert layout(parts) == {"pool-1": ["n3"]}


def test_a_smaller_limit_moves_only_who_must() -> None:
    _, state = split_group(group_of("n1", "n2", "n3", "n4"), 4, None)
    parts, _ = split_group(group_of("n1", "n2", "n3", "n4"), 3, state)
    assert layout(parts) == {"pool": ["n1", "n2", "n3"], "pool-1": ["n4"]}


@pytest.mark.parametrize("plain", [True, False])
def test_a_named_group_without_members_has_one_slice(plain: bool) -> None:
    parts, state = split_group(group_of(named=True), 2, SliceAssignment(plain, {"n1": 0}))
    assert layout(parts) == {"pool" if plain else "pool-0": []}
    assert state == SliceAssignment(plain, {})
    assert split_group(group_of(), 2, None)[0] == ()


def test_caps_are_shared_and_add_up() -> None:
    caps = {"cpu": Decimal(10), "example.com/gpu": Decimal(4)}
    parts, _ = split_group(group_of("n1", "n2", "n3", caps=caps), 2, None)
    assert [part.caps for part in parts] == [
        {"cpu": Decimal("6.666"), "example.com/gpu": Decimal(2)},
        {"cpu": Decimal("3.334"), "example.com/gpu": Decimal(2)},
    ]


def test_a_long_name_leaves_room_for_the_number() -> None:
    group = NodeGroup(key="a", name="n" * 253, members=group_of("n1", "n2").members, selection=POOL)
    parts, _ = split_group(group, 1, None)
    assert len({part.name for part in parts}) == 2
    assert all(is_dns_subdomain(part.name) for part in parts)


def test_a_restart_keeps_the_assignment() -> None:
    group = group_of("n1", "n2", "n3", "n4", "n5")
    _, state = split_group(group, 2, None)
    parts, state = split_group(group_of("n2", "n3", "n4", "n5", "n6"), 2, state)
    read = [read_slice(format_slice(part)) for part in parts]
    restored = SliceAssignment()
    for item in read:
        assert item is not None
        assert item[0] == "a"
        restored = merge_assignments(restored, item[1]) if restored.slots else item[1]
    assert restored == state


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "1",
        "{}",
        '{"parent":"a","index":-1,"plain":true,"members":[]}',
        '{"parent":"a","index":"x","plain":true,"members":[]}',
        '{"parent":"a","index":0,"plain":true,"members":null}',
    ],
)
def test_an_annotation_that_makes_no_sense_is_ignored(text: str) -> None:
    assert read_slice({"vkubelet.io/slice-members": text}) is None
    assert read_slice({}) is None


def test_a_group_that_was_not_split_has_no_annotation() -> None:
    assert format_slice(group_of("n1")) == {}


NAMES = st.sets(st.sampled_from([f"n{number}" for number in range(12)]))


@given(st.lists(NAMES, min_size=1, max_size=6), st.integers(min_value=1, max_value=5))
def test_slices_are_small_enough_complete_and_sticky(rounds: list[set[str]], limit: int) -> None:
    state: SliceAssignment | None = None
    for names in rounds:
        parts, after = split_group(group_of(*sorted(names)), limit, state)
        assert Counter(node.name for part in parts for node in part.members) == Counter(names)
        assert all(0 < len(part.members) <= limit for part in parts)
        assert len({part.name for part in parts}) == len(parts)
        before = {} if state is None else state.slots
        assert all(after.slots[name] == before[name] for name in names if name in before)
        for part in parts:
            inside = {node.name for node in part.members}
            for name in names:
                assert part.selection.matches(name, {"pool": "a"}) is (name in inside)
        state = after
