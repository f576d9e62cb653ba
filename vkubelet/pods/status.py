"""What is written into a home pod's status. Pure functions on raw JSON."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from vkubelet.kube.objects import KubeObject
from vkubelet.pods.patch import Condition, WantedStatus, conditions_by_type, copy_condition

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
OWN_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
PASSING_CONDITIONS = ("PodResizePending", "PodResizeInProgress")
"""There only while a resize is under way: a kubelet takes them away when it's done."""

CONTAINERS_OF = MappingProxyType(
    {
        "initContainerStatuses": "initContainers",
        "containerStatuses": "containers",
        "ephemeralContainerStatuses": "ephemeralContainers",
    }
)
"""Fields of status, and where in the spec the containers are that they tell of."""

CONTAINER_STATUSES = tuple(CONTAINERS_OF)

LOST_REASON = "RemotePodLost"
TERMINATING_REASON = "RemoteTerminating"

# Set at home by others or by rules of their own: observedGeneration is home's, not the one over
# there; qosClass is computed by the API server, and a difference would be written for ever.
_NOT_COPIED = frozenset(
    {
        "conditions",
        "extendedResourceClaimStatus",
        "hostIP",
        "hostIPs",
        "nominatedNodeName",
        "observedGeneration",
        "phase",
        "qosClass",
        "resourceClaimStatuses",
        "startTime",
    }
)

# Fields that a kubelet owns: absent behind means absent at home.
_OWN_FIELDS = (
    "allocatedResources",
    "message",
    "podIP",
    "podIPs",
    "reason",
    "resize",
    "resources",
    *CONTAINER_STATUSES,
)


def phase_of(pod: KubeObject) -> str:
    """Phase of a pod, "" if it has none."""
    phase: str = (pod.get("status") or {}).get("phase", "")
    return phase


def is_terminal(pod: KubeObject) -> bool:
    """Whether the pod has ended for good."""
    return phase_of(pod) in TERMINAL_PHASES


def has_started(pod: KubeObject) -> bool:
    """Whether any container of the pod, init containers too, had started."""
    status = pod.get("status") or {}
    return any(
        _container_started(container)
        for name in CONTAINER_STATUSES
        for container in status.get(name) or ()
    )


def _container_started(container: KubeObject) -> bool:
    state = container.get("state") or {}
    return bool(
        "running" in state
        or "terminated" in state
        or container.get("lastState")
        or container.get("restartCount")
    )


def reflect(
    home: KubeObject,
    behind: KubeObject,
    *,
    address: str,
    terminating: bool = False,
    restarts: Mapping[str, int] | None = None,
) -> WantedStatus | None:
    """
    Status of a home pod as it runs behind; None if the home pod has ended otherwise.

    What is behind may have more containers and mounts than the home pod: these aren't shown.

    Args:
        home: The home pod.
        behind: `status` of what is behind, translated.
        address: The virtual node's address.
        terminating: What is behind is being deleted, and nobody at home asked for it.
        restarts: Restarts of earlier pods behind this one, by container.
    """
    phase = behind.get("phase") or "Pending"
    known = phase_of(home)
    if known in TERMINAL_PHASES and phase != known:
        return None
    fields: dict[str, Any] = dict.fromkeys(_OWN_FIELDS)
    fields |= {key: value for key, value in behind.items() if key not in _NOT_COPIED}
    ends = phase in TERMINAL_PHASES
    if ends and terminating and always_restarts(home):
        ends = False  # killed by its deletion: it's lost, and will be made again
    elif phase != "Unknown":
        fields["phase"] = phase
    if not (home.get("status") or {}).get("startTime") and behind.get("startTime"):
        fields["startTime"] = behind["startTime"]
    fields |= _host_fields(address)
    for name in CONTAINER_STATUSES:
        statuses = _filter_statuses(home, name, fields[name] or ())
        fields[name] = _add_restarts(home, name, statuses, restarts or {}) or None
    conditions = _reflect_conditions(home, behind, terminating=terminating and not ends)
    found = conditions_by_type(behind)
    passing = {
        name: copy_condition(found[name], name) for name in PASSING_CONDITIONS if name in found
    }
    absent = tuple(name for name in PASSING_CONDITIONS if name not in found)
    disruption: tuple[Condition, ...] = ()
    if ends and phase == "Failed" and known not in TERMINAL_PHASES:
        disruption = _explain_disruption(found.get("DisruptionTarget"), terminating=terminating)
    return WantedStatus(fields, (*conditions, *passing.values(), *disruption), absent)


