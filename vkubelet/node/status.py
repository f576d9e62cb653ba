"""Status of the Node object, and the patch that writes it. Pure functions."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from vkubelet.config import KubeletPolicy
from vkubelet.interface import NodeCondition, VirtualNode
from vkubelet.kube.objects import KubeObject
from vkubelet.node.wanted import WantedNode
from vkubelet.times import format_time, parse_time

NOT_SYNCED = NodeCondition(
    type="Ready",
    status="False",
    reason="ProviderNotSynced",
    message="what is behind this node hasn't been reached yet",
)


def build_status(wanted: WantedNode, policy: KubeletPolicy, now: datetime) -> KubeObject:
    """Build the first status of a Node; NotReady until what is behind has been reached."""
    conditions = wanted.conditions
    if not any(condition.type == "Ready" for condition in conditions):
        conditions = (*conditions, NOT_SYNCED)
    status = {
        **_status_fields(wanted, policy),
        "conditions": merge_conditions((), conditions, now),
    }
    if wanted.features:
        status["declaredFeatures"] = wanted.features
    return status


def precondition(live: KubeObject) -> KubeObject:
    """Metadata of a patch that holds only for this very state of a Node."""
    metadata = live["metadata"]
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}


def _status_fields(wanted: WantedNode, policy: KubeletPolicy) -> KubeObject:
    """Fields of status, conditions apart, that are ours as a whole."""
    fields: KubeObject = {
        "addresses": [{"type": "InternalIP", "address": policy.address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": wanted.port}},
    }
    if wanted.virtual is not None:
        fields["capacity"] = dict(wanted.virtual.capacity)
        fields["allocatable"] = dict(wanted.virtual.allocatable)
        fields["nodeInfo"] = _node_info(wanted.virtual, policy)
    return fields


def _node_info(virtual: VirtualNode, policy: KubeletPolicy) -> dict[str, str]:
    info = {key: value for key, value in virtual.node_info.items() if value}
    if policy.kubelet_version:
        info.setdefault("kubeletVersion", policy.kubelet_version)
    return info


def merge_conditions(
    live: Iterable[Mapping[str, Any]], wanted: Iterable[NodeCondition], now: datetime
) -> list[KubeObject]:
    """Merge conditions by type: others' stay, a transition time changes only with the status."""
    merged = {condition["type"]: dict(condition) for condition in live}
    time = format_time(now)
    for condition in wanted:
        before = merged.get(condition.type, {})
        changed = before.get("status") != condition.status
        merged[condition.type] = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastHeartbeatTime": time,
            "lastTransitionTime": time if changed else before.get("lastTransitionTime") or time,
        }
    return list(merged.values())


def build_status_patch(
    live: KubeObject, wanted: WantedNode, policy: KubeletPolicy, now: datetime, *, full: bool
) -> KubeObject | None:
    """
    Build the merge patch of the status; None if there is nothing to write.

    Args:
        live: The Node as it is.
        wanted: What it is to be.
        policy: For address and version.
        now: The time of this write.
        full: Write the heartbeats though nothing else changed.
    """
    status = live.get("status") or {}
    patch: KubeObject = {}
    for field, value in _status_fields(wanted, policy).items():
        change = _difference(status.get(field), value)
        if change is not None:
            patch[field] = change
    if wanted.virtual is not None and (status.get("declaredFeatures") or []) != wanted.features:
        patch["declaredFeatures"] = wanted.features or None
    if _conditions_differ(status.get("conditions") or (), wanted.conditions) or (
        wanted.conditions and (full or patch)
    ):
        patch["conditions"] = merge_conditions(
            status.get("conditions") or (), wanted.conditions, now
        )
    if not patch:
        return None
    return {"metadata": precondition(live), "status": patch}


def _difference(live: Any, wanted: Any) -> Any:
    """The merge patch from one value to the other; empty strings and absent ones are the same."""
    if not isinstance(wanted, dict):
        return None if live == wanted else wanted
    live = live or {}
    change = {key: value for key, value in wanted.items() if live.get(key) != value}
    change |= {key: None for key, value in live.items() if value and key not in wanted}
    return change or None


def _conditions_differ(live: Iterable[Mapping[str, Any]], wanted: Iterable[NodeCondition]) -> bool:
    known = {
        condition["type"]: (
            condition.get("status"),
            condition.get("reason") or "",
            condition.get("message") or "",
        )
        for condition in live
    }
    return any(known.get(c.type) != (c.status, c.reason, c.message) for c in wanted)


def ready_while_leaving(live: KubeObject, policy: KubeletPolicy) -> NodeCondition:
    """
    Ready of a node that is being removed: as the provider left it, so that nothing flips.

    What the rule for an unreachable far side made of it, or the control plane, is put right.
    """
    for condition in (live.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "False":
            reason = condition.get("reason") or ""
            if reason not in {policy.unreachable.reason, NOT_SYNCED.reason}:
                return NodeCondition(
                    type="Ready",
                    status="False",
                    reason=reason,
                    message=condition.get("message") or "",
                )
    return NodeCondition(
        type="Ready",
        status="True",
        reason="NodeBeingRemoved",
        message="not wanted any more: its pods are evicted, then it's deleted",
    )


def heartbeat_of(live: KubeObject) -> datetime | None:
    """When the status was written last, by its own account."""
    times = (
        parse_time(condition.get("lastHeartbeatTime"))
        for condition in (live.get("status") or {}).get("conditions") or ()
        if condition["type"] == "Ready"
    )
    return next(times, None)


def port_of(live: KubeObject) -> int:
    """Port of the kubelet API that a Node publishes, 0 if none."""
    endpoints = (live.get("status") or {}).get("daemonEndpoints") or {}
    port: int = (endpoints.get("kubeletEndpoint") or {}).get("Port") or 0
    return port
