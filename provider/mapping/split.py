"""
Splitting of large groups into slices of at most N physical nodes.

The assignment is sticky: a node stays in its slice whatever happens to others. It's a value that
goes in and comes out; it also stands in annotations of the virtual nodes, so a restart keeps it.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_FLOOR, Decimal

from provider.labels import SLICE_MEMBERS
from provider.mapping.groups import NodeGroup, Slice
from provider.mapping.naming import fit_name
from provider.translation.selection import Selection


@dataclass(frozen=True, slots=True)
class SliceAssignment:
    """
    Which node of a group is in which slice.

    Attributes:
        plain: Whether slice 0 has the group's own name. A group that outgrows one virtual node
            keeps it, so that nobody on it is disturbed.
        slots: Slice by node name.
    """

    plain: bool = True
    slots: Mapping[str, int] = field(default_factory=dict)


def split_group(
    group: NodeGroup, max_nodes: int, previous: SliceAssignment | None
) -> tuple[tuple[NodeGroup, ...], SliceAssignment]:
    """
    Split a group into slices of at most `max_nodes`, as it was split before.

    A group that fits, and always has, is one slice with its own name and selection.
    """
    assignment = _assign(group, max_nodes, previous)
    indexes = sorted(set(assignment.slots.values())) or [0]
    if not group.members and not group.named:
        return (), assignment
    whole = assignment.plain and indexes == [0]
    slices: list[NodeGroup] = []
    seen = 0
    for index in indexes:
        members = tuple(node for node in group.members if assignment.slots[node.name] == index)
        part = replace(
            group,
            key=group.key if whole else f"{group.key}[{index}]",
            name=_name_slice(group, index, plain=assignment.plain),
            members=members,
            slice=Slice(group.key, index, assignment.plain),
        )
        if not whole:
            names = Selection.of_names(node.name for node in members)
            part = replace(
                part,
                selection=group.selection.intersect(names),
                caps=_share_caps(group, seen, seen + len(members)),
            )
        slices.append(part)
        seen += len(members)
    return tuple(slices), assignment


def format_slice(group: NodeGroup) -> dict[str, str]:
    """Return the annotation that keeps the assignment across a restart."""
    if group.slice is None:
        return {}
    value = {
        "parent": group.slice.parent,
        "index": group.slice.index,
        "plain": group.slice.plain,
        "members": sorted(node.name for node in group.members),
    }
    return {SLICE_MEMBERS: json.dumps(value, separators=(",", ":"))}


def read_slice(annotations: Mapping[str, str]) -> tuple[str, SliceAssignment] | None:
    """
    Read what `format_slice` wrote: the parent's key, and its assignment as far as this slice knows.

    Somebody may have edited it: None if it isn't there or makes no sense.
    """
    try:
        value = json.loads(annotations.get(SLICE_MEMBERS, ""))
        index = int(value["index"])
        slots = {str(name): index for name in value["members"]}
        if index < 0:
            return None
        return str(value["parent"]), SliceAssignment(bool(value["plain"]), slots)
    except (ValueError, TypeError, KeyError):
        return None


def merge_assignments(left: SliceAssignment, right: SliceAssignment) -> SliceAssignment:
    """Return what two slices of a group know together."""
    return SliceAssignment(left.plain and right.plain, {**right.slots, **left.slots})


def _assign(group: NodeGroup, max_nodes: int, previous: SliceAssignment | None) -> SliceAssignment:
    """Keep who is there, then fill the first slices that have room."""
    names = sorted(node.name for node in group.members)
    if previous is None:
        previous = SliceAssignment(plain=len(names) <= max_nodes)
    slots: dict[str, int] = {}
    filled: Counter[int] = Counter()
    for name in names:
        index = previous.slots.get(name)
        if index is not None and filled[index] < max_nodes:
            slots[name] = index
            filled[index] += 1
    first = 0
    for name in names:
        if name in slots:
            continue
        while filled[first] >= max_nodes:
            first += 1
        slots[name] = first
        filled[first] += 1
    return SliceAssignment(previous.plain, slots)


def _name_slice(group: NodeGroup, index: int, *, plain: bool) -> str:
    return group.name if plain and index == 0 else fit_name(f"{group.name}-{index}")


def _share_caps(group: NodeGroup, start: int, stop: int) -> dict[str, Decimal]:
    """Return the slice's share of the caps by its number of nodes; shares add up to the caps."""
    total = len(group.members)
    shares: dict[str, Decimal] = {}
    for resource, cap in group.caps.items():
        step = Decimal("0.001") if resource == "cpu" else Decimal(1)
        before, after = (
            (cap * count / max(total, 1)).quantize(step, ROUND_FLOOR) for count in (start, stop)
        )
        shares[resource] = after - before
    return shares