def _explain_disruption(behind: KubeObject | None, *, terminating: bool) -> tuple[Condition, ...]:
    """Say that the pod hasn't failed by itself, as policies of Jobs tell these apart."""
    if behind is not None and behind.get("status") == "True":
        return (copy_condition(behind, "DisruptionTarget"),)
    if not terminating:
        return ()
    message = "what was behind this pod was deleted, which nobody at home had asked for"
    return (Condition("DisruptionTarget", "True", LOST_REASON, message),)


def always_restarts(home: KubeObject) -> bool:
    """Whether the pod's containers run again however they end: if it's lost, it's made anew."""
    policy: str = home["spec"].get("restartPolicy", "Always")
    return policy == "Always"


def _host_fields(address: str) -> dict[str, Any]:
    return {"hostIP": address, "hostIPs": [{"ip": address}]}


def _filter_statuses(
    home: KubeObject, name: str, statuses: Iterable[KubeObject]
) -> list[KubeObject]:
    """Statuses of containers that the home pod has, with the mounts that it has."""
    containers = {
        container["name"]: container for container in home["spec"].get(CONTAINERS_OF[name]) or ()
    }
    return [
        _filter_mounts(status, containers[status["name"]])
        for status in statuses
        if status["name"] in containers
    ]


def _filter_mounts(status: KubeObject, container: KubeObject) -> KubeObject:
    if not status.get("volumeMounts"):
        return status
    known = {(mount["name"], mount["mountPath"]) for mount in container.get("volumeMounts") or ()}
    mounts = [
        mount for mount in status["volumeMounts"] if (mount["name"], mount["mountPath"]) in known
    ]
    return status if mounts == status["volumeMounts"] else {**status, "volumeMounts": mounts}


def _add_restarts(
    home: KubeObject, name: str, statuses: Iterable[KubeObject], restarts: Mapping[str, int]
) -> list[KubeObject]:
    known = {
        container["name"]: container.get("restartCount", 0)
        for container in (home.get("status") or {}).get(name) or ()
    }
    added = []
    for container in statuses:
        count = container.get("restartCount", 0)
        total = max(count + restarts.get(container["name"], 0), known.get(container["name"], 0))
        added.append(container if total == count else {**container, "restartCount": total})
    return added


def _reflect_conditions(
    home: KubeObject, behind: KubeObject, *, terminating: bool
) -> tuple[Condition, ...]:
    found = conditions_by_type(behind)
    known = conditions_by_type(home.get("status") or {})
    wanted = []
    for name in OWN_CONDITIONS[:-1]:
        if name in found:
            wanted.append(copy_condition(found[name], name))
        elif name in known:
            wanted.append(Condition(name, "False", "NotReported"))
    basis = found.get("ContainersReady") or found.get("Ready")
    if terminating:
        wanted.append(
            Condition(
                "Ready", "False", TERMINATING_REASON, "what is behind this pod is being deleted"
            )
        )
    elif basis is not None:
        wanted.append(_ready_condition(home, basis))
    elif "Ready" in known:
        wanted.append(Condition("Ready", "False", "NotReported"))
    return tuple(wanted)


def _ready_condition(home: KubeObject, containers_ready: KubeObject) -> Condition:
    """Ready as a kubelet has it: the containers and the home pod's own readiness gates."""
    if containers_ready.get("status") != "True":
        return copy_condition(containers_ready, "Ready")
    known = conditions_by_type(home.get("status") or {})
    problems = []
    for gate in home["spec"].get("readinessGates") or ():
        name = gate["conditionType"]
        if name not in known:
            problems.append(
                f'corresponding condition of pod readiness gate "{name}" does not exist.'
            )
        elif known[name].get("status") != "True":
            problems.append(
                f'the status of pod readiness gate "{name}" is not "True", '
                f"but {known[name].get('status')}"
            )
    if problems:
        return Condition("Ready", "False", "ReadinessGatesNotReady", ", ".join(problems))
    return Condition("Ready", "True")


def explain(home: KubeObject, reason: str, message: str) -> WantedStatus | None:
    """Status of a pod with nothing behind it: Pending, and why; None if the pod has ended."""
    if is_terminal(home):
        return None
    return WantedStatus({"phase": "Pending", "reason": reason, "message": message})


