"""What the removal tests share: physical nodes of their own, peerings over them, looks."""

import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.peering import Vkubelet
from tests.cluster.product.cloud import build_pod, create, get, wait_pod
from tests.cluster.waiting import wait_until

SUITE = {"suite": "removal"}
TAINT = {"key": "removal-test", "value": "yes", "effect": "NoSchedule"}
"""Keeps all other pods off these nodes, and these nodes out of other peerings."""

CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "20"}
POOL: Sequence[Mapping[str, Any]] = tuple(
    {
        "name": f"r-{tier}",
        "labels": {**SUITE, "tier": tier},
        "taints": [TAINT],
        "capacity": CAPACITY,
    }
    for tier in ("x", "y")
)
MARKS = ("vkubelet.io/cordoned", "vkubelet.io/removing-since")

_numbers = itertools.count()


def build_process(home: Cluster, remote: Cluster, name: str, *arguments: str) -> Vkubelet:
    """Build a run of the product over the pool."""
    return Vkubelet(
        home,
        remote,
        remote_cluster=name,
        arguments=[
            "--namespace=*",
            "--node-selector=suite=removal",
            "--tolerate=removal-test",
            *arguments,
        ],
        process_name=f"vkubelet-{name}-{next(_numbers)}",
    )


@contextlib.asynccontextmanager
async def run_peering(
    home: Cluster, remote: Cluster, name: str, *arguments: str
) -> AsyncIterator[Vkubelet]:
    """Run the product over the pool; what it made stays, for the next run under that name."""
    process = build_process(home, remote, name, *arguments)
    try:
        process.start()
        await process.wait_ready()
        yield process
    finally:
        await process.stop()


def build_node_pod(name: str, namespace: str, node: str, **spec: Any) -> dict[str, Any]:
    """Build a pod for a virtual node."""
    return build_pod(name, namespace, nodeSelector={"kubernetes.io/hostname": node}, **spec)


async def run_on(home: Cluster, name: str, namespace: str, node: str) -> dict[str, Any]:
    """Create a pod for a virtual node and wait until it runs."""
    await create(home, build_node_pod(name, namespace, node))
    return await wait_pod(home, name, namespace, f"pod {name}", phase="Running")


async def protect(home: Cluster, name: str, namespace: str) -> None:
    """Make a disruption budget that lets nobody evict the pod of that name."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
    }
    await create(home, budget)

    async def counted() -> bool:
        found = await get(home, "poddisruptionbudget", name, f"-n={namespace}")
        return bool(found.get("status", {}).get("currentHealthy") == 1)

    await wait_until(counted, f"budget {name} counts its pod")


async def wait_node_gone(home: Cluster, name: str, *, seconds: float = 40) -> None:
    """Wait until a Node and its Lease aren't there."""

    async def gone() -> bool:
        return not await get(home, "node", name)

    async def lease_gone() -> bool:
        return not await get(home, "lease", name, "-n=kube-node-lease")

    await wait_until(gone, f"node {name} gone", timeout_seconds=seconds)
    await wait_until(lease_gone, f"Lease {name} gone")


async def wait_removing(home: Cluster, name: str) -> dict[str, Any]:
    """Wait until a Node is cordoned and marked, and return it."""
    node: dict[str, Any] = {}

    async def marked() -> bool:
        nonlocal node
        node = await get(home, "node", name)
        annotations = node.get("metadata", {}).get("annotations", {})
        return bool(node.get("spec", {}).get("unschedulable")) and all(
            mark in annotations for mark in MARKS
        )

    await wait_until(marked, f"node {name} is being removed")
    return node
