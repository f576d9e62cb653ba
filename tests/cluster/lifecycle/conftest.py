"""Fixtures: a peering in a hurry."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.lifecycle.workloads import NODE
from tests.cluster.peering import PhysicalNodes, Vkubelet, run_vkubelet


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def vkubelet(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes
) -> AsyncIterator[Vkubelet]:
    """The product, with short time-outs."""
    arguments = ["--namespace=*", "--unschedulable-timeout=5s", "--remote-lost-timeout=5s"]
    async with run_vkubelet(home, remote, remote_cluster=NODE, arguments=arguments) as process:
        yield process
    await home.kubectl("delete", "node", NODE, "--wait=false")
