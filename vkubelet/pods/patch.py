"""The patch that makes a home pod's status as wanted. Pure functions on raw JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vkubelet.kube.objects import KubeObject

# Lists that a strategic merge patch would merge; we mean them whole.
_KEYED_LISTS = frozenset({"hostIPs", "podIPs"})


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition without its times."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class WantedStatus:
    """
    What of a status is to be so; the rest stays as it is.

    Attributes:
        fields: Values by field; None takes a field away.
        conditions: Conditions that are ours.
        absent: Types of conditions that are to be taken away.
        generation: metadata.generation that it was made by; None leaves what is there.
    """

    fields: Mapping[str, Any]
    conditions: tuple[Condition, ...] = field(default=())
    absent: tuple[str, ...] = field(default=())
    generation: int | None = None


def conditions_by_type(status: Mapping[str, Any]) -> dict[str, KubeObject]:
    """Conditions of a status by their type."""
    return {condition["type"]: condition for condition in status.get("conditions") or ()}


def copy_condition(condition: KubeObject, name: str) -> Condition:
    """A condition without its times, under another type if need be."""
    return Condition(
        name,
        condition.get("status", "Unknown"),
        condition.get("reason") or "",
        condition.get("message") or "",
    )


def build_patch(home: KubeObject, wanted: WantedStatus, *, now: str) -> KubeObject | None:
    """
    Build the strategic merge patch of the status subresource; None if nothing would change.

    The UID in it keeps another pod of that name from being hit. It needs no resourceVersion:
    conditions merge by type, all else is ours alone.
    """
    live = home.get("status") or {}
    status: KubeObject = {}
    for name, value in wanted.fields.items():
        if not _same(live.get(name) or None, value or None):
            status[name] = _whole(name, value or None, live)
    if wanted.generation is not None and live.get("observedGeneration") != wanted.generation:
        status["observedGeneration"] = wanted.generation
    conditions = _changed_conditions(live, wanted, now)
    known = conditions_by_type(live)
    conditions += [{"type": name, "$patch": "delete"} for name in wanted.absent if name in known]
    if conditions:
        status["conditions"] = conditions
    if not status:
        return None
    return {"metadata": {"uid": home["metadata"]["uid"]}, "status": status}


def _same(live: Any, wanted: Any) -> bool:
    """Whether values are the same to the API, which fills in empty ones ("lastState": {})."""
    return bool(live == wanted) or _without_empty(live) == _without_empty(wanted)


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in ({}, [], "", None)}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _whole(name: str, value: Any, live: Mapping[str, Any]) -> Any:
    """The value as it must stand in a patch to replace what is there."""
    if isinstance(value, dict) and live.get(name):
        return {**value, "$patch": "replace"}
    if isinstance(value, list) and name in _KEYED_LISTS and live.get(name):
        return [*value, {"$patch": "replace"}]
    return value


def _changed_conditions(
    live: Mapping[str, Any], wanted: WantedStatus, now: str
) -> list[KubeObject]:
    known = conditions_by_type(live)
    changed = []
    for condition in wanted.conditions:
        before = known.get(condition.type)
        observed = None if before is None else before.get("observedGeneration")
        generation = observed if wanted.generation is None else wanted.generation
        if (
            before is not None
            and observed == generation
            and copy_condition(before, condition.type) == condition
        ):
            continue
        patch: KubeObject = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason or None,
            "message": condition.message or None,
            "observedGeneration": generation,
        }
        if before is None:
            patch = {key: value for key, value in patch.items() if value is not None}
        if before is None or before.get("status") != condition.status:
            patch["lastTransitionTime"] = now
        changed.append(patch)
    return changed
