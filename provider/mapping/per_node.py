"""Mode `per-node`: a virtual node for each physical node, which it mirrors."""

from collections.abc import Sequence
from dataclasses import dataclass

from provider.mapping.groups import NodeGroup
from provider.mapping.naming import NodeNaming
from provider.mapping.physical import PhysicalNode
from provider.translation.selection import Selection


@dataclass(frozen=True, slots=True)
class PerNodeMapping:
    """
    A group a node.

    Attributes:
        naming: Makes the virtual node's name of the physical one's.
    """

    naming: NodeNaming

    def group_nodes(self, nodes: Sequence[PhysicalNode]) -> Sequence[NodeGroup]:
        """Put each node into its own group."""
        return tuple(
            NodeGroup(
                key=node.name,
                name=self.naming.build_name(node.name),
                members=(node,),
                selection=Selection.of_names([node.name]),
                one_to_one=True,
            )
            for node in nodes
        )
