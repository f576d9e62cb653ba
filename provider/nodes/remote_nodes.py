"""The remote cluster's nodes, followed live, and the virtual nodes that they make."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from provider.capacity import CapacityLedger
from provider.mapping.errors import MappingError
from provider.mapping.groups import NodeGroup, NodeMapping
from provider.mapping.membership import MembershipRules
from provider.mapping.physical import PhysicalNode, decode_physical_node
from provider.mapping.resolve import MappedNodes, MappingState, map_nodes
from provider.nodes.figures import OfferPolicy, compute_figures
from provider.nodes.virtual_node import NodeSettings, build_view, build_virtual_node
from provider.translation.affinity import VirtualNodeView
from provider.translation.selection import Selection
from vkubelet.interface import VirtualNode
from vkubelet.kube.client import KubeClient
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import NODES, ObjectMeta

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 0.25
"""Changes that come together are computed once."""


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
        state: Names and slices as an earlier process left them.
    """

    mapping: NodeMapping
    rules: MembershipRules
    settings: NodeSettings
    offer: OfferPolicy = field(default_factory=OfferPolicy)
    max_nodes: int | None = None
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
        self._groups: dict[str, NodeGroup] = {}
        self._nodes: dict[str, VirtualNode] = {}
        self._behind: defaultdict[str, list[str]] = defaultdict(list)
        self._remap = True
        self._stale: set[str] = set()
        self._wake = asyncio.Event()
        self._told: tuple[object, ...] = ()
        self.ledger = CapacityLedger(self._on_usage, self._on_returned)
        self.informer: Informer[PhysicalNode] = Informer(client, NODES, decode_physical_node)
        self.informer.add_handler(self._on_node)

    def placement(self, node: str) -> Placement | None:
        """What confines pods of a virtual node; None if there is no such node (now)."""
        group, virtual = self._groups.get(node), self._nodes.get(node)
        if group is None or virtual is None:
            return None
        view = build_view(virtual, group, self._plan.settings)
        return Placement(view, group.selection)

    def _on_usage(self, physical_node: str) -> None:
        names = self._behind.get(physical_node)
        if names:
            self._stale.update(names)
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
        yielded: tuple[VirtualNode, ...] | None = None
        while True:
            self._wake.clear()
            self._compute(is_first=yielded is None)
            nodes = tuple(self._nodes.values())
            if nodes != yielded:
                yielded = nodes
                yield nodes
            await self._wake.wait()
            await asyncio.sleep(SETTLE_SECONDS)

    def _compute(self, *, is_first: bool) -> None:
        if self._remap:
            self._remap = False
            try:
                self._map()
            except MappingError as error:
                if is_first:
                    raise
                logger.error("%s; virtual nodes stay as they are", error)  # noqa: TRY400 - one line
        stale, self._stale = self._stale, set()
        for name in stale & self._groups.keys():
            self._nodes[name] = self._build(self._groups[name])

    def _map(self) -> None:
        plan = self._plan
        mapped = map_nodes(
            self.informer.store,
            plan.mapping,
            plan.rules,
            max_nodes=plan.max_nodes,
            state=self._state,
        )
        self._state = mapped.state
        before, self._groups = self._groups, {group.name: group for group in mapped.groups}
        self._behind.clear()
        for name, group in self._groups.items():
            if before.get(name) != group:
                self._stale.add(name)
            for member in group.members:
                self._behind[member.name].append(name)
        self._nodes = {
            name: self._nodes.get(name) or self._build(group)
            for name, group in self._groups.items()
        }
        self._log(mapped)

    def _build(self, group: NodeGroup) -> VirtualNode:
        figures = compute_figures(
            group,
            self._plan.offer,
            used=self.ledger.used,
            returned=self.ledger.returned(group.name),
        )
        return build_virtual_node(group, figures, self._plan.settings)

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
        if old is not None and new is not None and _essence(old) == _essence(new):
            return
        self._remap = True
        self._wake.set()


def _essence(node: PhysicalNode) -> PhysicalNode:
    """Return the node without what changes at each heartbeat."""
    metadata = node.metadata
    return replace(
        node, metadata=ObjectMeta(name=metadata.name, uid=metadata.uid, labels=metadata.labels)
    )
