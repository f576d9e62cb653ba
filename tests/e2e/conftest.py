"""Fixtures of the e2e tier: a real node in the remote cluster, and the product between the two."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import (  # noqa: F401 -- the clusters' own fixtures and hooks
    clusters,
    home,
    namespace,
    pytest_collection_modifyitems,
    pytest_generate_tests,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    remote,
)
from tests.cluster.peering import Vkubelet, grant_rights, run_vkubelet
from tests.e2e.binaries import NodeProgramsMissingError
from tests.e2e.differential import Both
from tests.e2e.real_node import RealNode

_HERE = Path(__file__).parent
REMOTE_CLUSTER = "cloud"


def _is_asked_for(config: pytest.Config) -> bool:
    """Whether this folder, or something in it, is on the command line."""
    asked = (Path(arg.partition("::")[0]).absolute() for arg in config.args)
    return any(path.is_relative_to(_HERE) for path in asked)


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave this tier out of `make test`: it needs root, and changes the machine while it runs."""
    return None if _is_asked_for(config) else True


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_node(clusters: tuple[Cluster, Cluster]) -> AsyncIterator[RealNode]:  # noqa: F811
    """A real node in the remote cluster, and the documented rights on either side."""
    home, remote = clusters  # noqa: F811
    await grant_rights(home, remote)
    try:
        node = RealNode(remote, "real-1")
    except NodeProgramsMissingError as error:
        pytest.fail(str(error), pytrace=False)
    async with node:
        yield node


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def vkubelet(
    clusters: tuple[Cluster, Cluster],  # noqa: F811
    real_node: RealNode,
) -> AsyncIterator[Vkubelet]:
    """The product, with one virtual node `cloud`, for all namespaces."""
    async with run_vkubelet(
        *clusters, remote_cluster=REMOTE_CLUSTER, arguments=["--namespace=*"]
    ) as process:
        yield process


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def both(
    clusters: tuple[Cluster, Cluster],  # noqa: F811
    vkubelet: Vkubelet,
) -> AsyncIterator[Both]:
    """The same pods on either side, for the differential tests."""
    async with Both.create(*clusters) as both:
        yield both
