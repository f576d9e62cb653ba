"""Mappings by entry point, and the checks on what they return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.metadata import entry_points

from provider.mapping.errors import MappingError
from provider.mapping.groups import ExplainsLeftOut, NodeGroup, NodeMapping
from provider.mapping.physical import PhysicalNode
from provider.translation.selection import Selection
from vkubelet.kube.names import is_dns_subdomain

ENTRY_POINT_GROUP = "vkubelet.node_mappings"


def load_mapping(name: str) -> "PluginMapping":
    """
    Load the mapping of that name: an entry point that, called without arguments, gives one.

    Raises:
        MappingError: If there is none, or it can't be made.
    """
    found = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise MappingError(
            f"there is no node mapping {name!r}; installed in {ENTRY_POINT_GROUP}: {known}"
        )
    try:
        mapping = found[name].load()()
    except Exception as error:
        raise MappingError(f"node mapping {name!r} can't be loaded: {error!r}") from error
    if not callable(getattr(mapping, "group_nodes", None)):
        raise MappingError(f"node mapping {name!r} has no method group_nodes")
    return PluginMapping(name, mapping)


@dataclass(frozen=True, slots=True)
class PluginMapping:
    """
    A mapping that isn't ours, held to the rules.

    Attributes:
        name: Name of the entry point.
        mapping: What it gave.
    """

    name: str
    mapping: NodeMapping

    def group_nodes(self, nodes: Sequence[PhysicalNode]) -> Sequence[NodeGroup]:
        """
        Let the plugin group the nodes.

        Raises:
            MappingError: If it fails, or returns what can't be.
        """
        try:
            groups = self.mapping.group_nodes(tuple(nodes))
            problem = find_problem(groups, nodes)  # odd values may fail here, too
        except Exception as error:
            raise MappingError(f"node mapping {self.name!r} failed: {error!r}") from error
        if problem is not None:
            raise MappingError(f"node mapping {self.name!r}: {problem}")
        return groups

    def reason_left_out(self, node: PhysicalNode) -> str:
        """Why the plugin has put a node into no group, as far as it says."""
        if isinstance(self.mapping, ExplainsLeftOut):
            return str(self.mapping.reason_left_out(node))
        return f"not chosen by the mapping {self.name}"


def find_problem(groups: object, nodes: Sequence[PhysicalNode]) -> str | None:
    """Say what is wrong with groups that came from outside, None if nothing is."""
    if not isinstance(groups, Sequence) or isinstance(groups, str):
        return f"it returned {type(groups).__name__}, not a sequence of NodeGroup"
    odd = next((group for group in groups if not isinstance(group, NodeGroup)), None)
    if odd is not None:
        return f"it returned a {type(odd).__name__} among the groups"
    check = _GroupCheck(nodes)
    return next(filter(None, map(check.find_problem, groups)), None)


class _GroupCheck:
    """Goes through the groups once; typed values may hold anything, as a plugin made them."""

    def __init__(self, nodes: Sequence[PhysicalNode]) -> None:
        self._nodes = nodes
        self._known = {node.name: node for node in nodes}
        self._keys: set[object] = set()
        self._names: dict[object, str] = {}
        self._owners: dict[str, str] = {}

    def find_problem(self, group: NodeGroup) -> str | None:
        where = f"group {group.key!r}"
        if group.key in self._keys:
            return f"two groups have the key {group.key!r}"
        self._keys.add(group.key)
        problem = (
            self._find_name_problem(group.name, where)
            or self._find_member_problem(group, where)
            or self._find_selection_problem(group, group.selection)
            or _find_cap_problem(group.caps)
        )
        return f"{where}: {problem}" if problem else None

    def _find_name_problem(self, name: object, where: str) -> str | None:
        if not isinstance(name, str) or not is_dns_subdomain(name):
            return f"{name!r} can't be the name of a node"
        if name in self._names:
            return f"it has the same name {name!r} as {self._names[name]}"
        self._names[name] = where
        return None

    def _find_member_problem(self, group: NodeGroup, where: str) -> str | None:
        for node in group.members:
            name = str(getattr(node, "name", node))
            if self._known.get(name) is not node:
                return f"{name!r} isn't one of the nodes that the mapping was given"
            if name in self._owners:
                return f"node {name!r} is in {self._owners[name]} already"
            self._owners[name] = where
        if group.one_to_one and len(group.members) != 1:
            return f"it's one-to-one, but has {len(group.members)} members"
        return None

    def _find_selection_problem(self, group: NodeGroup, selection: object) -> str | None:
        """Check that a pod can go to the members and to no other node."""
        if not isinstance(selection, Selection):
            return f"its selection is a {type(selection).__name__}"
        inside = {node.name for node in group.members}
        for node in self._nodes:
            selected = selection.matches(node.name, node.labels)
            if selected and node.name not in inside:
                return f"its selection also matches {node.name!r}"
            if not selected and node.name in inside:
                return f"its selection doesn't match its member {node.name!r}"
        return None


def _find_cap_problem(caps: Mapping[str, object]) -> str | None:
    for resource, cap in caps.items():
        if not isinstance(cap, Decimal) or not cap.is_finite() or cap < 0:
            return f"{cap!r} can't be the cap of {resource}"
    return None
