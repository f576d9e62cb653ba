"""What a Node is to be: what the provider wants, our labels, the rule for what is out of reach."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from vkubelet.config import KubeletPolicy, UnreachableAction
from vkubelet.interface import NodeCondition, Taint, VirtualNode
from vkubelet.node.reachability import Reach

LIFECYCLE_PREFIX = "node.kubernetes.io/"
"""Taints of the node lifecycle controller; never ours."""


WEBSOCKET_FEATURE = "ExtendWebSocketsToKubelet"
"""Declared feature of our own server: WebSockets for exec, attach and port-forward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedNode:
    """
    What a Node is to be, everything taken together.

    Attributes:
        virtual: What the provider wants of it; None while that isn't known.
        labels: All labels that are ours.
        annotations: All annotations that are ours, but the record of taints.
        taints: All taints that are ours.
        conditions: All conditions that are ours; those not named stay.
        port: Port of the kubelet API.
        reach: Whether what is behind can be reached.
    """

    virtual: VirtualNode | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...]
    conditions: tuple[NodeCondition, ...]
    port: int
    reach: Reach

    @property
    def features(self) -> list[str]:
        """status.declaredFeatures."""
        return [] if self.virtual is None else sorted(self.virtual.declared_features)


def declare_server(virtual: VirtualNode, policy: KubeletPolicy) -> VirtualNode:
    """Add what our own server can do to what the provider declares."""
    features = {feature for feature in virtual.declared_features if feature != WEBSOCKET_FEATURE}
    if policy.pass_websockets:
        features.add(WEBSOCKET_FEATURE)
    return replace(virtual, declared_features=tuple(sorted(features)))


def compose(
    virtual: VirtualNode | None,
    policy: KubeletPolicy,
    reach: Reach,
    *,
    port: int,
    leaving: NodeCondition | None = None,
) -> WantedNode:
    """
    Put together what the provider wants and the rule for what can't be reached.

    Args:
        virtual: What the provider wants.
        policy: For our labels and the rule.
        reach: Whether what is behind can be reached.
        port: Port of the kubelet API.
        leaving: Ready of a node that isn't wanted any more; `virtual` is None then.
    """
    taints = () if virtual is None else virtual.taints
    taints = tuple(taint for taint in taints if not taint.key.startswith(LIFECYCLE_PREFIX))
    if reach is Reach.LOST and policy.unreachable.action is UnreachableAction.KEEP:
        taints += (Taint(key=policy.unreachable.taint_key, effect="NoSchedule"),)
    return WantedNode(
        virtual=virtual,
        labels={**(virtual.labels if virtual is not None else {}), **policy.owner_labels},
        annotations={} if virtual is None else virtual.annotations,
        taints=taints,
        conditions=_compose_conditions(
            (leaving,) if leaving else () if virtual is None else virtual.conditions, policy, reach
        ),
        port=port,
        reach=reach,
    )


def _compose_conditions(
    conditions: Iterable[NodeCondition], policy: KubeletPolicy, reach: Reach
) -> tuple[NodeCondition, ...]:
    """
    Conditions under the rule of reach.

    While it isn't known whether what is behind can be reached, no condition is touched: a restart
    flips none.
    """
    rule = policy.unreachable
    own = {condition.type: condition for condition in conditions}
    if reach is Reach.UNKNOWN:
        return ()
    if reach is Reach.LOST:
        message = f"what is behind this node has been out of reach for {rule.after_seconds:g} s"
        if rule.action is UnreachableAction.KEEP:
            own.pop("Ready", None)
            lost = NodeCondition(
                type=rule.condition_type, status="False", reason=rule.reason, message=message
            )
        else:
            lost = NodeCondition(type="Ready", status="False", reason=rule.reason, message=message)
        own[lost.type] = lost
    elif rule.action is UnreachableAction.KEEP:
        own[rule.condition_type] = NodeCondition(
            type=rule.condition_type, status="True", reason="RemoteReachable"
        )
    return tuple(own.values())
