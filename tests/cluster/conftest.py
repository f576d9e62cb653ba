"""Fixtures of the cluster tier: two control planes a session, a namespace a test."""

import secrets
from collections.abc import AsyncIterator, Collection, Generator

import pytest
import pytest_asyncio

from tests.cluster.binaries import BinariesMissingError
from tests.cluster.cluster import Cluster, start_clusters
from tests.cluster.gobuild import BuildError
from tests.cluster.peering import PhysicalNodes, grant_rights
from tests.cluster.product.cloud import PHYSICAL_NODES

_TIMEOUT_SECONDS = 120
_LOG_LINES = 30
_clusters_key = pytest.StashKey[tuple[Cluster, ...]]()
_log_offsets_key = pytest.StashKey[dict[str, int]]()


def _is_of_this_tier(node: pytest.Item, fixtures: Collection[str]) -> bool:
    return "clusters" in fixtures or node.get_closest_marker("cluster") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tell pytest-asyncio the loop's scope before it chooses the loop: it must outlive a test."""
    if _is_of_this_tier(metafunc.definition, metafunc.fixturenames):
        metafunc.definition.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give what uses the clusters their event loop and a longer time-out."""
    for item in items:
        if not _is_of_this_tier(item, getattr(item, "fixturenames", ())):
            continue
        item.add_marker(pytest.mark.cluster)
        # Tests of a folder share clusters, one after the other; folders run side by side.
        item.add_marker(pytest.mark.xdist_group(item.path.parent.name))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_SECONDS))
        if pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember where the logs are before the test."""
    item.stash[_log_offsets_key] = {
        f"{cluster.name}: {component.name}": component.log.stat().st_size
        for cluster in item.config.stash.get(_clusters_key, ())
        for component in cluster.components.values()
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the clusters' programs logged during a test that failed."""
    report = yield
    if report.failed and item.get_closest_marker("cluster") is not None:
        offsets = item.stash.get(_log_offsets_key, {})
        for cluster in item.config.stash.get(_clusters_key, ()):
            for component in cluster.components.values():
                title = f"{cluster.name}: {component.name}"
                log = component.read_log(offset=offsets.get(title, 0), lines=_LOG_LINES)
                if component.exit_code is not None:
                    log += f"\n(ended with {component.exit_code})"
                report.sections.append((title, log))
    return report


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def clusters(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Cluster, Cluster]]:
    """The home and the remote cluster, started side by side."""
    try:
        async with start_clusters("home", "remote") as (home, remote):
            request.config.stash[_clusters_key] = (home, remote)
            yield home, remote
            request.config.stash[_clusters_key] = ()
    except (BinariesMissingError, BuildError) as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def home(clusters: tuple[Cluster, Cluster]) -> Cluster:
    """The home cluster."""
    return clusters[0]


@pytest.fixture(scope="session")
def remote(clusters: tuple[Cluster, Cluster]) -> Cluster:
    """The remote cluster."""
    return clusters[1]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def physical_nodes(home: Cluster, remote: Cluster) -> PhysicalNodes:
    """The remote cluster's nodes, and the documented rights on either side."""
    await grant_rights(home, remote)
    nodes = PhysicalNodes(remote, PHYSICAL_NODES)
    await nodes.start()
    return nodes


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(home: Cluster) -> AsyncIterator[str]:
    """A fresh namespace of the home cluster, in which pods can be created; deleted afterwards."""
    name = f"test-{secrets.token_hex(4)}"
    await home.make_namespace(name)
    yield name
    await home.kubectl("delete", "namespace", name, "--wait=false")
