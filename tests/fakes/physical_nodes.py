"""Physical nodes to map, as the remote API would give them."""

from typing import Any

from provider.mapping.physical import PhysicalNode, build_physical_node


def raw_node(
    name: str,
    labels: dict[str, str] | None = None,
    *,
    taints: list[dict[str, str]] | None = None,
    ready: bool = True,
    unschedulable: bool = False,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    **status: Any,
) -> dict[str, Any]:
    """Make the JSON of a Node."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods}
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}
    if not ready:
        condition |= {"status": "False", "reason": "KubeletNotReady"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {"taints": taints or [], "unschedulable": unschedulable},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [condition],
            **status,
        },
    }


def make_node(name: str, labels: dict[str, str] | None = None, **options: Any) -> PhysicalNode:
    """Make a physical node."""
    return build_physical_node(raw_node(name, labels, **options))


def taint(text: str) -> dict[str, str]:
    """Make a taint of KEY[=VALUE]:EFFECT."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}
