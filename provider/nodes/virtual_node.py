"""The virtual node of a group: labels, taints, conditions, figures; a pure function."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from provider.labels import (
    ARCH,
    DEFAULT_EXCLUDED_LABELS,
    EXCLUDE_FROM_LOAD_BALANCERS,
    GROUP,
    HOSTNAME,
    LARGEST_FREE,
    MEMBERS,
    NODE_MAPPING,
    OS,
    PROVIDER_TAINT,
    REGION,
    TYPE,
    TYPE_VIRTUAL_KUBELET,
    is_home_only,
    make_label_value,
)
from provider.mapping.groups import NodeGroup
from provider.mapping.membership import find_eligible
from provider.mapping.physical import READY, PhysicalNode
from provider.mapping.split import format_slice
from provider.nodes.figures import Figures
from provider.peering import Peering
from provider.requests import Resources
from provider.translation.affinity import VirtualNodeView
from vkubelet.interface import NodeCondition, Taint, VirtualNode
from vkubelet.kube.quantity import format_quantity

REASON_NO_ELIGIBLE_NODES = "NoEligibleNodes"

_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory"),
    ("DiskPressure", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "KubeletHasSufficientPID"),
)

_SERVER_FEATURES = frozenset({"ExtendWebSocketsToKubelet"})
"""Features of the kubelet's own server: ours answers, whatever is behind."""

_NODE_INFO_KEYS = (
    "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion",
    "kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID",
)  # fmt: skip
"""All of them are required by the API; what the members don't share is empty."""

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """
    What is the same for all virtual nodes of a peering.

    Attributes:
        peering: Whose virtual nodes they are.
        mapping: Name of the node mapping.
        labels: From `--node-label`.
        annotations: From `--node-annotation`.
        taints: From `--node-taint`.
        default_taint: Whether pods have to tolerate the provider's taint.
        excluded_labels: Patterns of physical labels that aren't taken over.
    """

    peering: Peering
    mapping: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    default_taint: bool = True
    excluded_labels: tuple[str, ...] = DEFAULT_EXCLUDED_LABELS


def build_virtual_node(group: NodeGroup, figures: Figures, settings: NodeSettings) -> VirtualNode:
    """Build the virtual node as it's to look."""
    labels = _build_labels(group, settings)
    return VirtualNode(
        name=group.name,
        labels=labels,
        inherited=frozenset(labels) - _build_own(group, settings).keys(),
        annotations=_build_annotations(group, figures, settings),
        taints=_build_taints(settings),
        capacity=_format(figures.capacity),
        allocatable=_format(figures.allocatable),
        conditions=_build_conditions(group),
        node_info=_build_node_info(group.members),
        cordon=group.one_to_one and any(node.unschedulable for node in group.members),
        declared_features=_find_common_features(group.members),
    )


def replace_figures(node: VirtualNode, figures: Figures) -> VirtualNode:
    """Return the virtual node with other figures; what its group gives stays, capacity too."""
    annotations = node.annotations
    if LARGEST_FREE in annotations:
        annotations = {**annotations, **_build_largest(figures)}
    return replace(node, annotations=annotations, allocatable=_format(figures.allocatable))


def build_deserted(node: VirtualNode) -> VirtualNode:
    """Return what becomes of a virtual node whose group is gone: it offers nothing, not Ready."""
    others = tuple(condition for condition in node.conditions if condition.type != READY)
    kept = {key: value for key, value in node.annotations.items() if key != LARGEST_FREE}
    return replace(
        node,
        annotations={**kept, MEMBERS: _format_members(0, 0)},
        allocatable=dict.fromkeys(node.allocatable, "0"),
        conditions=(_build_not_ready(), *others),
    )


def build_view(node: VirtualNode, group: NodeGroup, settings: NodeSettings) -> VirtualNodeView:
    """
    Build what a pod's own constraints are held against.

    A region that the group doesn't have, and our mark for load balancers, say nothing about
    physical nodes either.
    """
    home_only = {*settings.labels, EXCLUDE_FROM_LOAD_BALANCERS}
    if REGION not in _find_inherited_labels(group, settings):
        home_only.add(REGION)
    keys = frozenset(key for member in group.members for key in member.labels)
    return VirtualNodeView(node.name, node.labels, frozenset(home_only), keys)


def describe_mixed(group: NodeGroup) -> tuple[str, ...]:
    """Say which of operating system and architecture the members don't share."""
    notes: list[str] = []
    for key in (OS, ARCH):
        values = sorted({node.labels.get(key, "none") for node in group.members})
        if len(values) > 1:
            notes.append(f"{key} is left out: members have {', '.join(values)}")
    return tuple(notes)


def _build_labels(group: NodeGroup, settings: NodeSettings) -> dict[str, str]:
    """Common physical labels, under those of the user, under ours."""
    labels = _find_inherited_labels(group, settings)
    # Without a region, virtual nodes would share the failure zone of unlabelled real nodes.
    labels.setdefault(REGION, settings.peering.remote_cluster)
    return labels | _build_own(group, settings)


