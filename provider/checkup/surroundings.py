"""What the checks look at: both clusters, asked once for what several of them need."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from provider.app import identify_peering, read_mapping_state
from provider.command_config import CheckConfig
from provider.lock import find_lock_key
from provider.mapping.groups import NodeMapping
from provider.mapping.physical import build_physical_node
from provider.mapping.resolve import MappedNodes, map_nodes
from provider.node_plan import build_node_plan
from provider.nodes.figures import compute_figures
from provider.nodes.remote_nodes import NodePlan
from provider.nodes.virtual_node import build_virtual_node
from provider.peering import Peering
from vkubelet.interface import VirtualNode
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import NODES, KubeObject, NamespacedName, decode_object

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlannedNodes:
    """
    The virtual nodes that the configuration makes.

    Attributes:
        mapped: What the physical nodes come to.
        nodes: The virtual nodes, by name.
    """

    mapped: MappedNodes
    nodes: Mapping[str, VirtualNode]


class Surroundings:
    """
    Both clusters.

    Attributes:
        config: What `vkubelet run` would get.
        home: The home cluster.
        remote: The remote cluster.
        service_account: Whose rights at home matter; None: those of the home credentials.
    """

    def __init__(
        self,
        config: CheckConfig,
        mapping: NodeMapping,
        home: KubeClient,
        remote: KubeClient,
        service_account: NamespacedName | None = None,
    ) -> None:
        self.config = config
        self.home = home
        self.remote = remote
        self.service_account = service_account
        self._mapping = mapping
        self._known: dict[str, Any] = {}

    @property
    def lock(self) -> NamespacedName:
        """The lock; a service account's process has it in its own namespace."""
        namespace = self.config.home.system_namespace
        if namespace is None and self.service_account is not None:
            namespace = self.service_account.namespace
        return find_lock_key(namespace, self.config.remote.cluster)

    async def peering(self) -> Peering:
        """Identify the peering."""
        home, remote = self.config.home.cluster, self.config.remote.cluster
        return await self._once("peering", lambda: identify_peering(self.home, home, remote))

    async def home_nodes(self) -> list[KubeObject]:
        """List all Nodes of home."""
        return await self._once("home nodes", lambda: self.home.list(NODES))

    async def remote_nodes(self) -> list[KubeObject]:
        """List all Nodes of the remote cluster."""
        return await self._once("remote nodes", lambda: self.remote.list(NODES))

    async def our_nodes(self) -> list[KubeObject]:
        """List the virtual nodes that are there."""
        peering = await self.peering()
        return [
            node
            for node in await self.home_nodes()
            if peering.owns_labels(node["metadata"].get("labels") or {})
        ]

    async def versions(self) -> tuple[str, str]:
        """Ask both API servers for their versions, such as v1.37.2."""
        return (
            await self._once("home version", lambda: read_version(self.home)),
            await self._once("remote version", lambda: read_version(self.remote)),
        )

    async def planned(self) -> PlannedNodes:
        """
        Work out the virtual nodes that there will be.

        Raises:
            MappingError: If a plugin misbehaves.
        """
        return await self._once("planned", self._plan)

    async def _plan(self) -> PlannedNodes:
        peering = await self.peering()
        plan = replace(
            build_node_plan(self.config.nodes, self.config.capacity, self._mapping, peering),
            state=await read_mapping_state(self.home, peering),
        )
        return build_planned(await self.remote_nodes(), plan)

    async def _once(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        if what not in self._known:
            self._known[what] = await ask()
        known: T = self._known[what]
        return known


async def read_version(client: KubeClient) -> str:
    """Ask an API server for its version."""
    return str(decode_object(await client.get_bytes("/version")).get("gitVersion") or "unknown")


def build_planned(nodes: list[KubeObject], plan: NodePlan) -> PlannedNodes:
    """Work out what a plan makes of physical nodes, as if nobody used them."""
    mapped = map_nodes(
        map(build_physical_node, nodes),
        plan.mapping,
        plan.rules,
        max_nodes=plan.max_nodes,
        state=plan.state,
    )
    virtual = (
        build_virtual_node(group, compute_figures(group, plan.offer), plan.settings)
        for group in mapped.groups
    )
    return PlannedNodes(mapped, {node.name: node for node in virtual})
