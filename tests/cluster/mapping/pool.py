"""What the mapping tests share: physical nodes of their own, peerings in any mode, looks."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.peering import Vkubelet, build_environment, run_vkubelet
from tests.cluster.product.cloud import build_pod, condition_of, find_remote_pods, get, get_pod
from tests.cluster.waiting import wait_until
from vkubelet.kube.quantity import parse_quantity

SUITE = {"suite": "mapping"}
TAINT = {"key": "mapping-test", "value": "yes", "effect": "NoSchedule"}
"""Keeps all other pods off these nodes, so that figures are exact."""

CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "20", "example.com/gpu": "2"}
POOL: Sequence[Mapping[str, Any]] = (
    {
        "name": "m-a1",
        "labels": {**SUITE, "zone": "a", "disk": "ssd"},
        "taints": [TAINT],
        "capacity": CAPACITY,
    },
    {
        "name": "m-a2",
        "labels": {**SUITE, "zone": "a", "disk": "hdd"},
        "taints": [TAINT],
        "capacity": CAPACITY,
    },
    {
        "name": "m-b1",
        "labels": {**SUITE, "zone": "b", "disk": "ssd"},
        "taints": [TAINT],
        "capacity": CAPACITY,
    },
    {
        "name": "m-dedicated",
        "labels": {**SUITE, "zone": "a", "disk": "ssd"},
        "taints": [TAINT, {"key": "dedicated", "value": "db", "effect": "NoSchedule"}],
        "capacity": CAPACITY,
    },
)
MEMBERS = ("m-a1", "m-a2", "m-b1")


@contextlib.asynccontextmanager
async def run_peering(
    home: Cluster, remote: Cluster, name: str, *arguments: str
) -> AsyncIterator[Vkubelet]:
    """Run the product over the pool, and tear the peering down at the end."""
    common = ["--namespace=*", "--node-selector=suite=mapping", "--tolerate=mapping-test"]
    try:
        async with run_vkubelet(
            home, remote, remote_cluster=name, arguments=[*common, *arguments]
        ) as process:
            yield process
    finally:
        await tear_down(home, remote, name)


async def run_command(*arguments: str, stdin: str = "") -> tuple[int, str]:
    """Run the product with any command line; its exit code and what it says."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "provider",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=build_environment(),
    )
    try:
        async with asyncio.timeout(90):
            output, _ = await started.communicate(stdin.encode())
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()
    assert started.returncode is not None
    return started.returncode, output.decode()


async def tear_down(
    home: Cluster,
    remote: Cluster,
    name: str,
    *arguments: str,
    kubeconfigs: tuple[Path, Path] | None = None,
) -> tuple[int, str]:
    """Run `vkubelet teardown`."""
    at_home, there = kubeconfigs or (home.admin_kubeconfig, remote.admin_kubeconfig)
    return await run_command(
        "teardown",
        f"--kubeconfig={at_home}",
        f"--remote-kubeconfig={there}",
        f"--remote-cluster={name}",
        *(arguments or ("--yes",)),
    )


def build_pool_pod(name: str, namespace: str, node: str = "", **spec: Any) -> dict[str, Any]:
    """Build a pod that wants a virtual node, by its name if one is given."""
    wanted = {"kubernetes.io/hostname": node} if node else {"type": "virtual-kubelet"}
    selector = {**wanted, **spec.pop("nodeSelector", {})}
    cpu = spec.pop("cpu", None)
    pod = build_pod(name, namespace, nodeSelector=selector, **spec)
    if cpu is not None:
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return pod


async def wait_placed(home: Cluster, remote: Cluster, name: str, namespace: str) -> str:
    """Wait until a home pod's remote pod has a node, and return the node's name."""
    found = ""

    async def placed() -> bool:
        nonlocal found
        pod = await get_pod(home, name, namespace)
        if not pod.get("spec", {}).get("nodeName"):
            return False
        remote_pods = await find_remote_pods(remote, pod)
        found = remote_pods[0]["spec"].get("nodeName", "") if len(remote_pods) == 1 else ""
        return bool(found)

    await wait_until(placed, f"pod {name} has a node over there")
    return found


async def list_virtual_nodes(home: Cluster, peering: str) -> dict[str, dict[str, Any]]:
    """Return the virtual nodes of a peering, by name."""
    selector = f"--selector=vkubelet.io/peering={peering}"
    listed = await home.kubectl("get", "nodes", selector, "-o", "json")
    return {node["metadata"]["name"]: node for node in listed.json()["items"]}


async def read_allocatable(home: Cluster, node: str, resource: str = "cpu") -> Decimal:
    """Return what a virtual node offers."""
    status = (await get(home, "node", node)).get("status", {})
    return parse_quantity(status.get("allocatable", {}).get(resource, "0"))


async def wait_allocatable(
    home: Cluster, node: str, amount: str, resource: str = "cpu", *, seconds: float = 20
) -> None:
    """Wait until a virtual node offers exactly this."""
    seen = Decimal(0)

    async def offers() -> bool:
        nonlocal seen
        seen = await read_allocatable(home, node, resource)
        return seen == parse_quantity(amount)

    try:
        await wait_until(offers, f"{node} offers {amount} of {resource}", timeout_seconds=seconds)
    except Exception as error:
        error.add_note(f"it offers {seen}")
        raise


async def wait_unscheduled(cluster: Cluster, name: str, namespace: str) -> str:
    """Wait until the scheduler says that a pod fits nowhere, and return its words."""
    message = ""

    async def said() -> bool:
        nonlocal message
        condition = condition_of(await get_pod(cluster, name, namespace), "PodScheduled")
        message = condition.get("message", "")
        return condition.get("reason") == "Unschedulable"

    await wait_until(said, f"pod {name} is unschedulable")
    return message


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether a Node is Ready."""
    return condition_of(node, "Ready").get("status") == "True"
