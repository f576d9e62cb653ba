"""Fixtures: the product between the two clusters."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.peering import PhysicalNodes, Vkubelet, run_vkubelet


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def vkubelet(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes
) -> AsyncIterator[Vkubelet]:
    """The product, with one virtual node `cloud`, for all namespaces."""
    async with run_vkubelet(
        home, remote, remote_cluster="cloud", arguments=["--namespace=*"]
    ) as process:
        yield process
