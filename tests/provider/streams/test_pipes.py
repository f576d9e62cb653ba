"""The one task that writes a SPDY connection's bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from provider.streams.pipes import PING_SECONDS, SpdyWriter

pytestmark = pytest.mark.virtual_time


class Pipe:
    """Keeps what is written; may block, or break."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.unblock = asyncio.Event()
        self.unblock.set()
        self.failure: OSError | None = None

    async def read(self) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        await self.unblock.wait()
        if self.failure is not None:
            raise self.failure
        self.written.append(data)


class World:
    def __init__(self) -> None:
        self.pipe = Pipe()
        self.pending = bytearray()
        self.pings = 0
        self.writer = SpdyWriter(self.pipe, self.take, self.ping)

    def take(self) -> bytes:
        data = bytes(self.pending)
        self.pending.clear()
        return data

    def ping(self) -> None:
        self.pings += 1
        self.pending += b"ping"

    async def send(self, data: bytes) -> None:
        self.pending += data
        await self.writer.flush()


@asynccontextmanager
async def running() -> AsyncIterator[World]:
    world = World()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.writer.run())
        yield world
        task.cancel()


async def test_flush_waits_for_the_write() -> None:
    async with running() as world, asyncio.TaskGroup() as group:
        world.pipe.unblock.clear()
        sending = group.create_task(world.send(b"one"))
        await asyncio.sleep(5)
        assert not sending.done()
        assert world.writer.blocked_seconds == pytest.approx(5, abs=0.1)
        other = group.create_task(world.send(b"two"))
        await asyncio.sleep(1)
        world.pipe.unblock.set()
        await sending
        await other
        assert world.pipe.written == [b"one", b"two"]
        assert world.writer.blocked_seconds == 0


async def test_flush_of_nothing() -> None:
    async with running() as world:
        await world.writer.flush()
        assert world.pipe.written == []


async def test_wake_doesnt_wait() -> None:
    async with running() as world:
        world.pending += b"echo"
        world.writer.wake()
        await asyncio.sleep(0.1)
        assert world.pipe.written == [b"echo"]


async def test_broken_pipe() -> None:
    async with running() as world:
        world.pipe.failure = BrokenPipeError("the peer left")
        for _ in range(2):
            with pytest.raises(ConnectionResetError, match="the peer left"):
                await world.send(b"x")


async def test_end_of_the_task() -> None:
    async with running() as world:
        world.pipe.unblock.clear()
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(_expect_reset(world))
            await asyncio.sleep(1)
            world.pipe.failure = ConnectionResetError("gone")
            world.pipe.unblock.set()
        assert sending.done()


async def _expect_reset(world: World) -> None:
    with pytest.raises(ConnectionResetError):
        await world.send(b"x")


async def test_pings_of_a_quiet_connection() -> None:
    async with running() as world:
        await asyncio.sleep(PING_SECONDS * 3 + 1)
        assert world.pings == 3
        assert world.pipe.written == [b"ping"] * 3
