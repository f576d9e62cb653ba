"""What a virtual node offers: sums over its members, less what others use. Exact arithmetic."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from heapq import heapify, heappop, heappush

from provider.mapping.groups import NodeGroup
from provider.mapping.membership import find_eligible
from provider.requests import NOTHING, Resources, add_resources

NONE = Decimal(0)

ROOM = ("cpu", "memory")
"""What the member with the most room is chosen by, in this order."""

SPARE_ENTRIES = 64
"""Outdated entries that the order by room may hold beside one a member."""

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


class GroupFigures:
    """
    A group's figures, kept up to date: the use of one node costs the same whatever the group.

    It stands for the members as they are when it's made; others take another one.
    """

    def __init__(
        self, group: NodeGroup, policy: OfferPolicy, used: Callable[[str], Resources]
    ) -> None:
        """
        Take the sums.

        Args:
            group: With its members as they are now.
            policy: How much is offered.
            used: Requests of the pods on a physical node, as they are at any time.
        """
        self._group = group
        self._policy = policy
        self._used = used
        self._eligible = {node.name: node for node in find_eligible(group.members)}
        self._capacity = add_resources(node.capacity for node in group.members)
        self._total = add_resources(node.allocatable for node in self._eligible.values())
        self._counted: dict[str, Resources] = {}
        self._taken: dict[str, Decimal] = {}
        self._room: dict[str, tuple[Decimal, Decimal]] = {}
        self._by_room: list[tuple[Decimal, Decimal, str]] = []
        for name in self._eligible:
            self.update(name)

    def update(self, name: str) -> None:
        """Take in what is used of a member now; one that isn't eligible doesn't count."""
        node = self._eligible.get(name)
        if node is None:
            return
        before, now = self._counted.get(name, NOTHING), dict(self._used(name))
        for resource in before.keys() | now.keys():
            change = now.get(resource, Decimal(0)) - before.get(resource, Decimal(0))
            self._taken[resource] = self._taken.get(resource, Decimal(0)) + change
        self._counted[name] = now
        cpu, memory = (
            max(node.allocatable.get(resource, Decimal(0)) - now.get(resource, Decimal(0)), NONE)
            for resource in ROOM
        )
        self._room[name] = (-cpu, -memory)
        heappush(self._by_room, (-cpu, -memory, name))
        if len(self._by_room) > 2 * len(self._eligible) + SPARE_ENTRIES:
            self._by_room = [(*room, member) for member, room in self._room.items()]
            heapify(self._by_room)

    def compute(self, returned: Resources = NOTHING) -> Figures:
        """
        Compute the figures.

        Args:
            returned: Home requests of home pods that are placed behind this virtual node: the home
                scheduler subtracts them itself.
        """
        capacity = dict(self._capacity)
        allocatable: dict[str, Decimal] = {}
        for resource in capacity.keys() | self._total.keys():
            free = (
                self._total.get(resource, NONE)
                - self._taken.get(resource, NONE)
                + returned.get(resource, NONE)
            )
            limits = (self._policy.limits, self._group.caps)
            bounds = [bound[resource] for bound in limits if resource in bound]
            share = free if self._policy.percent == 100 else free * self._policy.percent / 100
            allocatable[resource] = max(min([share, *bounds]), NONE)
        for resource in BASE_RESOURCES:
            capacity.setdefault(resource, NONE)
            allocatable.setdefault(resource, NONE)
        return Figures(capacity, allocatable, self._find_largest())

    def _find_largest(self) -> FreeNode | None:
        """Return the node with the most free cpu, then memory; names decide between equals."""
        while self._by_room:
            *room, name = self._by_room[0]
            if self._room[name] == tuple(room):
                return FreeNode(
                    name, _subtract(self._eligible[name].allocatable, self._counted[name])
                )
            heappop(self._by_room)
        return None


def compute_figures(
    group: NodeGroup,
    policy: OfferPolicy,
    *,
    used: Callable[[str], Resources] = lambda _: NOTHING,
    returned: Resources = NOTHING,
) -> Figures:
    """Compute a group's figures once; see `GroupFigures`."""
    return GroupFigures(group, policy, used).compute(returned)


def _subtract(amounts: Resources, taken: Resources) -> Resources:
    return {
        resource: max(amount - taken.get(resource, NONE), NONE)
        for resource, amount in amounts.items()
    }
