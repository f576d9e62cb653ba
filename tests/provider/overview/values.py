"""Nodes, locks and pods of a home cluster to look at."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from provider.labels import LARGEST_FREE, MEMBERS, PEERING, VITALS
from provider.vitals import Vitals
from vkubelet.kube.objects import KubeObject

NOW = datetime(2027, 1, 1, 12, 0, 0, tzinfo=UTC)


def build_virtual_node(name: str, peering: str = "cloud", **parts: Any) -> KubeObject:
    annotations = {
        MEMBERS: '{"eligible":2,"members":3}',
        LARGEST_FREE: '{"free":{"cpu":"2","memory":"6Gi"},"name":"ssd-1"}',
    }
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fine"}
    status = {
        "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        "allocatable": {"cpu": "3500m", "memory": "12Gi", "pods": "88"},
        "conditions": [{**ready, **parts.pop("ready", {})}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {PEERING: peering},
            "annotations": parts.pop("annotations", annotations),
        },
        "spec": parts.pop("spec", {}),
        "status": {**status, **parts},
    }


def build_lock(
    peering: str = "cloud",
    *,
    holder: str = "vkubelet-0_1",
    renewed: str = "2027-01-01T11:59:57Z",
    namespace: str = "kube-system",
    vitals: Vitals | None = None,
) -> KubeObject:
    text = msgspec.json.encode(vitals or Vitals(version="0.1.0")).decode()
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": f"vkubelet-{peering}",
            "namespace": namespace,
            "annotations": {VITALS: text},
        },
        "spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15},
    }


def build_pod(name: str, node: str = "cloud", **status: Any) -> KubeObject:
    metadata: KubeObject = {"name": name, "namespace": "demo"}
    if status.pop("deleted", False):
        metadata["deletionTimestamp"] = "2027-01-01T11:00:00Z"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": "Running", **status},
    }
