"""
Whether the scheduler would let a pod onto a node, by its nodeSelector and required node affinity.

Written from component-helpers scheduling/corev1/nodeaffinity, apart from the code under test.
"""

import re
from collections.abc import Mapping
from typing import Any

LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
INT64 = range(-(2**63), 2**63)


def allows(spec: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    """Whether the pod's own constraints let it onto a node of that name and labels."""
    for key, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(term_allows(term, name, labels) for term in required["nodeSelectorTerms"])


def term_allows(term: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    """Whether one NodeSelectorTerm matches; an empty one never does."""
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(label_holds(item, labels) for item in expressions) and all(
        field_holds(item, name) for item in fields
    )


def field_holds(requirement: Mapping[str, Any], name: str) -> bool:
    """Whether a matchFields entry holds; one that can't be parsed doesn't."""
    values = requirement.get("values") or []
    if requirement["operator"] not in ("In", "NotIn") or len(values) != 1:
        return False
    value = name if requirement["key"] == "metadata.name" else ""
    return (value == values[0]) is (requirement["operator"] == "In")


def label_holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a matchExpressions entry holds; one that can't be parsed doesn't."""
    key, operator = requirement["key"], requirement["operator"]
    values = requirement.get("values") or []
    if any(not LABEL_VALUE.fullmatch(value) for value in values):
        return False
    if operator in ("In", "NotIn"):
        if not values:
            return False
        inside = key in labels and labels[key] in values
        return inside is (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return not values and (key in labels) is (operator == "Exists")
    if operator not in ("Gt", "Lt") or len(values) != 1 or key not in labels:
        return False
    return _compare(operator, labels[key], values[0])


def _compare(operator: str, left: str, right: str) -> bool:
    numbers = []
    for text in (left, right):
        if not re.fullmatch(r"[+-]?[0-9]+", text) or int(text) not in INT64:
            return False
        numbers.append(int(text))
    return numbers[0] > numbers[1] if operator == "Gt" else numbers[0] < numbers[1]
