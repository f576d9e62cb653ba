"""
Remote status to home status.

Only what a kubelet reports crosses. It isn't filtered to what the home pod has: whoever writes it
at home does that.
"""

from collections.abc import Sequence
from typing import Any

from provider.labels import HOME_GENERATION
from provider.translation.addresses import CidrRemap, translate_pod_ips
from provider.translation.messages import CopiedNames, read_copied_names, restore_in_status
from vkubelet.kube.objects import KubeObject

KUBELET_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "ContainersReady",
    "Ready",
    "PodResizePending",
    "PodResizeInProgress",
)
"""Others belong to schedulers, evictors and custom gates, of either side."""

DISRUPTION = "DisruptionTarget"
"""Another's, but it tells why a pod ended; what of it is shown at home isn't decided here."""

_COPIED = ("phase", "message", "reason", "startTime", "allocatedResources", "resources")
_STATUS_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def translate_status(
    remote_pod: KubeObject,
    *,
    host_address: str,
    publish_pod_ips: bool = False,
    remaps: Sequence[CidrRemap] = (),
) -> KubeObject:
    """
    Make the home status of a remote pod, which isn't changed.

    Not there, as they aren't the kubelet's or mean something else at home: qosClass, generations,
    nominatedNodeName, claim statuses, conditions beyond the kubelet's.

    Args:
        remote_pod: With or without a status.
        host_address: Address of the virtual node, "" if it has none.
        publish_pod_ips: Whether pod addresses can be reached from home.
        remaps: How they are routed there.
    """
    remote: dict[str, Any] = remote_pod.get("status") or {}
    status: KubeObject = {"phase": "Pending"}
    status |= {key: remote[key] for key in _COPIED if remote.get(key)}
    status["conditions"] = _translate_conditions(remote)
    names = _read_names(remote_pod.get("metadata") or {})
    for key in _STATUS_LISTS:
        statuses: list[KubeObject] = remote.get(key) or []
        if statuses:
            status[key] = (
                [restore_in_status(item, names) for item in statuses] if names else statuses
            )
    if host_address:
        status |= {"hostIP": host_address, "hostIPs": [{"ip": host_address}]}
    if publish_pod_ips:
        status |= translate_pod_ips(remote, remaps)
    if status["phase"] == "Pending":
        status |= _explain_pending(remote)
    return status


def is_unschedulable(remote_pod: KubeObject) -> bool:
    """Whether the remote scheduler has looked for a node and found none."""
    return any(
        condition.get("type") == "PodScheduled"
        and condition.get("status") == "False"
        and condition.get("reason") == "Unschedulable"
        for condition in (remote_pod.get("status") or {}).get("conditions") or []
    )


def read_observed_generation(remote_pod: KubeObject) -> int | None:
    """
    The generation of the home pod that a remote pod's status goes by.

    None while the kubelet over there hasn't seen the remote pod as it is, or never says what it has
    seen (before v1.34).
    """
    metadata = remote_pod["metadata"]
    text: str = (metadata.get("annotations") or {}).get(HOME_GENERATION, "")
    observed = (remote_pod.get("status") or {}).get("observedGeneration")
    if not text.isdecimal() or observed is None or observed < metadata.get("generation", 0):
        return None
    return int(text)


def _read_names(metadata: KubeObject) -> CopiedNames | None:
    return read_copied_names(
        metadata.get("namespace", ""),
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
    )


def _translate_conditions(remote: KubeObject) -> list[KubeObject]:
    return [
        {key: value for key, value in condition.items() if key != "observedGeneration"}
        for condition in remote.get("conditions") or []
        if condition.get("type") in (*KUBELET_CONDITIONS, DISRUPTION)
    ]


def _explain_pending(remote: KubeObject) -> KubeObject:
    """
    Say why the remote scheduler hasn't placed the pod.

    PodScheduled is True at home and not the kubelet's to write, so this goes to reason and message,
    which `kubectl get` and `describe` show.
    """
    for condition in remote.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            reason = condition.get("reason") or "NotScheduled"
            return {"reason": f"Remote{reason}", "message": condition.get("message") or ""}
    return {}
