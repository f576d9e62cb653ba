"""Values that the provider's tests share."""

from typing import Any

from provider.peering import Peering
from provider.pods.namespaces import build_anchor
from vkubelet.kube.objects import KubeObject

PEERING = Peering(home_uid="uid-of-home", home_cluster="home", remote_cluster="cloud")
ANCHOR_NAME: str = build_anchor("any", PEERING)["metadata"]["name"]
"""Of the ConfigMap that controls remote pods."""


def build_home_pod(name: str = "web", *, uid: str = "uid-web", **spec: Any) -> KubeObject:
    """Build a home pod in namespace demo."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "demo", "uid": uid, "labels": {"app": name}},
        "spec": {"nodeName": "cloud", "containers": [{"name": "main", "image": "any"}], **spec},
    }


def build_node(name: str, *, cpu: str = "4", ready: bool = True, **parts: Any) -> KubeObject:
    """Build a physical node."""
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": parts.pop("labels", {})},
        "spec": parts,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
