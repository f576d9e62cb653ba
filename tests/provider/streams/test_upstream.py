"""How long an upstream stays, and what slow callers do to it."""

import asyncio

import pytest

from provider.streams.relay import RemoteStreams
from provider.streams.upstream import LINGER_SECONDS, MAX_BUFFERED_BYTES, STALL_SECONDS
from tests.fakes.api_server import FakeApiServer
from tests.provider.streams.far_side import ForwardingPod, over_tunnel
from tests.provider.streams.forwards import connect, read_all


@pytest.mark.virtual_time
async def test_lingers_and_closes(
    served: FakeApiServer, running: RemoteStreams, pod: ForwardingPod
) -> None:
    async with connect(running) as stream:
        await stream.write(b"x")
        assert await stream.read() == b"x"
    start = asyncio.get_running_loop().time()
    async with connect(running) as stream:
        await stream.write(b"y")
        assert await stream.read() == b"y"
    assert pod.upstreams == 1
    await pod.closed.wait()
    assert asyncio.get_running_loop().time() - start >= LINGER_SECONDS


@pytest.mark.virtual_time
async def test_a_caller_who_takes_nothing(
    server: FakeApiServer, running: RemoteStreams, pod: ForwardingPod
) -> None:
    server.handle("get pods/portforward", over_tunnel(pod.serve))
    pod.greeting = b"x" * (MAX_BUFFERED_BYTES + 100_000)
    async with connect(running, 80) as slow:
        while not pod.opened:
            await pod.progress.wait()
        await asyncio.sleep(STALL_SECONDS / 2)
        pod.greeting = b""
        async with connect(running, 81) as other:  # by another upstream, as this one is stuck
            await other.write(b"x")
            assert await other.read() == b"x"
        assert pod.upstreams == 2
        await asyncio.sleep(2 * STALL_SECONDS)  # alone it holds up nobody
        read = 0
        while read < MAX_BUFFERED_BYTES + 100_000:
            read += len(await slow.read())


@pytest.mark.virtual_time
async def test_one_who_holds_up_others_is_cut_off(
    server: FakeApiServer, running: RemoteStreams, pod: ForwardingPod
) -> None:
    server.handle("get pods/portforward", over_tunnel(pod.serve))
    async with connect(running, 81) as other:
        pod.greeting = b"x" * (MAX_BUFFERED_BYTES + 100_000)
        async with connect(running, 80) as slow:
            while len(pod.opened) < 2:
                pod.progress.clear()
                await pod.progress.wait()
            start = asyncio.get_running_loop().time()
            await other.write(b"hello")
            assert await other.read() == b"hello"
            assert asyncio.get_running_loop().time() - start <= STALL_SECONDS + 1
            with pytest.raises(ConnectionError, match="too slow"):
                await read_all(slow)
    assert pod.upstreams == 1
