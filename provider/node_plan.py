"""From the configuration to the node plan: which mapping, with which rules and limits."""

from provider.errors import ConfigError
from provider.mapping.cluster import ClusterMapping
from provider.mapping.errors import MappingError
from provider.mapping.groups import NodeMapping
from provider.mapping.label import LabelMapping
from provider.mapping.membership import MembershipRules
from provider.mapping.naming import NodeNaming
from provider.mapping.per_node import PerNodeMapping
from provider.mapping.plugins import load_mapping
from provider.mapping.selector import SelectorMapping
from provider.node_config import CapacityConfig, NodeConfig, NodeMappingMode
from provider.nodes.figures import OfferPolicy
from provider.nodes.remote_nodes import NodePlan
from provider.nodes.virtual_node import NodeSettings
from provider.peering import Peering
from vkubelet.interface import Taint
from vkubelet.kube.selector import parse_selector


def build_mapping(config: NodeConfig, remote_cluster: str) -> NodeMapping:
    """
    Build the mapping that the configuration asks for; a plugin is loaded here.

    Raises:
        ConfigError: If there is no such mapping, or it can't be made.
    """
    naming = NodeNaming(_choose_prefix(config, remote_cluster))
    try:
        match config.mapping:
            case NodeMappingMode.CLUSTER:
                return ClusterMapping(config.name or remote_cluster)
            case NodeMappingMode.SELECTOR:
                return SelectorMapping(config.virtual_nodes)
            case NodeMappingMode.LABEL:
                return LabelMapping(config.mapping_label or "", naming)
            case NodeMappingMode.PER_NODE:
                return PerNodeMapping(naming)
            case _:
                return load_mapping(config.mapping)
    except MappingError as error:
        built_in = ", ".join(mode.value for mode in NodeMappingMode)
        raise ConfigError(f"--node-mapping: {error} (built in: {built_in})") from error


def _choose_prefix(config: NodeConfig, remote_cluster: str) -> str:
    if config.exact_names:
        return ""
    return config.name_prefix if config.name_prefix is not None else f"{remote_cluster}-"


def build_node_plan(
    nodes: NodeConfig,
    capacity: CapacityConfig,
    mapping: NodeMapping,
    peering: Peering,
) -> NodePlan:
    """Build how virtual nodes are made of physical ones."""
    return NodePlan(
        mapping=mapping,
        rules=MembershipRules(parse_selector(nodes.selector), nodes.tolerate),
        settings=NodeSettings(
            peering=peering,
            mapping=nodes.mapping,
            labels=dict(item.split("=", 1) for item in nodes.labels),
            annotations=dict(item.split("=", 1) for item in nodes.annotations),
            taints=tuple(_build_taint(item) for item in nodes.taints),
            default_taint=not nodes.no_default_taint,
            excluded_labels=nodes.excluded_labels,
        ),
        offer=OfferPolicy(
            percent=capacity.percent,
            limits={limit.resource: limit.amount for limit in capacity.limits},
        ),
        max_nodes=nodes.max_nodes,
    )


def _build_taint(text: str) -> Taint:
    """Build a taint of KEY[=VALUE]:EFFECT."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return Taint(key=key, value=value, effect=effect)
