"""A fake home API server, a client to it, and a signer."""

from collections.abc import AsyncIterator

import pytest

from tests.certs.signer import Signer, WallClock
from tests.fakes.api_server import FakeApiServer
from vkubelet.kube.client import KubeClient


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as fake:
        yield fake


@pytest.fixture
async def client(server: FakeApiServer) -> AsyncIterator[KubeClient]:
    async with server.client("home") as client:
        yield client


@pytest.fixture
def clock() -> WallClock:
    return WallClock()


@pytest.fixture
async def signer(
    server: FakeApiServer, client: KubeClient, clock: WallClock
) -> AsyncIterator[Signer]:
    """Signs what is approved, from the start."""
    signer = Signer(server, client, clock)
    async with signer.running():
        await server.wait_for_watches("watch certificatesigningrequests")
        yield signer
