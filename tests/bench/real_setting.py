"""Two real control planes for a bench: kwok's nodes there, load from a process of its own."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from tests.bench.children import run_module
from tests.bench.figures import BenchError
from tests.bench.real_load import Load, Outcome
from tests.cluster.cluster import Cluster
from tests.cluster.components import ADMIN_GROUP, AUDITED_NAMESPACE
from tests.cluster.peering import USER
from vkubelet.kube.objects import PODS

AUDITED_GROUP = f"system:serviceaccounts:{AUDITED_NAMESPACE}"
"""Whoever is in it has each request written to the API server's audit log."""
GONE_SECONDS = 120.0


@dataclass
class LoadProcess:
    """The process that makes pods of one cluster."""

    process: asyncio.subprocess.Process

    async def make(self, load: Load) -> Outcome:
        """Have it make pods, and wait until they all run."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(msgspec.json.encode(load) + b"\n")
        await self.process.stdin.drain()
        line = await self.process.stdout.readline()
        if not line:
            raise BenchError(f"{load.count} pods of {load.name} didn't all come up")
        return msgspec.json.decode(line, type=Outcome)


@contextlib.asynccontextmanager
async def run_load(cluster: Cluster) -> AsyncIterator[LoadProcess]:
    """Run one until the end of the context."""
    kubeconfig = f"--kubeconfig={cluster.admin_kubeconfig}"
    async with run_module(
        "tests.bench.real_load", kubeconfig, stdin=asyncio.subprocess.PIPE
    ) as process:
        yield LoadProcess(process)


def audited_kubeconfig(cluster: Cluster, *, admin: bool = False) -> str:
    """Write a kubeconfig of the product's user, or an admin, whose requests are counted."""
    groups = [ADMIN_GROUP, AUDITED_GROUP] if admin else [AUDITED_GROUP]
    return str(cluster.kubeconfig_for("baseline" if admin else USER, groups))


def count_requests(cluster: Cluster) -> Counter[str]:
    """Count the audited requests so far by verb and resource, watches and Leases apart."""
    counted: Counter[str] = Counter()
    for entry in cluster.read_audit_log():
        reference = entry.get("objectRef", {})
        resource = reference.get("resource", entry["requestURI"])
        if entry["verb"] == "watch" or resource == "leases":
            continue
        if subresource := reference.get("subresource"):
            resource += f"/{subresource}"
        counted[f"{entry['verb']} {resource}"] += 1
    return counted


async def delete_pods(cluster: Cluster, namespace: str) -> None:
    """Delete all pods of a namespace, without asking who runs them, and wait until they're gone."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    await cluster.kubectl("delete", f"--raw={path}?gracePeriodSeconds=0", timeout=GONE_SECONDS)
    async with cluster.client() as client, asyncio.timeout(GONE_SECONDS):
        while (await client.list_page(PODS, namespace=namespace, limit=1)).items:
            await asyncio.sleep(0.25)
