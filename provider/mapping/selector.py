"""Mode `selector`: virtual nodes that the user names, each with a label selector."""

from collections.abc import Sequence
from dataclasses import dataclass

from provider.mapping.errors import MappingError
from provider.mapping.groups import NodeGroup
from provider.mapping.physical import PhysicalNode
from provider.translation.selection import Selection
from vkubelet.kube.names import is_dns_subdomain
from vkubelet.kube.selector import Selector, SelectorError, parse_selector


@dataclass(frozen=True, slots=True)
class NamedSelector:
    """A virtual node and the labels of the physical nodes behind it."""

    name: str
    selector: Selector


@dataclass(frozen=True, slots=True)
class SelectorMapping:
    """A group a selector, also of no nodes; a node may be in several."""

    virtual_nodes: tuple[NamedSelector, ...]

    def __post_init__(self) -> None:
        if not self.virtual_nodes:
            raise MappingError("node mapping selector needs at least one --virtual-node")
        names = [item.name for item in self.virtual_nodes]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise MappingError(f"--virtual-node {twice} is given twice")

    def group_nodes(self, nodes: Sequence[PhysicalNode]) -> Sequence[NodeGroup]:
        """Put into each group the nodes that its selector selects."""
        return tuple(
            NodeGroup(
                key=item.name,
                name=item.name,
                members=tuple(node for node in nodes if item.selector.matches(node.labels)),
                selection=Selection.of_selector(item.selector),
                named=True,
            )
            for item in self.virtual_nodes
        )

    def reason_left_out(self, node: PhysicalNode) -> str:
        """Why no group has the node."""
        del node  # the same for all
        if len(self.virtual_nodes) == 1:
            return f"selector {self.virtual_nodes[0].selector} doesn't match"
        return "no --virtual-node's selector matches"


def parse_named_selector(text: str) -> NamedSelector:
    """
    Parse NAME=SELECTOR.

    Raises:
        ValueError: Names the text; a wrong selector is pointed at.
    """
    name, equals, selector = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not NAME=SELECTOR")
    if not is_dns_subdomain(name):
        raise ValueError(f"{text!r} is not NAME=SELECTOR: {name!r} can't be the name of a node")
    try:
        return NamedSelector(name, parse_selector(selector))
    except SelectorError as error:
        at = len(name) + 1 + error.position
        raise SelectorError(text, at, error.problem) from error
