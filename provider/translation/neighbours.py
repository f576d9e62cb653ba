"""
Pod (anti-)affinity and topology spread: what pods say about each other.

Over there only pods of their own home cluster are counted, whatever else runs in the remote
namespaces, and only where physical nodes have the topology key: a requirement on a key that no node
has would keep a pod waiting for ever.

Home's API server has written what `matchLabelKeys` and `mismatchLabelKeys` mean into the
labelSelector already. If they travelled, too, the remote one would write it a second time, and then
refuse the pod for it: so only the labelSelector travels.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from provider.labels import HOME_CLUSTER, NAMESPACE_NAME
from vkubelet.kube.objects import KubeObject

_KINDS = ("podAffinity", "podAntiAffinity")
_LABEL_KEYS = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}
"""What the API server makes of the pod's labels of these keys; strategy.go, PrepareForCreate."""
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
        namespace: The pod's own, at home.
        labels: The pod's own, at home.
    """

    home_cluster_uid: str
    topology_keys: Collection[str]
    name_namespace: Callable[[str], str]
    namespace: str
    labels: Mapping[str, str]


def translate_neighbours(
    spec: KubeObject, affinity: KubeObject, hood: Neighbourhood
) -> tuple[KubeObject, list[str]]:
    """
    Translate what a pod says about other pods; nothing that is given is changed.

    Args:
        spec: The home pod's.
        affinity: The remote pod's so far.
        hood: The pod, and where it will be.

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
        _narrow(constraint, hood)
        for constraint in spec.get("topologySpreadConstraints") or ()
        if not _lacks_key(constraint, "topologySpreadConstraint", hood, lost)
    ]
    if constraints:
        remote["topologySpreadConstraints"] = constraints
    return remote, lost


def _translate_affinity(
    affinity: KubeObject, kind: str, hood: Neighbourhood, lost: list[str]
) -> KubeObject:
    translated: KubeObject = {}
    required = [
        found
        for term in affinity.get(_REQUIRED) or ()
        if (found := _translate_term(term, kind, hood, lost)) is not None
    ]
    if required:
        translated[_REQUIRED] = required
    preferred = [
        {**weighted, "podAffinityTerm": found}
        for weighted in affinity.get(_PREFERRED) or ()
        if (found := _translate_term(weighted["podAffinityTerm"], kind, hood, lost)) is not None
    ]
    if preferred:
        translated[_PREFERRED] = preferred
    return translated


def _lacks_key(holder: KubeObject, kind: str, hood: Neighbourhood, lost: list[str]) -> bool:
    """Whether no physical node has the topology key; that is added to what is lost."""
    key = holder.get("topologyKey", "")
    if key in hood.topology_keys:
        return False
    lost.append(f"{kind} on {key} doesn't travel: no physical node has that label")
    return True


def _translate_term(
    term: KubeObject, kind: str, hood: Neighbourhood, lost: list[str]
) -> KubeObject | None:
    """Translate a term; None if it can't travel: the reason is added to what is lost."""
    if _lacks_key(term, kind, hood, lost):
        return None
    translated = _narrow(term, hood)
    names = list(term.get("namespaces") or ())
    requirements = list(_read_requirements(term.get("namespaceSelector") or {}))
    if requirements:  # without any it selects every namespace
        selected = _find_names(requirements)
        if not selected:
            lost.append(
                f"{kind} on {term['topologyKey']} doesn't travel: its namespaceSelector speaks of"
                f" labels of home's namespaces other than {NAMESPACE_NAME}"
            )
            return None
        del translated["namespaceSelector"]
        names += selected
    if names:
        there = list(dict.fromkeys(hood.name_namespace(name) for name in _reflected(names, hood)))
        if not there:
            lost.append(
                f"{kind} on {term['topologyKey']} doesn't travel: no pods of the namespaces"
                f" {', '.join(names)} are over there"
            )
            return None
        translated["namespaces"] = there
    return translated


_Requirement: TypeAlias = tuple[str, Collection[str] | None]
"""The key of a label, and the values that it may have; None if they aren't listed."""


def _find_names(requirements: Sequence[_Requirement]) -> list[str]:
    """Find the namespaces that are selected by name; none if it's by other labels, too."""
    if any(key != NAMESPACE_NAME or values is None for key, values in requirements):
        return []
    first, *others = (values or () for _, values in requirements)
    return [name for name in first if all(name in values for values in others)]


def _read_requirements(selector: KubeObject) -> Iterator[_Requirement]:
    for key, value in (selector.get("matchLabels") or {}).items():
        yield key, (value,)
    for expression in selector.get("matchExpressions") or ():
        listed = expression.get("operator") == "In"
        yield expression.get("key", ""), expression.get("values") or () if listed else None


def _reflected(names: Collection[str], hood: Neighbourhood) -> Iterator[str]:
    """Yield those that don't share the remote namespace of the pod's own: the only one then."""
    own = hood.name_namespace(hood.namespace)
    for name in names:
        if name == hood.namespace or hood.name_namespace(name) != own:
            yield name


def _narrow(holder: KubeObject, hood: Neighbourhood) -> KubeObject:
    """
    Let a labelSelector say all that there is to say: also that pods are of the same home cluster.

    Without a labelSelector no pod is meant.
    """
    narrowed = {key: value for key, value in holder.items() if key not in _LABEL_KEYS}
    selector: dict[str, Any] | None = holder.get("labelSelector")
    if selector is None:
        return narrowed
    expressions: list[KubeObject] = list(selector.get("matchExpressions") or ())
    for field, operator in _LABEL_KEYS.items():
        for key in holder.get(field) or ():
            if key in hood.labels and not _says(expressions, key, operator):
                value = hood.labels[key]
                expressions.append({"key": key, "operator": operator, "values": [value]})
    ours = {"key": HOME_CLUSTER, "operator": "In", "values": [hood.home_cluster_uid]}
    return {**narrowed, "labelSelector": {**selector, "matchExpressions": [*expressions, ours]}}


def _says(expressions: Collection[KubeObject], key: str, operator: str) -> bool:
    """Whether that key's part has been written: with the value that it had at creation."""
    return any(item.get("key") == key and item.get("operator") == operator for item in expressions)
