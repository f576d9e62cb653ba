"""From the remote cluster's nodes to the groups behind virtual nodes, in every mode."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from provider.labels import GROUP
from provider.mapping.groups import ExplainsLeftOut, NodeGroup, NodeMapping
from provider.mapping.membership import MembershipRules, NodeReason, reason_ineligible
from provider.mapping.physical import PhysicalNode
from provider.mapping.split import SliceAssignment, merge_assignments, read_slice, split_group


@dataclass(frozen=True, slots=True)
class MappingState:
    """
    What has to stay as it was; a value.

    Attributes:
        names: Which group (by its origin) has a name: when two come to want it, it keeps it.
        assignments: How groups are split, by key.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[str, SliceAssignment] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MappedNodes:
    """
    The outcome.

    Attributes:
        groups: In the order of their names.
        left_out: Nodes that stand behind no virtual node, and why.
        ineligible: Members that get no pods right now, and why.
        warnings: What an operator should look at, a sentence each.
        state: For the next time.
    """

    groups: tuple[NodeGroup, ...]
    left_out: tuple[NodeReason, ...]
    ineligible: tuple[NodeReason, ...]
    warnings: tuple[str, ...]
    state: MappingState


def map_nodes(
    nodes: Iterable[PhysicalNode],
    mapping: NodeMapping,
    rules: MembershipRules,
    *,
    max_nodes: int | None = None,
    state: MappingState | None = None,
) -> MappedNodes:
    """
    Group the remote cluster's nodes; pure: the order of the nodes doesn't matter.

    Raises:
        MappingError: If a plugin misbehaves.
    """
    state = state or MappingState()
    ordered = sorted(nodes, key=lambda node: node.name)
    reasons = {node.name: rules.reason_left_out(node) for node in ordered}
    members = [node for node in ordered if reasons[node.name] is None]
    groups = [
        replace(group, selection=group.selection.and_requirements(rules.requirements))
        for group in mapping.group_nodes(members)
    ]
    groups, assignments = _split(groups, max_nodes, state)
    groups, clashes = _settle_names(groups, state.names)
    grouped = {node.name for group in groups for node in group.members}
    for node in members:
        if node.name not in grouped:
            reasons[node.name] = clashes.get(node.name) or _explain(mapping, node)
    return MappedNodes(
        groups=tuple(sorted(groups, key=lambda group: group.name)),
        left_out=_list_reasons(ordered, reasons),
        ineligible=_list_reasons(
            ordered,
            {node.name: reason_ineligible(node) for node in ordered if node.name in grouped},
        ),
        warnings=tuple(_find_warnings(groups, clashes)),
        state=MappingState({group.name: group.origin for group in groups}, assignments),
    )


def restore_state(virtual_nodes: Iterable[tuple[str, Mapping[str, str]]]) -> MappingState:
    """Read the state off the names and annotations of our Nodes, as they were left."""
    names: dict[str, str] = {}
    assignments: dict[str, SliceAssignment] = {}
    for name, annotations in virtual_nodes:
        if GROUP in annotations:
            names[name] = annotations[GROUP]
        read = read_slice(annotations)
        if read is not None:
            parent, assignment = read
            known = assignments.get(parent)
            assignments[parent] = (
                assignment if known is None else merge_assignments(known, assignment)
            )
    return MappingState(names, assignments)


def _split(
    groups: Sequence[NodeGroup], max_nodes: int | None, state: MappingState
) -> tuple[list[NodeGroup], dict[str, SliceAssignment]]:
    if max_nodes is None:
        return list(groups), {}
    parts: list[NodeGroup] = []
    assignments: dict[str, SliceAssignment] = {}
    for group in groups:
        if group.one_to_one:
            parts.append(group)
            continue
        slices, assignment = split_group(group, max_nodes, state.assignments.get(group.key))
        parts += slices
        assignments[group.key] = assignment
    return parts, assignments


def _settle_names(
    groups: Sequence[NodeGroup], holders: Mapping[str, str]
) -> tuple[list[NodeGroup], dict[str, str]]:
    """
    Give each name to one group: to who has it, else to the first by key.

    Returns:
        The groups that have a name, and for each node of the others why its group has none.
    """
    settled: dict[str, NodeGroup] = {}
    clashes: dict[str, str] = {}
    for group in sorted(groups, key=lambda item: (holders.get(item.name) != item.origin, item.key)):
        holder = settled.setdefault(group.name, group)
        if holder is not group:
            reason = f"{group.key!r} and {holder.key!r} both give the name {group.name!r}"
            clashes |= {node.name: reason for node in group.members}
    return list(settled.values()), clashes


def _explain(mapping: NodeMapping, node: PhysicalNode) -> str:
    if isinstance(mapping, ExplainsLeftOut):
        return mapping.reason_left_out(node)
    return "in no group"


def _list_reasons(
    nodes: Iterable[PhysicalNode], reasons: Mapping[str, str | None]
) -> tuple[NodeReason, ...]:
    found = ((node.name, reasons.get(node.name)) for node in nodes)
    return tuple(NodeReason(name, reason) for name, reason in found if reason is not None)


def _find_warnings(groups: Sequence[NodeGroup], clashes: Mapping[str, str]) -> list[str]:
    warnings = sorted({f"name clash: {reason}" for reason in clashes.values()})
    warnings += [
        f"no physical node stands behind virtual node {group.name}"
        for group in sorted(groups, key=lambda item: item.name)
        if not group.members
    ]
    behind: defaultdict[str, list[str]] = defaultdict(list)
    for group in groups:
        for node in group.members:
            behind[node.name].append(group.name)
    shared: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for node_name, names in behind.items():
        for pair in combinations(sorted(names), 2):
            shared[pair].append(node_name)
    for (left, right), both in sorted(shared.items()):
        warnings.append(
            f"virtual nodes {left} and {right} overlap: pods on one take from the other"
            f" ({_shorten(both)})"
        )
    return warnings


def _shorten(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
