"""Many virtual nodes in one process, one-to-one, against a real home API server."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench.figures import BenchError, Figure, read_usage
from tests.bench.remote_api import node_name
from tests.bench.remote_process import run_remote_api, write_kubeconfig
from tests.cluster.cluster import Cluster, start_clusters
from tests.cluster.errors import ClusterError
from tests.cluster.peering import RIGHTS, Vkubelet
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import LEASES, NODES

NODES_COUNT = 300
QUICK_COUNT = 50
IDLE_SECONDS = 30.0
QUICK_IDLE_SECONDS = 12.0
SETTLE_SECONDS = 12.0
"""The first renewals of all Leases are over by then, and home has labelled its new nodes."""
TIMEOUT_SECONDS = 90.0
LEASE_POLL_SECONDS = 1.0


async def run(*, quick: bool) -> list[Figure]:
    """Measure it."""
    count = QUICK_COUNT if quick else NODES_COUNT
    idle = QUICK_IDLE_SECONDS if quick else IDLE_SECONDS
    async with start_clusters("home") as (home,), run_remote_api(nodes=count) as url:
        await home.kubectl("apply", "-f", str(RIGHTS / "home.yaml"))
        kubeconfig = write_kubeconfig(home.folder, url)
        async with _run(home, kubeconfig) as vkubelet, home.client() as client:
            return await _measure(f"{count} virtual nodes", vkubelet, client, count, idle)


@contextlib.asynccontextmanager
async def _run(home: Cluster, kubeconfig: Path) -> AsyncIterator[Vkubelet]:
    vkubelet = Vkubelet(
        home,
        home,
        remote_cluster="cloud",
        arguments=[
            "--namespace=*",
            f"--remote-kubeconfig={kubeconfig}",
            "--node-mapping=per-node",
            "--kubelet-ports=20000-21999",
            "--log-level=warning",
        ],
    )
    try:
        yield vkubelet
    finally:
        await vkubelet.stop()


async def _measure(
    bench: str, vkubelet: Vkubelet, client: KubeClient, count: int, idle_seconds: float
) -> list[Figure]:
    started = time.monotonic()
    vkubelet.start()
    assert vkubelet.component is not None
    while (seen := await _count_ready(client)) < count:
        if vkubelet.component.exit_code is not None or time.monotonic() > started + TIMEOUT_SECONDS:
            log = vkubelet.component.read_log()
            raise ClusterError(f"{seen} of {count} nodes are Ready\n{log}")
        await asyncio.sleep(0.5)
    ready = time.monotonic() - started
    pid = vkubelet.component.pid
    assert pid is not None
    at_start = read_usage(pid)
    await asyncio.sleep(SETTLE_SECONDS)
    before, begun = read_usage(pid), time.monotonic()
    oldest = 0.0
    while time.monotonic() - begun < idle_seconds:
        oldest = max(oldest, await _read_oldest_lease(client, count))
        await asyncio.sleep(LEASE_POLL_SECONDS)
    after = read_usage(pid)
    share = (after.cpu_seconds - before.cpu_seconds) / (time.monotonic() - begun) * 100

    await _check_nodes(client, count)

    def figure(
        name: str, value: float, unit: str, target: float | None = None, *, steady: bool = False
    ) -> Figure:
        return Figure(bench=bench, name=name, value=value, unit=unit, target=target, steady=steady)

    return [
        figure("registered and Ready", ready, "s", 30),
        figure("CPU until then", at_start.cpu_seconds, "s"),
        figure("memory", after.rss_mib, "MiB", 120, steady=True),
        figure("CPU idle", share, "% of a core", 1),
        figure("oldest Lease", oldest, "s", 15),
    ]


async def _check_nodes(client: KubeClient, count: int) -> None:
    """Each virtual node stands for one physical node, shows what is free there, and is Ready."""
    nodes = await client.list(NODES, label_selector="vkubelet.io/peering=cloud")
    names = {node["metadata"]["name"] for node in nodes if _is_ready(node)}
    if names != {f"cloud-{node_name(number)}" for number in range(count)}:
        raise BenchError(f"{len(names)} of {count} nodes are Ready, or not those that should be")
    for node in nodes:
        if node["status"]["allocatable"]["cpu"] != "64":
            raise BenchError(f"{node['metadata']['name']} shows {node['status']['allocatable']}")
    ports = {node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] for node in nodes}
    if len(ports) != count:
        raise BenchError(f"{count} nodes have {len(ports)} ports")


async def _count_ready(client: KubeClient) -> int:
    nodes = await client.list(NODES, label_selector="vkubelet.io/peering=cloud")
    return sum(_is_ready(node) for node in nodes)


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


async def _read_oldest_lease(client: KubeClient, count: int) -> float:
    """Return the age of the Lease that was renewed longest ago."""
    leases = await client.list(LEASES, namespace="kube-node-lease")
    now = datetime.now(UTC)
    ages = [
        (now - datetime.fromisoformat(lease["spec"]["renewTime"])).total_seconds()
        for lease in leases
    ]
    if len(ages) != count:
        raise BenchError(f"{len(ages)} Leases of {count} nodes")
    return max(ages)
