"""Fixtures: a peering that all tests of this folder may use."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.namespaces.peerings import run_peering
from tests.cluster.peering import RIGHTS, PhysicalNodes, Vkubelet

NODE = "translated"


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def vkubelet(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes
) -> AsyncIterator[Vkubelet]:
    """The product, whose pods can be reached from home under other addresses."""
    del physical_nodes
    arguments = ["--namespace=*", "--pod-network=routed", "--remap-cidr=10.199.0.0/16=10.77.0.0/16"]
    async with run_peering(home, remote, NODE, *arguments) as process:
        yield process
    await home.kubectl("delete", "node", NODE, "--wait=false")


@pytest_asyncio.fixture(loop_scope="session")
async def granted(home: Cluster, namespace: str) -> str:
    """A fresh home namespace, with the documented rights in it."""
    file = str(RIGHTS / "home-namespace.yaml")
    await home.kubectl("apply", f"--namespace={namespace}", "-f", file)
    return namespace
