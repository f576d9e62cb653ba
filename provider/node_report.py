"""What a node plan makes of a remote cluster, as values to be shown; pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from provider.mapping.groups import NodeGroup
from provider.mapping.membership import NodeReason
from provider.mapping.physical import PhysicalNode
from provider.mapping.resolve import map_nodes
from provider.nodes.figures import Figures, compute_figures
from provider.nodes.remote_nodes import NodePlan
from provider.nodes.virtual_node import describe_mixed
from provider.requests import NOTHING, Resources
from provider.translation.selection import Selection
from vkubelet.kube.quantity import format_quantity


@dataclass(frozen=True, slots=True)
class VirtualNodeReport:
    """
    A virtual node as it would be.

    Attributes:
        name: Its name.
        physical_nodes: Names of the nodes behind it.
        figures: What it would offer.
        selection: Where its pods could go.
        notes: What its physical nodes don't share.
    """

    name: str
    physical_nodes: tuple[str, ...]
    figures: Figures
    selection: Selection
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """
    All virtual nodes, and the physical nodes that aren't (fully) used.

    Attributes:
        remote_cluster: Name of the remote cluster.
        mapping: Name of the node mapping.
        virtual_nodes: In the order of their names.
        left_out: Physical nodes that stand behind none, and why.
        ineligible: Members that would get no pods right now, and why.
        warnings: What to look at, a sentence each.
    """

    remote_cluster: str
    mapping: str
    virtual_nodes: tuple[VirtualNodeReport, ...]
    left_out: tuple[NodeReason, ...]
    ineligible: tuple[NodeReason, ...]
    warnings: tuple[str, ...]


def build_node_report(
    nodes: Iterable[PhysicalNode],
    plan: NodePlan,
    *,
    used: Callable[[str], Resources] = lambda _: NOTHING,
) -> NodeReport:
    """
    Say what the plan makes of these nodes.

    Args:
        nodes: The remote cluster's nodes.
        plan: How virtual nodes are made of them.
        used: Requests of the pods on a physical node.

    Raises:
        MappingError: If a plugin misbehaves.
    """
    mapped = map_nodes(nodes, plan.mapping, plan.rules, max_nodes=plan.max_nodes, state=plan.state)
    return NodeReport(
        remote_cluster=plan.settings.peering.remote_cluster,
        mapping=plan.settings.mapping,
        virtual_nodes=tuple(_report_group(group, plan, used) for group in mapped.groups),
        left_out=mapped.left_out,
        ineligible=mapped.ineligible,
        warnings=mapped.warnings,
    )


def _report_group(
    group: NodeGroup, plan: NodePlan, used: Callable[[str], Resources]
) -> VirtualNodeReport:
    return VirtualNodeReport(
        name=group.name,
        physical_nodes=tuple(node.name for node in group.members),
        figures=compute_figures(group, plan.offer, used=used),
        selection=group.selection,
        notes=describe_mixed(group),
    )


def encode_node_report(report: NodeReport) -> dict[str, Any]:
    """Return the report as it's printed in JSON and YAML."""
    return {
        "remoteCluster": report.remote_cluster,
        "nodeMapping": report.mapping,
        "virtualNodes": [_encode_virtual_node(node) for node in report.virtual_nodes],
        "leftOut": _encode_reasons(report.left_out),
        "ineligible": _encode_reasons(report.ineligible),
        "warnings": list(report.warnings),
    }


def _encode_virtual_node(node: VirtualNodeReport) -> dict[str, Any]:
    largest = node.figures.largest_free
    encoded: dict[str, Any] = {
        "name": node.name,
        "physicalNodes": list(node.physical_nodes),
        "capacity": format_resources(node.figures.capacity),
        "allocatable": format_resources(node.figures.allocatable),
        "largestFreeNode": None,
        "nodeSelectorTerms": node.selection.build_terms(),
        "notes": list(node.notes),
    }
    if largest is not None:
        encoded["largestFreeNode"] = {
            "name": largest.name,
            "free": format_resources(largest.free),
        }
    return encoded


def _encode_reasons(reasons: Sequence[NodeReason]) -> list[dict[str, str]]:
    return [{"node": item.node, "reason": item.reason} for item in reasons]


def format_resources(amounts: Resources) -> dict[str, str]:
    """Return the amounts as quantities, in the order of their names."""
    return {name: format_quantity(amounts[name], name) for name in sorted(amounts)}
