import asyncio
import socket

import pytest

from tests.process_nodes.running import RunningProvider, build_container, build_pod
from vkubelet.errors import RequestError
from vkubelet.interface import PodRef


@pytest.fixture
async def ref(running: RunningProvider) -> PodRef:
    ref = await running.start(build_pod(build_container("exec sleep 600")))
    await running.wait_phase(ref, "Running")
    return ref


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_both_ways_and_half_close(
    running: RunningProvider, ref: PodRef, address: str
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"got " + await reader.read(-1))
        writer.close()

    async with await asyncio.start_server(answer, address, 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with running.provider.port_forward(ref, port) as stream:
            await stream.write(b"one ")
            await stream.write(b"two")
            await stream.write_eof()
            assert await stream.read() == b"got one two"
            assert await stream.read() == b""


async def test_nobody_listens(running: RunningProvider, ref: PodRef) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(RequestError, match=f"failed to connect to localhost:{port}"):
            async with running.provider.port_forward(ref, port):
                raise AssertionError


async def test_a_pod_that_is_not_there(running: RunningProvider) -> None:
    with pytest.raises(RequestError, match="doesn't run"):
        async with running.provider.port_forward(PodRef("shop", "web", "uid-9"), 80):
            raise AssertionError
