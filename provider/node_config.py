"""The part of the configuration that says which virtual nodes there are and what they offer."""

import enum
from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from provider.checks import (
    CapacityLimit,
    Duration,
    check_annotation_pair,
    check_dns_subdomain,
    check_label_key,
    check_label_pair,
    check_label_pattern,
    check_name_prefix,
    check_selector,
    check_taint,
    read_accepted_taint,
    read_capacity_limit,
    read_duration,
    read_named_selector,
)
from provider.flags import Flag, Section
from provider.labels import DEFAULT_EXCLUDED_LABELS
from provider.mapping.selector import NamedSelector
from provider.taints import AcceptedTaint


class NodeMappingMode(enum.StrEnum):
    """Modes of the node mapping that are built in; any other name is a plugin's."""

    CLUSTER = "cluster"
    SELECTOR = "selector"
    LABEL = "label"
    PER_NODE = "per-node"


class ForeignUse(enum.StrEnum):
    """
    Whether the remote pods of others are counted.

    Attributes:
        WATCH: All pods of the remote cluster are watched.
        IGNORE: Only our own are, and what others use is offered, too.
    """

    WATCH = "watch"
    IGNORE = "ignore"


class NodeConfig(Section):
    """Virtual nodes and what stands behind them."""

    mapping: Annotated[str, Flag("--node-mapping", "MODE")] = NodeMappingMode.CLUSTER.value
    """Which physical nodes stand behind which virtual node: cluster (all behind one), selector,
    label, per-node, or the name of a plugin."""

    selector: Annotated[
        str, AfterValidator(check_selector), Flag("--node-selector", "SELECTOR")
    ] = ""
    """Only physical nodes with these labels, in every mode."""

    virtual_nodes: Annotated[
        tuple[Annotated[NamedSelector, BeforeValidator(read_named_selector)], ...],
        Flag("--virtual-node", "NAME=SELECTOR"),
    ] = ()
    """Mode selector: a virtual node, and the labels of the physical nodes behind it; repeatable."""

    mapping_label: Annotated[
        Annotated[str, AfterValidator(check_label_key)] | None, Flag("--mapping-label", "KEY")
    ] = None
    """Mode label: one virtual node for each value of this label, found live."""

    name: Annotated[
        Annotated[str, AfterValidator(check_dns_subdomain)] | None, Flag("--node-name", "NAME")
    ] = None
    """Mode cluster: name of the virtual node (default: the remote cluster's)."""

    name_prefix: Annotated[
        Annotated[str, AfterValidator(check_name_prefix)] | None,
        Flag("--node-name-prefix", "PREFIX"),
    ] = None
    """Modes label and per-node: what names begin with (default: the remote cluster's, and '-')."""

    exact_names: Annotated[bool, Flag("--exact-node-names")] = False
    """Modes label and per-node: names are the label's values or the physical nodes' own names."""

    max_nodes: Annotated[
        int | None, Field(ge=1), Flag("--max-nodes-per-virtual-node", "NUMBER")
    ] = None
    """Split larger groups into virtual nodes of at most this many physical nodes."""

    tolerate: Annotated[
        tuple[Annotated[AcceptedTaint, BeforeValidator(read_accepted_taint)], ...],
        Flag("--tolerate", "KEY[=VALUE][:EFFECT]"),
    ] = ()
    """Physical taint that is acceptable; repeatable; the toleration is given to reflected pods."""

    labels: Annotated[
        tuple[Annotated[str, AfterValidator(check_label_pair)], ...],
        Flag("--node-label", "KEY=VALUE"),
    ] = ()
    """Label on every virtual node; repeatable."""

    excluded_labels: Annotated[
        tuple[Annotated[str, AfterValidator(check_label_pattern)], ...],
        Flag("--node-label-exclude", "PATTERN"),
    ] = DEFAULT_EXCLUDED_LABELS
    """Labels that virtual nodes don't take over from physical ones, with * and ?; repeatable."""

    annotations: Annotated[
        tuple[Annotated[str, AfterValidator(check_annotation_pair)], ...],
        Flag("--node-annotation", "KEY=VALUE"),
    ] = ()
    """Annotation on every virtual node; repeatable."""

    taints: Annotated[
        tuple[Annotated[str, AfterValidator(check_taint)], ...],
        Flag("--node-taint", "KEY[=VALUE]:EFFECT"),
    ] = ()
    """Taint on every virtual node; repeatable."""

    no_default_taint: Annotated[bool, Flag("--no-default-taint")] = False
    """Leave out the taint virtual-kubelet.io/provider=<remote-cluster>:NoSchedule."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        problem = next(self._find_problems(), None)
        if problem is not None:
            raise ValueError(problem)
        return self

    def _find_problems(self) -> Iterator[str]:
        """Yield what contradicts, or doesn't go with the mode; each names its flag."""
        cluster, selector, label = "cluster", "selector", "label"
        named = (label, NodeMappingMode.PER_NODE.value)
        for flag, given, modes in (
            ("--node-name", self.name is not None, (cluster,)),
            ("--virtual-node", bool(self.virtual_nodes), (selector,)),
            ("--mapping-label", self.mapping_label is not None, (label,)),
            ("--node-name-prefix", self.name_prefix is not None, named),
            ("--exact-node-names", self.exact_names, named),
        ):
            if given and self.mapping not in modes:
                yield f"{flag} goes with --node-mapping {' or '.join(modes)} only"
        if self.exact_names and self.name_prefix is not None:
            yield "--exact-node-names and --node-name-prefix exclude each other"
        if self.mapping == selector and not self.virtual_nodes:
            yield "--virtual-node is required with --node-mapping selector"
        if self.mapping == label and self.mapping_label is None:
            yield "--mapping-label is required with --node-mapping label"
        names = [item.name for item in self.virtual_nodes]
        for name in names:
            if names.count(name) > 1:
                yield f"--virtual-node {name} is given twice"


class CapacityConfig(Section):
    """What virtual nodes offer."""

    percent: Annotated[int, Field(ge=1, le=100), Flag("--capacity-percent", "PERCENT")] = 100
    """Offer only this share of what is free."""

    limits: Annotated[
        tuple[Annotated[CapacityLimit, BeforeValidator(read_capacity_limit)], ...],
        Flag("--capacity-limit", "RESOURCE=QUANTITY"),
    ] = ()
    """The most that each virtual node offers of a resource; repeatable."""

    foreign_use: Annotated[ForeignUse, Flag("--foreign-use", "MODE")] = ForeignUse.WATCH
    """What the remote pods of others use: watch (it is taken off) or ignore (where the remote
    credentials may not list all pods)."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        resources = [limit.resource for limit in self.limits]
        twice = next((name for name in resources if resources.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"--capacity-limit {twice} is given twice")
        return self


class DrainConfig(Section):
    """Virtual nodes that end."""

    drain_timeout: Annotated[
        Duration, BeforeValidator(read_duration), Flag("--drain-timeout", "DURATION")
    ] = Duration(300)
    """Before a virtual node that isn't wanted any more is removed: how long its pods are evicted;
    those that disruption budgets still hold then are deleted."""


class RemovalConfig(DrainConfig):
    """Virtual nodes that end."""

    delay: Annotated[
        Duration, BeforeValidator(read_duration), Flag("--group-removal-delay", "DURATION")
    ] = Duration(300)
    """How long the virtual node of a group whose physical nodes are all gone is kept, NotReady."""
