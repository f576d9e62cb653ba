"""Fixtures: peerings with and without the rights on what pods need."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.dependents.pods import NODE, TAINT
from tests.cluster.peering import RIGHTS, PhysicalNodes, Vkubelet, run_vkubelet


async def grant_namespace(home: Cluster, namespace: str) -> None:
    """Give the product's user the documented rights in a home namespace."""
    file = str(RIGHTS / "home-namespace.yaml")
    await home.kubectl("apply", f"--namespace={namespace}", "-f", file)


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def vkubelet(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes
) -> AsyncIterator[Vkubelet]:
    """The product, with access to home's API server; on its node only these tests' pods."""
    arguments = [
        "--namespace=*",
        "--remote-namespace={namespace}-there",
        f"--node-taint={TAINT}=true:NoSchedule",
        "--api-access=home",
        f"--home-api-server={home.server.removeprefix('https://')}",
    ]
    async with run_vkubelet(home, remote, remote_cluster=NODE, arguments=arguments) as process:
        yield process
    await home.kubectl("delete", "node", NODE, "--wait=false")


@pytest_asyncio.fixture(loop_scope="session")
async def granted(home: Cluster, namespace: str) -> str:
    """A fresh home namespace, with the documented rights in it."""
    await grant_namespace(home, namespace)
    return namespace
