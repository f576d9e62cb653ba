"""Fixtures of the e2e tier: a real node in the remote cluster, and the product between the two."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cluster.binaries import read_version
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
from tests.cluster.peering import grant_rights, run_vkubelet
from tests.e2e.binaries import NodeProgramsMissingError
from tests.e2e.differential import CLIENTS, Both, races
from tests.e2e.real_node import RealNode

_HERE = Path(__file__).parent
DECLARES_WEBSOCKETS = tuple(map(int, read_version().split("."))) >= (1, 36)


def _is_asked_for(config: pytest.Config) -> bool:
    """Whether this folder, or something in it, is on the command line."""
    asked = (Path(arg.partition("::")[0]).absolute() for arg in config.args)
    return any(path.is_relative_to(_HERE) for path in asked)


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave this tier out of `make test`: it needs root, and changes the machine while it runs."""
    return None if _is_asked_for(config) else True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell which commands were run again."""
    if races:
        terminalreporter.section("run again (UPSTREAM_RACES)")
        for race in races:
            terminalreporter.write_line(race)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """
    How home's API server hands WebSockets on to the virtual node.

    Attributes:
        name: Of the virtual node, and of its peering.
        arguments: Of the product.
        features: Of the real kubelet, so that the remote API server treats it likewise.
    """

    name: str
    arguments: Sequence[str] = ()
    features: Mapping[str, bool] = field(default_factory=dict)


_UNDECLARED = {"ExtendWebSocketsToKubelet": False} if DECLARES_WEBSOCKETS else {}
LEGS: Mapping[str, Leg] = {
    "passed": Leg(name="cloud"),
    "translated": Leg(
        name="cloud-translated", arguments=("--no-kubelet-websockets",), features=_UNDECLARED
    ),
}
"""As they are, and turned into SPDY, as servers before 1.36 do with all."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_nodes(clusters: tuple[Cluster, Cluster]) -> AsyncIterator[Mapping[str, RealNode]]:  # noqa: F811
    """A real node of the remote cluster for each leg, and the documented rights on either side."""
    home, remote = clusters  # noqa: F811
    await grant_rights(home, remote)
    try:
        nodes = {
            name: RealNode(remote, f"real-{name}", features=leg.features)
            for name, leg in LEGS.items()
        }
    except NodeProgramsMissingError as error:
        pytest.fail(str(error), pytrace=False)
    try:
        async with asyncio.TaskGroup() as starting:
            for node in nodes.values():
                starting.create_task(node.start(), name=f"start {node.name}")
        yield nodes
    finally:
        for node in nodes.values():
            await node.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pairs(
    clusters: tuple[Cluster, Cluster],  # noqa: F811
    real_nodes: Mapping[str, RealNode],
) -> AsyncIterator[Mapping[str, Both]]:
    """The same pods on either side, for each leg, with the product between."""
    async with contextlib.AsyncExitStack() as stack:
        pairs = {}
        for name, leg in LEGS.items():
            node = real_nodes[name]
            arguments = [
                "--namespace=*",
                f"--node-selector=kubernetes.io/hostname={node.name}",
                f"--kubelet-address={node.slot.host_address}",
                *leg.arguments,
            ]
            vkubelet = await stack.enter_async_context(
                run_vkubelet(*clusters, remote_cluster=leg.name, arguments=arguments)
            )
            pairs[name] = Both(
                *clusters,
                leg.name,
                node,
                vkubelet,
                passes_websockets=DECLARES_WEBSOCKETS and name == "passed",
            )
        async with asyncio.TaskGroup() as starting:
            for pair in pairs.values():
                starting.create_task(pair.start(), name=f"start {pair.through.node}")
        yield pairs


@pytest.fixture
def both(pairs: Mapping[str, Both]) -> Both:
    """The pods of the first leg, for what has nothing to do with streams."""
    return pairs["passed"]


@pytest.fixture(params=LEGS)
def leg(pairs: Mapping[str, Both], request: pytest.FixtureRequest) -> Both:
    """The pods of either leg."""
    return pairs[str(request.param)]


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """kubectl's environment, by what it speaks."""
    return CLIENTS[str(request.param)]
