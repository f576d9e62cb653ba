"""Policy of a kubelet: what its user decides; values only, checked when they are made."""

import enum
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease"})
"""Namespaces that are reflected only by a filter that says so."""


class DaemonSetPolicy(enum.StrEnum):
    """
    What becomes of DaemonSet pods, whose controllers tolerate almost any taint.

    Attributes:
        PLACEHOLDER: Shown as running and ready without containers, so that a rollout goes on.
        PENDING: Left Pending with a reason.
        REFLECT: Handled as any other pod.
    """

    PLACEHOLDER = "placeholder"
    PENDING = "pending"
    REFLECT = "reflect"


class UnreachableAction(enum.StrEnum):
    """
    What becomes of a node when what is behind it can't be reached.

    Attributes:
        EVICT: Ready=False: Kubernetes treats it as any lost node.
        KEEP: Ready stays; a condition and a NoSchedule taint tell.
    """

    EVICT = "evict"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachablePolicy:
    """
    The rule for nodes whose far side can't be reached.

    Attributes:
        action: What is done.
        after_seconds: How long it must have been out of reach; also counted from the start.
        reason: Reason of the condition that is set.
        condition_type: Condition that is False under KEEP.
        taint_key: Key of the NoSchedule taint under KEEP.
    """

    action: UnreachableAction = UnreachableAction.EVICT
    after_seconds: float = 30.0
    reason: str = "RemoteUnreachable"
    condition_type: str = "RemoteReachable"
    taint_key: str = "vkubelet.io/remote-unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceFilter:
    """
    Which home namespaces are reflected: those named, and those the selector matches.

    Attributes:
        names: Names of namespaces.
        selector: Label selector over Namespace objects; "" selects none.
        everything: All namespaces.
        system: Whether kube-system, kube-public and kube-node-lease may be among them.
    """

    names: frozenset[str] = frozenset()
    selector: str = ""
    everything: bool = False
    system: bool = False

    def may_include(self, namespace: str) -> bool:
        """Whether the namespace isn't ruled out by its name alone."""
        return self.system or namespace not in SYSTEM_NAMESPACES

    def names_namespace(self, namespace: str) -> bool:
        """Whether the namespace is reflected whatever its labels."""
        return self.may_include(namespace) and (self.everything or namespace in self.names)


ALL_NAMESPACES = NamespaceFilter(everything=True, system=True)
"""Every namespace, the system's too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRange:
    """Ports for the kubelet API, one a node; 0 to 0 lets the system choose each."""

    first: int = 0
    last: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last <= 65535 or (self.first == 0 and self.last != 0):
            raise ValueError(f"kubelet ports {self} aren't a range within 1-65535 (nor 0-0)")

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def __contains__(self, port: int) -> bool:
        return self.first <= port <= self.last if self.first else port > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletPolicy:
    """
    What a kubelet is told about its surroundings.

    Attributes:
        owner_labels: Labels that make a Node ours; stamped on each beside the provider's own.
        address: InternalIP that is published, and a subject of the serving certificates.
        bind_address: Where the kubelet API listens; "" for all interfaces.
        ports: Ports of the kubelet API.
        port_setting: What the port range is called where the user sets it, for messages.
        namespaces: Which namespaces are reflected.
        daemonset_pods: What becomes of DaemonSet pods.
        unreachable: The rule for nodes whose far side can't be reached.
        field_manager: Manager of server-side applied labels and annotations; component of events.
        cordon_annotation: Marks a cordon as ours.
        taints_annotation: Keeps which taints are ours, across restarts.
        removal_annotation: Keeps since when a Node is being removed, across restarts.
        placeholder_condition: Condition of placeholder pods.
        kubelet_version: nodeInfo.kubeletVersion where the provider gives none.
        pass_websockets: Whether API servers may pass clients' WebSockets on to our port (1.36 and
            later do if the Node declares it); else they turn them into SPDY.
        stream_creation_seconds: How long a client may take to open all streams of a command.
        stream_idle_seconds: How long a command or port-forward may pass no data either way; 0: for
            ever.
        lease_duration_seconds: Life of a node's Lease.
        lease_renew_seconds: How often the Lease is renewed.
        status_resync_seconds: How often a node's status is written though nothing changed.
        status_interval_seconds: Least time between two status writes of one node.
        drain_timeout_seconds: How long the pods of a Node that isn't wanted any more are evicted;
            those that disruption budgets still hold then are deleted.
        refused_retry_seconds: A refused pod that didn't change is offered again after some seconds,
            then ever more rarely, at last after these.
        unschedulable_timeout_seconds: When a pod is evicted for which no place is found behind its
            node, so that its controller makes another; None: never.
        lost_timeout_seconds: When a pod is evicted for which what is behind is being deleted
            though nobody at home asked for it; None: never.
        pod_workers: Pods that are worked on at once.
        node_workers: Nodes that are worked on at once.
    """

    owner_labels: Mapping[str, str]
    address: str
    bind_address: str = ""
    ports: PortRange = field(default_factory=PortRange)
    port_setting: str = "kubelet ports"
    namespaces: NamespaceFilter = field(default_factory=NamespaceFilter)
    daemonset_pods: DaemonSetPolicy = DaemonSetPolicy.PLACEHOLDER
    unreachable: UnreachablePolicy = field(default_factory=UnreachablePolicy)
    field_manager: str = "vkubelet"
    cordon_annotation: str = "vkubelet.io/cordoned"
    taints_annotation: str = "vkubelet.io/taints"
    removal_annotation: str = "vkubelet.io/removing-since"
    placeholder_condition: str = "vkubelet.io/Placeholder"
    kubelet_version: str = ""
    pass_websockets: bool = True
    stream_creation_seconds: float = 30.0
    stream_idle_seconds: float = 4 * 60 * 60.0
    lease_duration_seconds: int = 40
    lease_renew_seconds: float = 10.0
    status_resync_seconds: float = 300.0
    status_interval_seconds: float = 1.0
    drain_timeout_seconds: float = 300.0
    refused_retry_seconds: float = 300.0
    unschedulable_timeout_seconds: float | None = None
    lost_timeout_seconds: float | None = 300.0
    pod_workers: int = 20
    node_workers: int = 20

    def __post_init__(self) -> None:
        if not self.owner_labels:
            raise ValueError("owner_labels is empty: every Node of the cluster would be ours")
        try:
            ipaddress.ip_address(self.address)
        except ValueError as error:
            raise ValueError(f"kubelet address {self.address!r} isn't an IP address") from error
        if self.lease_renew_seconds * 2 > self.lease_duration_seconds:
            raise ValueError("a Lease must be renewed at least twice within its duration")
        if self.drain_timeout_seconds < 0:
            raise ValueError("the drain time-out is negative")
