"""Why pods aren't as they should be, in a word each; pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from provider.overview.report import PodReason
from vkubelet.kube.objects import KubeObject, NamespacedName

TERMINATING = "Terminating"

_CONTAINERS = ("initContainerStatuses", "containerStatuses")


def find_phase(pod: KubeObject) -> str:
    """Return the pod's phase; one that is being deleted is Terminating."""
    if pod["metadata"].get("deletionTimestamp"):
        return TERMINATING
    return str((pod.get("status") or {}).get("phase") or "Unknown")


def explain_pod(pod: KubeObject) -> tuple[str, str]:
    """Return why a pod isn't running as it should: a reason and a message, "" if it is."""
    return next(_find_explanations(pod.get("status") or {}), ("", ""))


def _find_explanations(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what explains it, what says most first."""
    if status.get("reason"):
        yield status["reason"], status.get("message") or ""
    phase = status.get("phase")
    if phase in ("Pending", "Running"):
        yield from _find_waiting(status)
    if phase == "Failed":
        yield from _find_failures(status)
    conditions = {item.get("type"): item for item in status.get("conditions") or ()}
    for kind, phases in (("PodScheduled", ("Pending",)), ("Ready", ("Running",))):
        condition = conditions.get(kind) or {}
        if condition.get("status") == "False" and phase in phases:
            yield condition.get("reason") or f"Not{kind}", condition.get("message") or ""


def _find_states(status: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    """Yield the containers' states of a kind."""
    for field in _CONTAINERS:
        for container in status.get(field) or ():
            yield (container.get("state") or {}).get(kind) or {}


def _find_waiting(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for waiting in _find_states(status, "waiting"):
        if waiting.get("reason"):
            yield waiting["reason"], waiting.get("message") or ""


def _find_failures(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for ended in _find_states(status, "terminated"):
        if ended.get("exitCode"):
            code = f"exit code {ended['exitCode']}"
            yield ended.get("reason") or "Error", ended.get("message") or code


def count_phases(pods: Iterable[KubeObject]) -> dict[str, int]:
    """Count the pods of each phase, in the order of the phases' names."""
    counts = Counter(find_phase(pod) for pod in pods)
    return {phase: counts[phase] for phase in sorted(counts)}


def group_reasons(pods: Iterable[KubeObject]) -> tuple[PodReason, ...]:
    """Group the pods that have something to explain; the most frequent reason first."""
    groups: defaultdict[tuple[str, str], list[tuple[NamespacedName, str]]] = defaultdict(list)
    for pod in pods:
        reason, message = explain_pod(pod)
        if reason:
            metadata = pod["metadata"]
            key = NamespacedName(metadata["namespace"], metadata["name"])
            groups[find_phase(pod), reason].append((key, message))
    reasons = []
    for (phase, reason), members in groups.items():
        example, message = min(members)
        reasons.append(
            PodReason(
                phase=phase, reason=reason, count=len(members), example=example, message=message
            )
        )
    return tuple(sorted(reasons, key=lambda item: (-item.count, item.phase, item.reason)))
