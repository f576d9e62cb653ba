"""
What a node mapping is: a pure function from member nodes to groups.

This is all that a plugin sees: it's given nodes and returns groups, and what holds in every mode
(`--node-selector`, no virtual nodes, splitting) is added to them afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol, runtime_checkable

from provider.mapping.physical import PhysicalNode
from provider.translation.selection import Selection


@dataclass(frozen=True, slots=True)
class Slice:
    """
    Which part of a split group a group is.

    Attributes:
        parent: Key of the group that was split.
        index: Number of the slice, from 0.
        plain: Whether slice 0 has the parent's own name: the group once was small enough.
    """

    parent: str
    index: int
    plain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """
    The physical nodes behind one virtual node.

    Attributes:
        key: Tells the group from all others, and stays the same while nodes come and go.
        name: Name of the virtual node.
        members: The physical nodes; a named group may have none.
        selection: How a remote pod is confined to them.
        caps: Upper bounds of what the virtual node offers, by resource name.
        named: Whether the user named it: it stays when it has no members.
        one_to_one: Whether it mirrors its only member.
        slice: Set on what the splitting has seen.
    """

    key: str
    name: str
    members: tuple[PhysicalNode, ...]
    selection: Selection
    caps: Mapping[str, Decimal] = field(default_factory=dict)
    named: bool = False
    one_to_one: bool = False
    slice: Slice | None = None

    @property
    def origin(self) -> str:
        """Key of the group as the mapping made it, before it was split."""
        return self.key if self.slice is None else self.slice.parent


class NodeMapping(Protocol):
    """A way to group physical nodes."""

    def group_nodes(self, nodes: Sequence[PhysicalNode]) -> Sequence[NodeGroup]:
        """Group the members; the same nodes always give the same groups."""


@runtime_checkable
class ExplainsLeftOut(Protocol):
    """What a mapping implements if it can say why it puts a node into no group."""

    def reason_left_out(self, node: PhysicalNode) -> str:
        """Why a member is in no group."""
