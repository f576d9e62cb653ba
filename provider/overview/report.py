"""An overview as values, and as it's printed in JSON and YAML."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

import msgspec

from provider.vitals import Vitals
from vkubelet.kube.objects import NamespacedName
from vkubelet.times import format_time


@dataclass(frozen=True, slots=True, kw_only=True)
class LockReport:
    """
    A lock of a peering.

    Attributes:
        key: The Lease.
        holder: Who has it, "" if nobody.
        renewed_at: When it was written last.
        is_fresh: Whether the holder keeps it up.
    """

    key: NamespacedName
    holder: str
    renewed_at: datetime | None
    is_fresh: bool

    @property
    def is_held(self) -> bool:
        """Whether a process serves the peering now."""
        return bool(self.holder) and self.is_fresh


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """
    A virtual node.

    Attributes:
        name: Its name.
        ready: Status of its condition Ready: True, False or Unknown.
        reason: Why.
        message: Why, in a sentence.
        cordoned: Whether no new pods are bound to it.
        members: How many physical nodes are behind it; None if it doesn't say.
        eligible: How many of them take pods now.
        capacity: As the Node has it.
        allocatable: As the Node has it.
        largest_free: Name of the member with the most room, and what is free on it.
        pods: How many home pods are bound to it that haven't ended.
        certificate_expires: A time of the API, None if it isn't known.
    """

    name: str
    ready: str
    reason: str = ""
    message: str = ""
    cordoned: bool = False
    members: int | None = None
    eligible: int | None = None
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    largest_free: Mapping[str, Any] | None = None
    pods: int = 0
    certificate_expires: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReason:
    """Why some pods of a phase aren't as they should be; one of them, as an example."""

    phase: str
    reason: str
    count: int
    example: NamespacedName
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PeeringStatus:
    """
    A peering.

    Attributes:
        name: Name of the remote cluster.
        locks: Its locks; more than one if processes were told different namespaces.
        vitals: What its process tells of itself, None if nothing.
        nodes: Its virtual nodes, by name.
        phases: How many home pods are in each phase; Terminating counts as one.
        reasons: The most frequent first.
    """

    name: str
    locks: tuple[LockReport, ...] = ()
    vitals: Vitals | None = None
    nodes: tuple[NodeStatus, ...] = ()
    phases: Mapping[str, int] = field(default_factory=dict)
    reasons: tuple[PodReason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """
    All of it.

    Attributes:
        taken_at: When.
        peerings: By name.
        warnings: What couldn't be seen, or shouldn't be so; a sentence each.
        trouble: Why this is the last that could be seen, "" if it's how things are.
    """

    taken_at: datetime
    peerings: tuple[PeeringStatus, ...]
    warnings: tuple[str, ...] = ()
    trouble: str = ""

    def with_trouble(self, trouble: str) -> Self:
        """Return what was seen, and why nothing newer could be."""
        return replace(self, trouble=trouble)


def encode_overview(overview: Overview) -> dict[str, Any]:
    """Return the overview as it's printed in JSON and YAML."""
    return {
        "takenAt": format_time(overview.taken_at),
        "peerings": [_encode_peering(peering) for peering in overview.peerings],
        "warnings": list(overview.warnings),
        "trouble": overview.trouble,
    }


def _encode_peering(peering: PeeringStatus) -> dict[str, Any]:
    return {
        "name": peering.name,
        "locks": [_encode_lock(lock) for lock in peering.locks],
        "process": None if peering.vitals is None else msgspec.to_builtins(peering.vitals),
        "virtualNodes": [_encode_node(node) for node in peering.nodes],
        "pods": dict(peering.phases),
        "podReasons": [
            {
                "phase": item.phase,
                "reason": item.reason,
                "count": item.count,
                "example": str(item.example),
                "message": item.message,
            }
            for item in peering.reasons
        ],
    }


def _encode_lock(lock: LockReport) -> dict[str, Any]:
    return {
        "lease": str(lock.key),
        "holder": lock.holder,
        "renewedAt": None if lock.renewed_at is None else format_time(lock.renewed_at),
        "fresh": lock.is_fresh,
    }


def _encode_node(node: NodeStatus) -> dict[str, Any]:
    return {
        "name": node.name,
        "ready": node.ready,
        "reason": node.reason,
        "message": node.message,
        "cordoned": node.cordoned,
        "members": node.members,
        "eligible": node.eligible,
        "capacity": dict(node.capacity),
        "allocatable": dict(node.allocatable),
        "largestFreeNode": None if node.largest_free is None else dict(node.largest_free),
        "pods": node.pods,
        "certificateExpires": node.certificate_expires,
    }
