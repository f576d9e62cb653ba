"""Fixtures: physical nodes of the removal tests' own."""

import pytest_asyncio

from tests.cluster.peering import PhysicalNodes
from tests.cluster.removal.pool import POOL


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pool(physical_nodes: PhysicalNodes) -> PhysicalNodes:
    """The pool's nodes, beside those that all tests have."""
    await physical_nodes.add(POOL)
    return physical_nodes
