"""
Pod (anti-)affinity and topology spread: what pods say about each other.

Over there only pods of their own home cluster are counted, whatever else runs in the remote
namespaces, and only where physical nodes have the topology key: a requirement on a key that no node
has would keep a pod waiting for ever.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from provider.labels import HOME_CLUSTER
from vkubelet.kube.objects import KubeObject

_KINDS = ("podAffinity", "podAntiAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """
    Where reflected pods meet each other.

    Attributes:
        home_cluster_uid: The home cluster whose pods count.
        topology_keys: Label keys of the physical nodes.
        name_namespace: Names the remote namespace of a home namespace.
    """

    home_cluster_uid: str
    topology_keys: Collection[str]
    name_namespace: Callable[[str], str]


def translate_neighbours(
    spec: KubeObject, affinity: KubeObject, hood: Neighbourhood
) -> tuple[KubeObject, list[str]]:
    """
    Translate what a pod says about other pods; nothing that is given is changed.

    Args:
        spec: The home pod's.
        affinity: The remote pod's so far.
        hood: Where it will be.

    Returns:
        `affinity` and `topologySpreadConstraints` of the remote pod, absent ones left out, and a
        sentence for each thing that doesn't travel.
    """
    lost: list[str] = []
    remote: KubeObject = {}
    kept = {key: value for key, value in affinity.items() if key not in _KINDS}
    for kind in _KINDS:
        terms = _translate_affinity(affinity.get(kind) or {}, kind, hood, lost)
        if terms:
            kept[kind] = terms
    if kept:
        remote["affinity"] = kept
    constraints = [
        {**constraint, **_narrow(constraint, hood)}
        for constraint in spec.get("topologySpreadConstraints") or ()
        if not _is_lost(constraint, "topologySpreadConstraint", hood, lost)
    ]
    if constraints:
        remote["topologySpreadConstraints"] = constraints
    return remote, lost


def _translate_affinity(
    affinity: KubeObject, kind: str, hood: Neighbourhood, lost: list[str]
) -> KubeObject:
    translated: KubeObject = {}
    required = [
        _translate_term(term, hood)
        for term in affinity.get(_REQUIRED) or ()
        if not _is_lost(term, kind, hood, lost)
    ]
    if required:
        translated[_REQUIRED] = required
    preferred = [
        {**weighted, "podAffinityTerm": _translate_term(weighted["podAffinityTerm"], hood)}
        for weighted in affinity.get(_PREFERRED) or ()
        if not _is_lost(weighted["podAffinityTerm"], kind, hood, lost)
    ]
    if preferred:
        translated[_PREFERRED] = preferred
    return translated


def _is_lost(term: KubeObject, kind: str, hood: Neighbourhood, lost: list[str]) -> bool:
    """Whether a term can't travel; the reason is added to what is lost."""
    key = term.get("topologyKey", "")
    if key not in hood.topology_keys:
        lost.append(f"{kind} on {key} doesn't travel: no physical node has that label")
        return True
    if term.get("namespaceSelector"):
        lost.append(
            f"{kind} on {key} doesn't travel: its namespaceSelector speaks of home's namespaces"
        )
        return True
    return False


def _translate_term(term: KubeObject, hood: Neighbourhood) -> KubeObject:
    translated = {**term, **_narrow(term, hood)}
    if term.get("namespaces"):
        translated["namespaces"] = [hood.name_namespace(name) for name in term["namespaces"]]
    return translated


def _narrow(holder: KubeObject, hood: Neighbourhood) -> KubeObject:
    """Add to a labelSelector that the pod is of the same home cluster; without one none matches."""
    selector: dict[str, Any] | None = holder.get("labelSelector")
    if selector is None:
        return {}
    ours = {"key": HOME_CLUSTER, "operator": "In", "values": [hood.home_cluster_uid]}
    expressions = [*(selector.get("matchExpressions") or ()), ours]
    return {"labelSelector": {**selector, "matchExpressions": expressions}}
