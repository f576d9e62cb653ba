"""The Node object but its status: registration, and what makes a live one as wanted. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from vkubelet.config import KubeletPolicy
from vkubelet.interface import Taint
from vkubelet.kube.objects import KubeObject
from vkubelet.node.reachability import Reach
from vkubelet.node.status import build_status, precondition
from vkubelet.node.wanted import LIFECYCLE_PREFIX, WantedNode
from vkubelet.times import format_time, parse_time


def is_owned(node: KubeObject, owner_labels: Mapping[str, str]) -> bool:
    """Whether a live Node is ours."""
    labels = node["metadata"].get("labels") or {}
    return owner_labels.items() <= labels.items()


def build_node(wanted: WantedNode, policy: KubeletPolicy, now: datetime) -> KubeObject:
    """
    Build the Node for its registration: labels, taints and status are there from the first moment.

    It's NotReady until what is behind has been reached.
    """
    virtual = wanted.virtual
    assert virtual is not None
    annotations = {**wanted.annotations, **_taints_record(policy, wanted.taints)}
    spec: KubeObject = {"taints": [_taint_object(taint) for taint in wanted.taints]}
    if virtual.cordon:
        annotations[policy.cordon_annotation] = "true"
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": virtual.name,
            "labels": dict(wanted.labels),
            "annotations": annotations,
        },
        "spec": spec,
        "status": build_status(wanted, policy, now),
    }


def _taint_object(taint: Taint) -> KubeObject:
    body = {"key": taint.key, "effect": taint.effect}
    if taint.value:
        body["value"] = taint.value
    return body


def _taint_id(key: str, effect: str) -> str:
    return f"{key}:{effect}"


def _taints_record(policy: KubeletPolicy, taints: Iterable[Taint]) -> dict[str, str]:
    """The annotation that tells a later process which taints are ours."""
    ids = sorted({_taint_id(taint.key, taint.effect) for taint in taints})
    return {policy.taints_annotation: ",".join(ids)} if ids else {}


def _recorded_taints(node: KubeObject, policy: KubeletPolicy) -> set[str]:
    annotations = node["metadata"].get("annotations") or {}
    return set(filter(None, annotations.get(policy.taints_annotation, "").split(",")))


def _live_taints(node: KubeObject) -> Sequence[KubeObject]:
    taints: Sequence[KubeObject] = (node.get("spec") or {}).get("taints") or ()
    return taints


def wanted_annotations(
    live: KubeObject, wanted: WantedNode, policy: KubeletPolicy
) -> dict[str, str]:
    """
    All annotations that are ours.

    The record of taints still names those that are to go: it's written before the taints are.
    """
    there = {_taint_id(taint["key"], taint["effect"]) for taint in _live_taints(live)}
    record = {_taint_id(taint.key, taint.effect) for taint in wanted.taints}
    record |= _recorded_taints(live, policy) & there
    annotations = dict(wanted.annotations)
    if record:
        annotations[policy.taints_annotation] = ",".join(sorted(record))
    return annotations


def wanted_labels(
    live: KubeObject, wanted: WantedNode, policy: KubeletPolicy, managers: Collection[str]
) -> dict[str, str]:
    """All labels that are ours, but inherited ones that somebody else has set otherwise."""
    inherited = frozenset() if wanted.virtual is None else wanted.virtual.inherited
    ours, others = managed_keys(live, "labels", managers)
    values = live["metadata"].get("labels") or {}
    taken = {
        key
        for key in (inherited & others) - ours - policy.owner_labels.keys()
        if values.get(key) != wanted.labels[key]
    }
    return {key: value for key, value in wanted.labels.items() if key not in taken}


def build_metadata_apply(
    live: KubeObject, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> KubeObject | None:
    """
    Build the server-side apply of labels and annotations; None if they are as wanted.

    The UID keeps the apply from making a Node anew, without taints, or hitting another one.
    """
    metadata = live["metadata"]
    same = (
        labels.items() <= (metadata.get("labels") or {}).items()
        and annotations.items() <= (metadata.get("annotations") or {}).items()
    )
    if same:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": metadata["name"],
            "uid": metadata["uid"],
            "labels": dict(labels),
            "annotations": dict(annotations),
        },
    }


def managed_keys(
    live: KubeObject, field: str, managers: Collection[str]
) -> tuple[set[str], set[str]]:
    """Keys of `metadata.<field>` that these managers own, and those that others own."""
    ours: set[str] = set()
    others: set[str] = set()
    for entry in live["metadata"].get("managedFields") or ():
        owned = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get(f"f:{field}") or {}
        keys = {key[2:] for key in owned if key.startswith("f:")}
        if entry.get("manager") in managers:
            ours |= keys
        else:
            others |= keys
    return ours, others


def build_removal_patch(live: KubeObject, stale: Mapping[str, Iterable[str]]) -> KubeObject | None:
    """Build the merge patch that takes labels and annotations away; None if none is there."""
    metadata: KubeObject = {}
    for field, keys in stale.items():
        gone = [key for key in keys if key in (live["metadata"].get(field) or {})]
        if gone:
            metadata[field] = dict.fromkeys(gone)
    if not metadata:
        return None
    return {"metadata": {**precondition(live), **metadata}}


def build_taints_patch(
    live: KubeObject, wanted: WantedNode, policy: KubeletPolicy
) -> list[KubeObject] | None:
    """
    Build the JSON patch of taints; None if ours are as wanted.

    The list is atomic: others' taints are copied from the live one, under its resourceVersion.
    """
    ours = {_taint_id(taint.key, taint.effect): _taint_object(taint) for taint in wanted.taints}
    gone = _recorded_taints(live, policy) if wanted.virtual is not None else set()
    lost = _taint_id(policy.unreachable.taint_key, "NoSchedule")
    gone = gone - {lost} if wanted.reach is Reach.UNKNOWN else gone | {lost}
    gone -= ours.keys()
    taints = []
    for taint in _live_taints(live):
        identity = _taint_id(taint["key"], taint["effect"])
        lifecycle = taint["key"].startswith(LIFECYCLE_PREFIX)
        if identity in ours:
            mine = ours.pop(identity)
            same = taint.get("value", "") == mine.get("value", "")
            taints.append(taint if same else mine)
        elif lifecycle or identity not in gone:
            taints.append(taint)
    taints += ours.values()
    if taints == list(_live_taints(live)):
        return None
    version = live["metadata"]["resourceVersion"]
    return [
        {"op": "test", "path": "/metadata/uid", "value": live["metadata"]["uid"]},
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/spec/taints", "value": taints},
    ]


def build_cordon_patch(
    live: KubeObject, policy: KubeletPolicy, *, cordon: bool
) -> KubeObject | None:
    """Build the merge patch that cordons or undoes a cordon of ours; None if there is none."""
    unschedulable = bool((live.get("spec") or {}).get("unschedulable"))
    marked = policy.cordon_annotation in (live["metadata"].get("annotations") or {})
    if (cordon and unschedulable) or (not cordon and not marked):
        return None
    return {
        "metadata": {
            **precondition(live),
            "annotations": {policy.cordon_annotation: "true" if cordon else None},
        },
        "spec": {"unschedulable": True if cordon else None},
    }


def build_removal_mark(live: KubeObject, policy: KubeletPolicy, now: datetime) -> KubeObject | None:
    """
    Build the merge patch that cordons a Node and notes since when it's being removed.

    None if that is so already. A cordon that was there before doesn't become ours.
    """
    annotations = {}
    known = live["metadata"].get("annotations") or {}
    since = parse_time(known.get(policy.removal_annotation))
    if since is None or since > now:
        annotations[policy.removal_annotation] = format_time(now)
    cordon = build_cordon_patch(live, policy, cordon=True)
    if cordon is None and not annotations:
        return None
    patch = cordon or {"metadata": {**precondition(live), "annotations": {}}}
    patch["metadata"]["annotations"] |= annotations
    return patch
