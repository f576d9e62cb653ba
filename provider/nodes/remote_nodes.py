"""The remote cluster's nodes, followed live, and the virtual nodes that they make."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace

from provider.capacity import CapacityLedger
from provider.mapping.errors import MappingError
from provider.mapping.groups import NodeGroup, NodeMapping
from provider.mapping.membership import MembershipRules
from provider.mapping.physical import PhysicalNode, decode_physical_node
from provider.mapping.resolve import MappedNodes, MappingState, map_nodes
from provider.nodes.figures import GroupFigures, OfferPolicy
from provider.nodes.lingering import LingeringNodes
from provider.nodes.virtual_node import (
    NodeSettings,
    build_view,
    build_virtual_node,
    replace_figures,
)
from provider.translation.affinity import VirtualNodeView
from provider.translation.selection import Selection
from vkubelet.interface import VirtualNode
from vkubelet.kube.client import KubeClient
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import NODES, ObjectMeta

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 0.25
"""Changes that come together are computed once."""

INTERVAL_SECONDS = 1.0
"""However many changes there are, virtual nodes are told this often: they aren't written more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """
    How virtual nodes are made of physical ones.

    Attributes:
        mapping: Groups the members.
        rules: Says who is a member.
        settings: What is the same for all virtual nodes.
        offer: How much of what is free is offered.
        max_nodes: The most physical nodes behind one virtual node; None for no limit.
        removal_delay_seconds: How long the virtual node of a group that is gone is kept.
        state: Names and slices as an earlier process left them.
    """

    mapping: NodeMapping
    rules: MembershipRules
    settings: NodeSettings
    offer: OfferPolicy = field(default_factory=OfferPolicy)
    max_nodes: int | None = None
    removal_delay_seconds: float = 0.0
    state: MappingState = field(default_factory=MappingState)


@dataclass(frozen=True, slots=True)
class Placement:
    """What a pod's translation needs of its virtual node."""

    view: VirtualNodeView
    selection: Selection


