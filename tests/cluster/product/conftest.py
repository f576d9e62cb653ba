"""Fixtures: process nodes in the remote cluster, and the product between the two."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.peering import PhysicalNodes, Vkubelet, grant_rights, run_vkubelet
from tests.cluster.product.cloud import PHYSICAL_NODES


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def physical_nodes(home: Cluster, remote: Cluster) -> PhysicalNodes:
    """The remote cluster's nodes, and the documented rights on either side."""
    await grant_rights(home, remote)
    nodes = PhysicalNodes(remote, PHYSICAL_NODES)
    await nodes.start()
    return nodes


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def vkubelet(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes
) -> AsyncIterator[Vkubelet]:
    """The product, with one virtual node `cloud`, for all namespaces."""
    async with run_vkubelet(
        home, remote, remote_cluster="cloud", arguments=["--namespace=*"]
    ) as process:
        yield process
