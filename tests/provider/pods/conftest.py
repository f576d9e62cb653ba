"""Fixtures: remote pods."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.fakes.api_server import FakeApiServer
from tests.provider.pods.world import Running, run


@pytest_asyncio.fixture
async def running() -> AsyncIterator[Running]:
    """Remote pods that run against a fake."""
    async with FakeApiServer() as fake, run(fake) as started:
        yield started