class RemoteNodes:
    """
    Keeps the virtual nodes in step with the remote cluster's nodes and the ledger.

    Attributes:
        informer: Follows the remote Nodes.
        ledger: What is used of them; filled by others.
    """

    def __init__(self, client: KubeClient, plan: NodePlan) -> None:
        self._plan = plan
        self._state = plan.state
        self._physical: dict[str, PhysicalNode] = {}
        self._groups: dict[str, NodeGroup] = {}
        self._figures: dict[str, GroupFigures] = {}
        self._nodes: dict[str, VirtualNode] = {}
        self._lingering = LingeringNodes(plan.removal_delay_seconds)
        self._placements: dict[str, Placement] = {}
        self._behind: defaultdict[str, list[str]] = defaultdict(list)
        self._remap = True
        self._used_otherwise: set[str] = set()
        self._stale: set[str] = set()
        self._wake = asyncio.Event()
        self._told: tuple[object, ...] = ()
        self._handlers: list[Callable[[str], None]] = []
        self.ledger = CapacityLedger(self._on_usage, self._on_returned)
        self.informer: Informer[PhysicalNode] = Informer(client, NODES, decode_physical_node)
        self.informer.add_handler(self._on_node)

    def add_selection_handler(self, handler: Callable[[str], None]) -> None:
        """Have a function called with a virtual node for whose pods other nodes are selected."""
        self._handlers.append(handler)

    def placement(self, node: str) -> Placement | None:
        """What confines pods of a virtual node; None if there is no such node (now)."""
        return self._placements.get(node)

    def physical_node(self, node: str) -> str | None:
        """The one physical node that a virtual node stands for, if they go one to one."""
        group = self._groups.get(node)
        if group is None or not group.one_to_one:
            return None
        return group.members[0].name if len(group.members) == 1 else None

    def _on_usage(self, physical_node: str) -> None:
        if physical_node in self._behind:
            self._used_otherwise.add(physical_node)
            self._wake.set()

    def _on_returned(self, virtual_node: str) -> None:
        self._stale.add(virtual_node)
        self._wake.set()

    async def watch(self) -> AsyncIterator[Sequence[VirtualNode]]:
        """
        Yield the virtual nodes once the remote Nodes are known, then at each change.

        Raises:
            MappingError: If the mapping can't be used at the first time; later it's logged.
        """
        await self.informer.wait_synced()
        loop = asyncio.get_running_loop()
        yielded: tuple[VirtualNode, ...] | None = None
        yielded_at = loop.time()
        while True:
            self._wake.clear()
            self._compute(is_first=yielded is None)
            nodes = (*self._nodes.values(), *self._lingering.current())
            if nodes != yielded:
                yielded, yielded_at = nodes, loop.time()
                yield nodes
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._lingering.seconds_to_next):
                    await self._wake.wait()
            next_at = yielded_at + INTERVAL_SECONDS
            await asyncio.sleep(max(SETTLE_SECONDS, next_at - loop.time()))

    def _compute(self, *, is_first: bool) -> None:
        if self._remap:
            self._remap = False
            try:
                self._map()
            except MappingError as error:
                if is_first:
                    raise
                logger.error("%s; virtual nodes stay as they are", error)  # noqa: TRY400 - one line
        self._update_figures()

    def _update_figures(self) -> None:
        """Bring up to date what pods that came or went have changed."""
        for physical_node in self._used_otherwise:
            for name in self._behind.get(physical_node, ()):
                self._figures[name].update(physical_node)
                self._stale.add(name)
        self._used_otherwise.clear()
        for name in self._stale & self._figures.keys():
            figures = self._figures[name].compute(self.ledger.returned(name))
            self._nodes[name] = replace_figures(self._nodes[name], figures)
        self._stale.clear()

    def _map(self) -> None:
        plan = self._plan
        mapped = map_nodes(
            self._physical.values(),
            plan.mapping,
            plan.rules,
            max_nodes=plan.max_nodes,
            state=self._state,
        )
        self._state = mapped.state
        earlier = self._nodes
        before, self._groups = self._groups, {group.name: group for group in mapped.groups}
        self._behind.clear()
        for name, group in self._groups.items():
            for member in group.members:
                self._behind[member.name].append(name)
        for name in before.keys() - self._groups.keys():
            del self._figures[name], self._placements[name]
        for name, group in self._groups.items():
            if before.get(name) != group:
                self._build(group)
        self._nodes = {name: self._nodes[name] for name in self._groups}
        self._lingering.update(earlier, self._nodes)
        self._log(mapped)

    def _build(self, group: NodeGroup) -> None:
        """Build the virtual node of a group that is new or has changed."""
        name, settings = group.name, self._plan.settings
        figures = GroupFigures(group, self._plan.offer, self.ledger.used)
        node = build_virtual_node(group, figures.compute(self.ledger.returned(name)), settings)
        self._figures[name] = figures
        self._nodes[name] = node
        before = self._placements.get(name)
        now = Placement(build_view(node, group, settings), group.selection)
        self._placements[name] = now
        if before is not None and before != now:
            for handler in self._handlers:
                handler(name)

    def _log(self, mapped: MappedNodes) -> None:
        """Say what has changed of what an operator wants to know."""
        told = (mapped.left_out, mapped.ineligible, mapped.warnings)
        if told == self._told:
            return
        self._told = told
        for group in mapped.groups:
            logger.info("%s: %d physical nodes", group.name, len(group.members))
        for reason in mapped.left_out:
            logger.info("physical node %s stands behind no virtual node", reason)
        for reason in mapped.ineligible:
            logger.info("physical node %s gets no pods", reason)
        for warning in mapped.warnings:
            logger.warning("%s", warning)

    def _on_node(self, old: PhysicalNode | None, new: PhysicalNode | None) -> None:
        """Take in a node event; a heartbeat changes nothing here."""
        if new is not None:
            essence = _essence(new)
            if self._physical.get(new.name) == essence:
                return
            self._physical[new.name] = essence
        elif old is not None:
            del self._physical[old.name]
        self._remap = True
        self._wake.set()


def _essence(node: PhysicalNode) -> PhysicalNode:
    """Return the node without what changes at each heartbeat."""
    metadata = node.metadata
    return replace(
        node, metadata=ObjectMeta(name=metadata.name, uid=metadata.uid, labels=metadata.labels)
    )
