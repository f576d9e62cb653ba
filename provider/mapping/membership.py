"""
Which physical nodes may stand behind virtual nodes, and which of them are fit right now.

Membership follows labels and taints; eligibility follows readiness and cordons. Only the first
moves a node into or out of a group, so that a cordon or a blip evicts nobody.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from provider.labels import LIFECYCLE_PREFIX, TYPE, TYPE_VIRTUAL_KUBELET
from provider.mapping.physical import READY, PhysicalNode
from provider.taints import AcceptedTaint, NodeTaint
from vkubelet.kube.selector import Operator, Requirement, Selector

NOT_A_VIRTUAL_NODE = Requirement(TYPE, Operator.NOT_IN, (TYPE_VIRTUAL_KUBELET,))
"""Peerings in both directions would feed each other."""

_BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class NodeReason:
    """Why a physical node stands behind no virtual node, or isn't fit for pods."""

    node: str
    reason: str

    def __str__(self) -> str:
        return f"{self.node}: {self.reason}"


@dataclass(frozen=True, slots=True)
class MembershipRules:
    """
    The rules that hold in every mode.

    Attributes:
        node_selector: Only nodes with these labels (`--node-selector`).
        accepted_taints: Taints that a member may have (`--tolerate`).
    """

    node_selector: Selector = field(default_factory=Selector)
    accepted_taints: tuple[AcceptedTaint, ...] = ()

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """What every selection requires beside its group's own."""
        return (*self.node_selector.requirements, NOT_A_VIRTUAL_NODE)

    def reason_left_out(self, node: PhysicalNode) -> str | None:
        """Why the node can't be a member, None if it can."""
        if not NOT_A_VIRTUAL_NODE.matches(node.labels):
            return "is a virtual node"
        if not self.node_selector.matches(node.labels):
            return f"selector {self.node_selector} doesn't match"
        taint = next((taint for taint in node.taints if self._is_obstacle(taint)), None)
        return None if taint is None else f"taint {taint}"

    def _is_obstacle(self, taint: NodeTaint) -> bool:
        return (
            taint.effect in _BLOCKING_EFFECTS
            and not taint.key.startswith(LIFECYCLE_PREFIX)
            and not any(accepted.accepts(taint) for accepted in self.accepted_taints)
        )


def reason_ineligible(node: PhysicalNode) -> str | None:
    """Why a member gets no pods right now, None if it can."""
    if not node.is_ready:
        condition = node.conditions.get(READY)
        reason = "" if condition is None else condition.reason
        return f"NotReady ({reason})" if reason else "NotReady"
    return "cordoned" if node.unschedulable else None


def find_eligible(members: Iterable[PhysicalNode]) -> tuple[PhysicalNode, ...]:
    """Return the members that can get pods right now."""
    return tuple(node for node in members if reason_ineligible(node) is None)
