"""Mode `cluster`: all physical nodes stand behind one virtual node."""

from collections.abc import Sequence
from dataclasses import dataclass

from provider.mapping.groups import NodeGroup
from provider.mapping.physical import PhysicalNode
from provider.translation.selection import Selection


@dataclass(frozen=True, slots=True)
class ClusterMapping:
    """
    One group of all nodes, also of none.

    Attributes:
        name: Name of the virtual node.
    """

    name: str

    def group_nodes(self, nodes: Sequence[PhysicalNode]) -> Sequence[NodeGroup]:
        """Put all nodes into the one group."""
        return (
            NodeGroup(
                key="cluster",
                name=self.name,
                members=tuple(nodes),
                selection=Selection.of_all(),
                named=True,
            ),
        )
