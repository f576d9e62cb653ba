"""Output for slow callers: bounded, pushed back, yet read on for the sake of pings."""

import asyncio

import pytest

from provider.streams.output import MAX_BYTES, PAUSE_BYTES, PING_GRACE_SECONDS, OutputBuffer
from tests.provider.streams.caller import Caller
from vkubelet.streaming.channels import Channel

pytestmark = pytest.mark.virtual_time

CHUNK = b"x" * 32 * 1024


async def fill(output: OutputBuffer, chunks: int) -> None:
    for _ in range(chunks):
        await output.put(Channel.STDOUT, CHUNK)


async def test_everything_is_written_in_order() -> None:
    caller = Caller()
    output = OutputBuffer(caller)
    async with asyncio.TaskGroup() as group:
        group.create_task(output.run())
        await output.put(Channel.STDOUT, b"a")
        await output.put(Channel.STDERR, b"b")
        await asyncio.sleep(1)
        await output.put(Channel.STDOUT, b"c")
        output.close()
    assert (caller.output, caller.errors) == (b"ac", b"b")


async def test_slow_caller_stops_the_reading() -> None:
    caller = Caller()
    caller.unblock.clear()
    output = OutputBuffer(caller)
    async with asyncio.TaskGroup() as group:
        group.create_task(output.run())
        await fill(output, PAUSE_BYTES // len(CHUNK))
        filling = group.create_task(fill(output, 2))
        await asyncio.sleep(PING_GRACE_SECONDS - 1)
        assert not filling.done()
        caller.unblock.set()
        await filling
        output.close()
    assert len(caller.output) == PAUSE_BYTES + 2 * len(CHUNK)


async def test_stalled_caller_lets_reading_go_on_for_a_while() -> None:
    caller = Caller()
    caller.unblock.clear()
    output = OutputBuffer(caller)
    fits = MAX_BYTES // len(CHUNK)
    async with asyncio.TaskGroup() as group:
        group.create_task(output.run())
        filling = group.create_task(fill(output, fits))
        await asyncio.sleep(PING_GRACE_SECONDS + 1)
        assert filling.done()
        more = group.create_task(fill(output, 2))
        await asyncio.sleep(24 * 3600)
        assert not more.done()
        caller.unblock.set()
        await more
        output.close()
    assert len(caller.output) == (fits + 2) * len(CHUNK)


async def test_steady_slow_caller_never_gets_ahead_of_the_pause() -> None:
    written = 0

    class Dripping(Caller):
        async def write_stdout(self, data: bytes) -> None:
            nonlocal written
            await asyncio.sleep(10)
            written += len(data)

    output = OutputBuffer(Dripping())
    async with asyncio.TaskGroup() as group:
        group.create_task(output.run())
        for count in range(1, 40):
            await output.put(Channel.STDOUT, CHUNK)
            assert count * len(CHUNK) - written <= PAUSE_BYTES + len(CHUNK)
        output.close()
    assert written == 39 * len(CHUNK)
