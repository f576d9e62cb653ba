"""A fake remote API server and a client to it."""

from collections.abc import AsyncIterator

import pytest

from provider.streams.relay import RemoteStreams
from tests.fakes.api_server import FakeApiServer


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as fake:
        yield fake


@pytest.fixture
async def remote(server: FakeApiServer) -> AsyncIterator[RemoteStreams]:
    async with server.client("remote") as client:
        yield RemoteStreams(client)
