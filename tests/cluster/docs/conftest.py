"""Fixtures: clusters for the documents alone, as those begin where nobody has done anything."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.cluster.cluster import Cluster, start_clusters
from tests.cluster.peering import PhysicalNodes
from tests.cluster.product.cloud import PHYSICAL_NODES


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def fresh_clusters() -> AsyncIterator[tuple[Cluster, Cluster]]:
    """Two clusters, with physical nodes in the remote one."""
    async with start_clusters("docs-home", "docs-remote") as (home, remote):
        await PhysicalNodes(remote, PHYSICAL_NODES).start()
        yield home, remote