def _build_own(group: NodeGroup, settings: NodeSettings) -> dict[str, str]:
    return {
        **settings.labels,
        **settings.peering.labels,
        TYPE: TYPE_VIRTUAL_KUBELET,
        HOSTNAME: make_label_value(group.name),
        EXCLUDE_FROM_LOAD_BALANCERS: "",
        NODE_MAPPING: make_label_value(settings.mapping),
    }


def _find_inherited_labels(group: NodeGroup, settings: NodeSettings) -> dict[str, str]:
    """Return the physical labels that all members share and that mean something at home."""
    if not group.members:
        return {}
    first, *others = (node.labels for node in group.members)
    return {
        key: value
        for key, value in first.items()
        if not is_home_only(key)
        and not any(fnmatchcase(key, pattern) for pattern in settings.excluded_labels)
        and all(labels.get(key) == value for labels in others)
    }


def _build_annotations(
    group: NodeGroup, figures: Figures, settings: NodeSettings
) -> dict[str, str]:
    eligible = len(find_eligible(group.members))
    own = {
        GROUP: group.origin,
        MEMBERS: _format_members(eligible, len(group.members)),
        **format_slice(group),
    }
    if not group.one_to_one:  # it would say once more what is allocatable
        own |= _build_largest(figures)
    return {**settings.annotations, **own}


def _format_members(eligible: int, members: int) -> str:
    return json.dumps({"eligible": eligible, "members": members}, separators=(",", ":"))


def _build_largest(figures: Figures) -> dict[str, str]:
    largest = figures.largest_free
    if largest is None:
        return {}
    value = {"name": largest.name, "free": _format(largest.free)}
    return {LARGEST_FREE: json.dumps(value, separators=(",", ":"), sort_keys=True)}


def _build_taints(settings: NodeSettings) -> tuple[Taint, ...]:
    """
    Build the taints; by key and effect, as the API has them.

    Physical taints aren't mirrored: reflected pods get the toleration of those that are accepted,
    and those of a node's lifecycle are the home control plane's to put.
    """
    provider = Taint(key=PROVIDER_TAINT, value=settings.peering.remote_cluster, effect="NoSchedule")
    taints = (provider, *settings.taints) if settings.default_taint else settings.taints
    return tuple({(taint.key, taint.effect): taint for taint in taints}.values())


def _build_conditions(group: NodeGroup) -> tuple[NodeCondition, ...]:
    mirrored = group.members[0].conditions if group.one_to_one and group.members else {}
    ready = mirrored.get(READY) or _build_ready(group)
    pressures = (
        mirrored.get(kind) or NodeCondition(type=kind, status="False", reason=reason)
        for kind, reason in _PRESSURES
    )
    network = NodeCondition(type="NetworkUnavailable", status="False", reason="RouteCreated")
    return (ready, *pressures, network)


def _build_ready(group: NodeGroup) -> NodeCondition:
    """
    Build the Ready condition of a group.

    Only a group without members isn't ready. Members that aren't eligible take away capacity: if
    they made the virtual node NotReady, a blip of the remote nodes would evict its pods.
    """
    if not group.members:
        return _build_not_ready()
    eligible = len(find_eligible(group.members))
    return NodeCondition(
        type=READY,
        status="True",
        reason="KubeletReady" if eligible else REASON_NO_ELIGIBLE_NODES,
        message=f"{eligible} of {len(group.members)} physical nodes are ready and schedulable",
    )


def _build_not_ready() -> NodeCondition:
    return NodeCondition(
        type=READY,
        status="False",
        reason=REASON_NO_ELIGIBLE_NODES,
        message="no physical node stands behind this virtual node",
    )


def _build_node_info(members: Sequence[PhysicalNode]) -> dict[str, str]:
    """What all members share; of kubelet versions the lowest, as that is what can be relied on."""
    info: dict[str, str] = {}
    for key in _NODE_INFO_KEYS:
        values = {node.node_info.get(key, "") for node in members}
        info[key] = values.pop() if len(values) == 1 else ""
    versions = [node.node_info.get("kubeletVersion", "") for node in members]
    if versions:
        info["kubeletVersion"] = min(versions, key=_version_key)
    return info


def _version_key(text: str) -> tuple[int, ...]:
    match = _VERSION.match(text)
    return tuple(int(part) for part in match.groups()) if match else ()


def _find_common_features(members: Iterable[PhysicalNode]) -> tuple[str, ...]:
    declared = [set(node.declared_features) for node in members]
    common = set.intersection(*declared) if declared else set()
    return tuple(sorted(common - _SERVER_FEATURES))


def _format(amounts: Resources) -> dict[str, str]:
    return {name: format_quantity(amounts[name], name) for name in sorted(amounts)}