def placeholder(home: KubeObject, *, address: str, condition: str, now: str) -> WantedStatus:
    """Status of a DaemonSet pod that isn't run: running and ready, without containers."""
    fields: dict[str, Any] = dict.fromkeys(_OWN_FIELDS)
    fields |= {"phase": "Running", **_host_fields(address)}
    fields["startTime"] = (home.get("status") or {}).get("startTime") or now
    ready = tuple(Condition(name, "True") for name in OWN_CONDITIONS)
    mark = Condition(
        condition, "True", "DaemonSetPod", "not run: pods of DaemonSets are placeholders"
    )
    return WantedStatus(fields, (*ready, mark))


def end_lost(home: KubeObject, *, now: str) -> WantedStatus:
    """Status of a pod that had run, mustn't run again, and lost what was behind it: Failed."""
    message = "what was behind this pod is gone, and its restartPolicy doesn't let it run again"
    fields: dict[str, Any] = {"phase": "Failed", "reason": LOST_REASON, "message": message}
    fields |= _map_containers(home, lambda container: _terminate(container, now))
    return WantedStatus(
        fields,
        (
            Condition("ContainersReady", "False", "PodFailed"),
            Condition("Ready", "False", "PodFailed"),
            Condition("DisruptionTarget", "True", LOST_REASON, message),
        ),
    )


def end_deleted(home: KubeObject, *, now: str) -> WantedStatus | None:
    """Last status of a deleted pod that finalizers hold, nothing being behind it: ended."""
    if is_terminal(home):
        return None
    fields = {"phase": "Failed", **_map_containers(home, lambda c: _terminate(c, now))}
    return WantedStatus(
        fields,
        (
            Condition("ContainersReady", "False", "PodFailed"),
            Condition("Ready", "False", "PodFailed"),
        ),
    )


def restart_lost(home: KubeObject, *, now: str) -> WantedStatus:
    """Status of a pod that lost what was behind it and is made anew: Pending."""
    message = "what was behind this pod is gone; it is made anew"
    fields: dict[str, Any] = {"phase": "Pending", "reason": LOST_REASON, "message": message}
    fields |= {"podIP": None, "podIPs": None}
    fields |= _map_containers(home, lambda container: _restart(container, now))
    return WantedStatus(
        fields,
        (
            Condition("ContainersReady", "False", LOST_REASON),
            Condition("Ready", "False", LOST_REASON),
        ),
    )


def restart_counts(fields: Mapping[str, Any]) -> dict[str, int]:
    """Restarts by container name, of a status or a part of one."""
    return {
        container["name"]: container.get("restartCount", 0)
        for name in CONTAINER_STATUSES
        for container in fields.get(name) or ()
    }


def _map_containers(
    home: KubeObject, change: Callable[[KubeObject], KubeObject]
) -> dict[str, list[KubeObject]]:
    status = home.get("status") or {}
    return {
        name: [change(container) for container in status[name]]
        for name in CONTAINER_STATUSES
        if status.get(name)
    }


def _unknown_end(container: KubeObject, now: str) -> KubeObject:
    """How a container ended that nobody can ask any more; words and code as the kubelet's."""
    state = container.get("state") or {}
    if "terminated" in state:
        terminated: KubeObject = state["terminated"]
        return terminated
    ended: KubeObject = {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated",
        "finishedAt": now,
    }
    if "startedAt" in (state.get("running") or {}):
        ended["startedAt"] = state["running"]["startedAt"]
    if container.get("containerID"):
        ended["containerID"] = container["containerID"]
    return ended


def _terminate(container: KubeObject, now: str) -> KubeObject:
    if "terminated" in (container.get("state") or {}):
        return container
    state = {"terminated": _unknown_end(container, now)}
    return {**container, "state": state, "ready": False, "started": False}


def _restart(container: KubeObject, now: str) -> KubeObject:
    state = container.get("state") or {}
    if (state.get("waiting") or {}).get("reason") == LOST_REASON:
        return container
    changed = {
        **container,
        "state": {"waiting": {"reason": LOST_REASON}},
        "ready": False,
        "started": False,
        "restartCount": container.get("restartCount", 0) + int(_container_started(container)),
    }
    if "waiting" not in state and state:
        changed["lastState"] = {"terminated": _unknown_end(container, now)}
    return changed
