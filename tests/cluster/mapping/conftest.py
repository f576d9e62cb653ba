"""Fixtures: physical nodes of the mapping tests' own."""

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.mapping.pool import POOL
from tests.cluster.peering import PhysicalNodes


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pool(physical_nodes: PhysicalNodes) -> PhysicalNodes:
    """The pool's nodes, beside those that all tests have."""
    await physical_nodes.add(POOL)
    return physical_nodes


@pytest.fixture
def both(home: Cluster, remote: Cluster, pool: PhysicalNodes) -> tuple[Cluster, Cluster]:
    """Both clusters, with the pool in the remote one."""
    del pool
    return home, remote
