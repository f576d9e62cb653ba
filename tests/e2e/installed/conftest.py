"""Fixtures: real nodes at home, and both charts installed, with the image that is built here."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence

import pytest
import pytest_asyncio

from image.build import Built
from tests.cluster.cluster import Cluster
from tests.cluster.go_program import ProgramMissingError
from tests.cluster.metrics_server import MetricsServer
from tests.cluster.product.cloud import create
from tests.e2e.installed.release import PEERING, Release, build_far_pod, build_values
from tests.e2e.real_node import RealNode
from tests.image.conftest import built, contents, files, packages  # noqa: F401 -- fixtures

HOME_NODES = ("home-1", "home-2")


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def home_nodes(
    home: Cluster,
    built: Built,  # noqa: F811
) -> AsyncIterator[Mapping[str, RealNode]]:
    """Real nodes of the home cluster that have the image."""
    nodes = {name: RealNode(home, name) for name in HOME_NODES}

    async def start(node: RealNode) -> None:
        await node.start()
        await node.import_image(built.archive)

    try:
        async with asyncio.TaskGroup() as starting:
            for node in nodes.values():
                starting.create_task(start(node), name=f"start {node.name}")
        yield nodes
    finally:
        for node in nodes.values():
            await node.stop()
            await home.kubectl("delete", "node", node.name, "--ignore-not-found")


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def reflected(home: Cluster) -> AsyncIterator[str]:
    """A home namespace that is reflected."""
    name = f"installed-{secrets.token_hex(4)}"
    await home.make_namespace(name)
    yield name
    await home.kubectl("delete", "namespace", name, "--wait=false")


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def release(
    home: Cluster,
    remote: Cluster,
    home_nodes: Mapping[str, RealNode],
    real_nodes: Mapping[str, RealNode],
    reflected: str,
) -> AsyncIterator[Release]:
    """Both charts, with a virtual node for each real one; its process is ready."""
    addresses: Sequence[str] = [node.slot.host_address for node in real_nodes.values()]
    release = Release(
        home=home,
        remote=remote,
        peering=PEERING,
        values=build_values(PEERING, reflected),
        remote_address=addresses[0],
    )
    try:
        await release.install_remote()
        await release.rotate()
        await release.install()
        await release.wait_rolled_out()
        yield release
    finally:
        await release.uninstall()


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def busy(home: Cluster, release: Release, reflected: str) -> str:
    """The name of a pod that uses a little of a core from now on."""
    count = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done"
    await create(
        home, build_far_pod("busy", reflected, script=f"while :; do {count}; sleep 0.1; done")
    )
    return "busy"


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def metrics_servers(home: Cluster, remote: Cluster, release: Release) -> AsyncIterator[None]:
    """One in each cluster, early, as they take their time; home's asks the process."""
    servers = MetricsServer(home), MetricsServer(remote)
    try:
        async with asyncio.TaskGroup() as starting:
            for server in servers:
                starting.create_task(server.start())
        yield
    except ProgramMissingError as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        for server in servers:
            await server.stop()


@pytest.fixture
def far_nodes(real_nodes: Mapping[str, RealNode]) -> Mapping[str, str]:
    """Names of the real nodes by those of the virtual nodes that stand for them."""
    return {f"{PEERING}-{node.name}": node.name for node in real_nodes.values()}
