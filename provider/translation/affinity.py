"""
Node affinity of the remote pod: the pod's own constraints, confined to the selection.

The pod's terms are ORed, so the selection is distributed into every one of them: a term of its own
would let the pod escape. What speaks of virtual nodes is decided here, against the virtual node
that the pod is bound to; what speaks of physical nodes travels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provider.labels import is_home_only
from provider.translation.selection import NAME_FIELD, Selection
from vkubelet.errors import RefusedError
from vkubelet.kube.objects import KubeObject
from vkubelet.kube.selector import Operator, Requirement

REASON_NODE_AFFINITY = "NodeAffinity"
"""The kubelet's own word for a pod whose constraints its node doesn't satisfy."""

REASON_NO_NODES = "NoEligibleNodes"


@dataclass(frozen=True, slots=True)
class VirtualNodeView:
    """
    What a pod's constraints are held against at home.

    Attributes:
        name: Name of the virtual node.
        labels: Its labels, as they are.
        home_only_keys: Keys that say nothing about physical nodes, beyond those that never do
            (`--node-label`, and what the virtual node got for want of a common label).
        topology_keys: Label keys of the physical nodes behind it.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    home_only_keys: frozenset[str] = frozenset()
    topology_keys: frozenset[str] = frozenset()

    def is_home_only(self, key: str) -> bool:
        """Whether a requirement on that label key is decided at home."""
        return key in self.home_only_keys or is_home_only(key)


def confine_pod(spec: KubeObject, node: VirtualNodeView, selection: Selection) -> KubeObject:
    """
    Return the spec's nodeSelector and affinity for the remote pod, absent ones left out.

    Raises:
        RefusedError: If the pod's constraints, or the selection, match no node whatever comes.
    """
    if not selection.terms:
        raise RefusedError(
            REASON_NO_NODES, f"no physical node stands behind the virtual node {node.name}"
        )
    confined: KubeObject = {}
    node_selector = _reduce_node_selector(spec.get("nodeSelector") or {}, node)
    if node_selector:
        confined["nodeSelector"] = node_selector
    affinity: dict[str, Any] = spec.get("affinity") or {}
    node_affinity: dict[str, Any] = affinity.get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        terms = selection.build_terms()
    else:
        own = required.get("nodeSelectorTerms") or []
        terms = _cross(_reduce_terms(own, node), selection.build_terms())
        required = {**required, "nodeSelectorTerms": terms}
    confined["affinity"] = {
        **affinity,
        "nodeAffinity": {
            **node_affinity,
            "requiredDuringSchedulingIgnoredDuringExecution": required
            or {"nodeSelectorTerms": terms},
        },
    }
    return confined


def _reduce_node_selector(labels: Mapping[str, str], node: VirtualNodeView) -> dict[str, str]:
    """Return what must hold on the physical node."""
    for key, value in labels.items():
        if node.is_home_only(key) and node.labels.get(key) != value:
            raise RefusedError(
                REASON_NODE_AFFINITY,
                f"nodeSelector {key}={value} doesn't match the virtual node {node.name}",
            )
    return {key: value for key, value in labels.items() if not node.is_home_only(key)}


def _reduce_terms(terms: Sequence[KubeObject], node: VirtualNodeView) -> list[KubeObject]:
    """Return the terms that can still match, less what is decided; {} now means any node."""
    reduced = [_reduce_term(term, node) for term in terms if _is_filled(term)]
    possible = [term for term in reduced if term is not None]
    if not possible:
        raise RefusedError(
            REASON_NODE_AFFINITY,
            f"no term of the required node affinity can match behind the virtual node {node.name}",
        )
    return possible


def _is_filled(term: KubeObject) -> bool:
    """Whether the term has any requirement: one without matches no node."""
    return bool(term.get("matchExpressions") or term.get("matchFields"))


def _reduce_term(term: KubeObject, node: VirtualNodeView) -> KubeObject | None:
    """Return the term without its home-only requirements, None if one of them is false."""
    if not all(_holds_field(item, node) for item in term.get("matchFields") or []):
        return None
    remaining: list[KubeObject] = []
    for expression in term.get("matchExpressions") or []:
        if not node.is_home_only(expression.get("key", "")):
            remaining.append(expression)
        elif not _holds(expression, node.labels):
            return None
    reduced = {key: value for key, value in term.items() if key != "matchFields"}
    if remaining:
        reduced["matchExpressions"] = remaining
    else:
        reduced.pop("matchExpressions", None)
    return reduced


def _holds(expression: KubeObject, labels: Mapping[str, str]) -> bool:
    """Evaluate a label requirement as the scheduler does: one that it can't evaluate is false."""
    requirement = _parse_requirement(expression)
    if requirement is None or requirement.problem is not None:
        return False
    return requirement.matches(labels)


def _holds_field(expression: KubeObject, node: VirtualNodeView) -> bool:
    """Evaluate a field requirement: In or NotIn, of one value."""
    requirement = _parse_requirement(expression)
    if (
        requirement is None
        or requirement.operator not in (Operator.IN, Operator.NOT_IN)
        or len(requirement.values) != 1
    ):
        return False
    return requirement.matches({NAME_FIELD: node.name})


def _parse_requirement(expression: KubeObject) -> Requirement | None:
    """Return the typed requirement, None for an operator that doesn't exist."""
    try:
        operator = Operator(expression.get("operator", ""))
    except ValueError:
        return None
    return Requirement(expression.get("key", ""), operator, tuple(expression.get("values") or ()))


def _cross(own: Sequence[KubeObject], selected: Sequence[KubeObject]) -> list[KubeObject]:
    """Return every own term AND-ed with every selected one, without repetitions."""
    crossed: list[KubeObject] = []
    for term in own:
        for confinement in selected:
            both = _join(term, confinement)
            if both not in crossed:
                crossed.append(both)
    return crossed


def _join(term: KubeObject, confinement: KubeObject) -> KubeObject:
    """Return both terms as one."""
    joined = dict(term)
    for key, requirements in confinement.items():
        present = list(joined.get(key) or [])
        joined[key] = present + [item for item in requirements if item not in present]
    return joined
