"""Looking at the home API, and making an overview of what is there."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from provider.bound_pods import list_pods_on
from provider.labels import LARGEST_FREE, MEMBERS, PEERING, VITALS
from provider.lock import find_lock_key
from provider.overview.pod_reasons import count_phases, find_phase, group_reasons
from provider.overview.report import LockReport, NodeStatus, Overview, PeeringStatus
from provider.vitals import Vitals, parse_vitals
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import ForbiddenError, NotFoundError
from vkubelet.kube.objects import LEASES, NODES, KubeObject, NamespacedName
from vkubelet.times import parse_time

LOCK_PREFIX = "vkubelet-"
NODE_LEASES = "kube-node-lease"
_ENDED = ("Succeeded", "Failed")
_DEFAULT_LEASE_SECONDS = 15
_LATE_SECONDS = 5
"""A lock whose clock runs a little behind ours isn't stale."""


async def take_overview(
    home: KubeClient, remote_cluster: str | None, system_namespace: str | None, now: datetime
) -> Overview:
    """
    Look at a peering, or all of them.

    Args:
        home: The home cluster.
        remote_cluster: Which peering; None: all.
        system_namespace: Where locks are looked for if they may not be listed everywhere.
        now: The time.

    Raises:
        KubeError: If nodes or pods can't be listed.
    """
    selector = PEERING if remote_cluster is None else f"{PEERING}={remote_cluster}"
    nodes = await home.list(NODES, label_selector=selector)
    names = {node["metadata"]["labels"][PEERING] for node in nodes}
    if remote_cluster is not None:
        names.add(remote_cluster)
    leases, warnings = await _find_leases(home, names, system_namespace)
    if remote_cluster is not None:
        leases = [lease for lease in leases if _peering_of(lease) == remote_cluster]
    pods = await list_pods_on(home, [node["metadata"]["name"] for node in nodes])
    return build_overview(nodes, pods, leases, now, peerings=names, warnings=warnings)


async def _find_leases(
    home: KubeClient, peerings: Iterable[str], system_namespace: str | None
) -> tuple[list[KubeObject], list[str]]:
    """List the locks of all peerings, or read them one by one where that isn't allowed."""
    try:
        everywhere = await home.list(LEASES, field_selector=f"metadata.namespace!={NODE_LEASES}")
    except ForbiddenError:
        pass
    else:
        return [lease for lease in everywhere if _is_lock(lease)], []
    found: list[KubeObject] = []
    warnings = []
    for peering in sorted(peerings):
        key = find_lock_key(system_namespace, peering)
        try:
            found.append(await home.get(LEASES, key))
        except NotFoundError:
            warnings.append(f"{peering}: no lock {key}; --system-namespace names its namespace")
        except ForbiddenError:
            warnings.append(f"{peering}: the lock {key} may not be read: get leases is needed")
    return found, warnings


def _is_lock(lease: KubeObject) -> bool:
    metadata = lease["metadata"]
    return metadata["name"].startswith(LOCK_PREFIX) and VITALS in metadata.get("annotations", {})


def _peering_of(lease: KubeObject) -> str:
    return str(lease["metadata"]["name"]).removeprefix(LOCK_PREFIX)


def build_overview(
    nodes: Sequence[KubeObject],
    pods: Iterable[KubeObject],
    leases: Iterable[KubeObject],
    now: datetime,
    *,
    peerings: Iterable[str] = (),
    warnings: Sequence[str] = (),
) -> Overview:
    """
    Make the overview of virtual nodes, the pods on them, and the locks.

    A peering that has a lock and no nodes is there, too, and so are those that are named.
    """
    nodes_of: defaultdict[str, list[KubeObject]] = defaultdict(list)
    leases_of: defaultdict[str, list[KubeObject]] = defaultdict(list)
    for node in nodes:
        nodes_of[node["metadata"]["labels"][PEERING]].append(node)
    for lease in leases:
        leases_of[_peering_of(lease)].append(lease)
    pods_on: defaultdict[str, list[KubeObject]] = defaultdict(list)
    for pod in pods:
        pods_on[pod["spec"]["nodeName"]].append(pod)
    found = tuple(
        _build_peering(name, nodes_of[name], leases_of[name], pods_on, now)
        for name in sorted(nodes_of.keys() | leases_of.keys() | set(peerings))
    )
    said = list(warnings)
    for peering in found:
        said += _find_warnings(peering)
    return Overview(taken_at=now, peerings=found, warnings=tuple(said))


