"""A provider for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.process_nodes.running import RunningProvider, run_provider


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningProvider]:
    """A provider in a folder of its own."""
    async with run_provider(tmp_path) as provider:
        yield provider
