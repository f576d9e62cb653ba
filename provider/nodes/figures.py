"""What a virtual node offers: sums over its members, less what others use. Exact arithmetic."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from provider.mapping.groups import NodeGroup
from provider.mapping.membership import find_eligible
from provider.mapping.physical import PhysicalNode
from provider.requests import NOTHING, Resources

BASE_RESOURCES = ("cpu", "memory", "pods")
"""Every node has these, a virtual node without members none of them."""


@dataclass(frozen=True, slots=True)
class OfferPolicy:
    """
    How much of what is free is offered.

    Attributes:
        percent: Share of it, 1 to 100 (`--capacity-percent`).
        limits: Upper bounds by resource name (`--capacity-limit`).
    """

    percent: int = 100
    limits: Mapping[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FreeNode:
    """The member with the most room, and what is free on it."""

    name: str
    free: Resources


@dataclass(frozen=True, slots=True)
class Figures:
    """
    Amounts of a virtual node, by resource name.

    Attributes:
        capacity: Sum over the members.
        allocatable: What is offered.
        largest_free: None if no member is eligible.
    """

    capacity: Resources
    allocatable: Resources
    largest_free: FreeNode | None


def compute_figures(
    group: NodeGroup,
    policy: OfferPolicy,
    *,
    used: Callable[[str], Resources] = lambda _: NOTHING,
    returned: Resources = NOTHING,
) -> Figures:
    """
    Compute a group's figures.

    Args:
        group: With its members as they are now.
        policy: How much is offered.
        used: Requests of the pods on a physical node.
        returned: Home requests of home pods that are placed behind this virtual node: the home
            scheduler subtracts them itself.
    """
    eligible = find_eligible(group.members)
    capacity = _sum(node.capacity for node in group.members)
    total = _sum(node.allocatable for node in eligible)
    taken = _sum(used(node.name) for node in eligible)
    allocatable: dict[str, Decimal] = {}
    for resource in capacity.keys() | total.keys():
        free = (
            total.get(resource, Decimal(0))
            - taken.get(resource, Decimal(0))
            + returned.get(resource, Decimal(0))
        )
        bounds = [offered for offered in (policy.limits, group.caps) if resource in offered]
        offer = min([free * policy.percent / 100, *(bound[resource] for bound in bounds)])
        allocatable[resource] = max(offer, Decimal(0))
    for resource in BASE_RESOURCES:
        capacity.setdefault(resource, Decimal(0))
        allocatable.setdefault(resource, Decimal(0))
    return Figures(capacity, allocatable, _find_largest(eligible, used))


def _sum(amounts: Iterable[Resources]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for part in amounts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, Decimal(0)) + amount
    return total


def _find_largest(
    nodes: Iterable[PhysicalNode], used: Callable[[str], Resources]
) -> FreeNode | None:
    """Return the node with the most free cpu, then memory; names decide between equals."""
    candidates = [
        FreeNode(node.name, _subtract(node.allocatable, used(node.name))) for node in nodes
    ]
    return max(
        sorted(candidates, key=lambda item: item.name),
        key=lambda item: tuple(item.free.get(name, Decimal(0)) for name in ("cpu", "memory")),
        default=None,
    )


def _subtract(amounts: Resources, taken: Resources) -> Resources:
    return {
        resource: max(amount - taken.get(resource, Decimal(0)), Decimal(0))
        for resource, amount in amounts.items()
    }