def _find_warnings(peering: PeeringStatus) -> Iterable[str]:
    held = [lock for lock in peering.locks if lock.is_held]
    if not held:
        yield f"{peering.name}: no process serves it: nothing follows what happens"
    if len(held) > 1:
        keys = ", ".join(str(lock.key) for lock in held)
        yield f"{peering.name}: several processes serve it, with the locks {keys}: stop all but one"


def _build_peering(
    name: str,
    nodes: Sequence[KubeObject],
    leases: Iterable[KubeObject],
    pods_on: Mapping[str, list[KubeObject]],
    now: datetime,
) -> PeeringStatus:
    by_renewal = sorted(leases, key=_renewed_at, reverse=True)
    locks = tuple(_build_lock(lease, now) for lease in by_renewal)
    vitals = None
    if locks and locks[0].is_held:
        vitals = _vitals_of(by_renewal[0])
    expiries = {} if vitals is None else vitals.certificates
    pods = [pod for node in nodes for pod in pods_on.get(node["metadata"]["name"], ())]
    return PeeringStatus(
        name=name,
        locks=locks,
        vitals=vitals,
        nodes=tuple(
            _build_node(node, pods_on.get(node["metadata"]["name"], ()), expiries)
            for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
        ),
        phases=count_phases(pods),
        reasons=group_reasons(pods),
    )


def _renewed_at(lease: KubeObject) -> str:
    return str((lease.get("spec") or {}).get("renewTime") or "")


def _vitals_of(lease: KubeObject) -> Vitals | None:
    return parse_vitals((lease["metadata"].get("annotations") or {}).get(VITALS, ""))


def _build_lock(lease: KubeObject, now: datetime) -> LockReport:
    spec = lease.get("spec") or {}
    metadata = lease["metadata"]
    renewed_at = parse_time(spec.get("renewTime"))
    seconds = spec.get("leaseDurationSeconds") or _DEFAULT_LEASE_SECONDS
    lasts = timedelta(seconds=seconds + _LATE_SECONDS)
    return LockReport(
        key=NamespacedName(metadata["namespace"], metadata["name"]),
        holder=spec.get("holderIdentity") or "",
        renewed_at=renewed_at,
        is_fresh=renewed_at is not None and now - renewed_at < lasts,
    )


def _build_node(
    node: KubeObject, pods: Iterable[KubeObject], expiries: Mapping[str, str]
) -> NodeStatus:
    metadata, status = node["metadata"], node.get("status") or {}
    conditions = status.get("conditions") or ()
    none: KubeObject = {}
    ready = next((item for item in conditions if item.get("type") == "Ready"), none)
    annotations = metadata.get("annotations") or {}
    members = _read_json(annotations.get(MEMBERS)) or {}
    phases = Counter(find_phase(pod) for pod in pods)
    return NodeStatus(
        name=metadata["name"],
        ready=ready.get("status") or "Unknown",
        reason=ready.get("reason") or "",
        message=ready.get("message") or "",
        cordoned=bool((node.get("spec") or {}).get("unschedulable")),
        members=members.get("members"),
        eligible=members.get("eligible"),
        capacity=status.get("capacity") or {},
        allocatable=status.get("allocatable") or {},
        largest_free=_read_json(annotations.get(LARGEST_FREE)),
        pods=phases.total() - sum(phases[phase] for phase in _ENDED),
        certificate_expires=expiries.get(metadata["name"]),
    )


def _read_json(text: str | None) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode((text or "").encode(), type=dict[str, Any])
    except msgspec.MsgspecError:
        return None
