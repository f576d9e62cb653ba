"""Fixtures: a peering whose charts are installed, and whose process runs with their rights."""

import secrets
from collections.abc import AsyncIterator

import pytest_asyncio

from tests.cluster.charts.installation import Installation, installed
from tests.cluster.cluster import Cluster
from tests.cluster.peering import PhysicalNodes, Vkubelet

PEERING = "sea"
"""No other tests' peering: processes of those may still run."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def reflected(home: Cluster) -> AsyncIterator[str]:
    """A home namespace that is reflected."""
    name = f"charts-{secrets.token_hex(4)}"
    await home.make_namespace(name)
    yield name
    await home.kubectl("delete", "namespace", name, "--wait=false")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def installation(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes, reflected: str
) -> AsyncIterator[Installation]:
    """Both charts, installed by Helm."""
    async with installed(home, remote, PEERING, [reflected]) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def process(installation: Installation) -> AsyncIterator[Vkubelet]:
    """The process, with the service accounts' tokens and rights."""
    async with installation.running() as running:
        yield running
