"""Mode `label`: a virtual node for each value of a label, found live."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from provider.mapping.errors import MappingError
from provider.mapping.groups import NodeGroup
from provider.mapping.naming import NodeNaming
from provider.mapping.physical import PhysicalNode
from provider.translation.selection import Selection
from vkubelet.kube.names import is_label_key
from vkubelet.kube.selector import Operator, Requirement


@dataclass(frozen=True, slots=True)
class LabelMapping:
    """
    A group a value.

    Attributes:
        label: Key of the label.
        naming: Makes the virtual node's name of the value.
    """

    label: str
    naming: NodeNaming

    def __post_init__(self) -> None:
        if not is_label_key(self.label):
            raise MappingError(f"--mapping-label {self.label!r} is not a label key")

    def group_nodes(self, nodes: Sequence[PhysicalNode]) -> Sequence[NodeGroup]:
        """Put nodes of the same value together."""
        by_value: defaultdict[str, list[PhysicalNode]] = defaultdict(list)
        for node in nodes:
            value = node.labels.get(self.label)
            if value:
                by_value[value].append(node)
        return tuple(
            NodeGroup(
                key=value,
                name=self.naming.build_name(value),
                members=tuple(members),
                selection=Selection.of_requirements(
                    [Requirement(self.label, Operator.IN, (value,))]
                ),
            )
            for value, members in sorted(by_value.items())
        )

    def reason_left_out(self, node: PhysicalNode) -> str:
        """Why no group has the node: without a value there is nothing to name the group by."""
        if self.label in node.labels:
            return f"label {self.label} has no value"
        return f"no label {self.label}"
