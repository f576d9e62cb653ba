import asyncio

import pytest
from prometheus_client import REGISTRY

from vkubelet.server.errors import StreamInterruptedError
from vkubelet.server.interruption import Interruption, OpenStreams

pytestmark = pytest.mark.virtual_time


async def test_interrupt_ends_the_block() -> None:
    interruption = Interruption()
    asyncio.get_running_loop().call_later(5, interruption.interrupt, "enough")
    with pytest.raises(StreamInterruptedError, match="enough"):
        async with interruption.guard():
            await asyncio.sleep(3600)
    assert asyncio.get_running_loop().time() < 6


async def test_earlier_interrupt_keeps_the_block_from_starting() -> None:
    interruption = Interruption()
    interruption.interrupt("first")
    interruption.interrupt("second")
    with pytest.raises(StreamInterruptedError, match="first"):
        async with interruption.guard():
            pytest.fail("started")


async def test_timeout() -> None:
    interruption = Interruption()
    with pytest.raises(StreamInterruptedError, match="too slow"):
        async with interruption.guard(timeout_seconds=1, timeout_reason="too slow"):
            await asyncio.sleep(3600)
    assert interruption.reason is None


async def test_timeouts_of_the_block_are_its_own() -> None:
    with pytest.raises(TimeoutError):
        async with Interruption().guard():
            raise TimeoutError


async def test_block_that_ends_in_time() -> None:
    interruption = Interruption()
    async with interruption.guard(timeout_seconds=10):
        await asyncio.sleep(1)
    interruption.interrupt("late")
    assert interruption.reason == "late"


async def test_interrupting_all_ends_later_ones_too() -> None:
    streams, first, second = OpenStreams(), Interruption(), Interruption()
    before = REGISTRY.get_sample_value("vkubelet_streams_open") or 0
    with streams.add(first):
        assert len(streams) == 1
        assert REGISTRY.get_sample_value("vkubelet_streams_open") == before + 1
        streams.interrupt_all("stop")
        assert first.reason == "stop"
    assert len(streams) == 0
    assert REGISTRY.get_sample_value("vkubelet_streams_open") == before
    with streams.add(second):
        assert second.reason == "stop"
