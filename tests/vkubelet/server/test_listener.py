import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from tests.vkubelet.server.harness import (
    NODE,
    Harness,
    serve,
)
from tests.vkubelet.server.spdy_client import build_path, connect
from vkubelet.interface import CommandStreams, ExitStatus
from vkubelet.server.errors import ListenError
from vkubelet.server.listener import serve_node
from vkubelet.streaming.channels import CommandStatus

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Harness, None]:
    async with serve(tmp_path) as harness:
        yield harness


async def get_health(node: Harness, context: ssl.SSLContext) -> int:
    async with node.http(context) as http, http.get("/healthz") as response:
        return response.status


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(-1)
    except ConnectionError:
        return b""


async def test_port_in_use(node: Harness, tmp_path: Path) -> None:
    with pytest.raises(ListenError, match=f"127.0.0.1 port {node.server.port}"):
        async with serve_node(
            NODE,
            host="127.0.0.1",
            port=node.server.port,
            tls=node.tls,
            services=None,  # type: ignore[arg-type]  # it doesn't come that far
        ):
            pytest.fail("listened twice")


class Shell:
    """A command that ends when it's told."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        await self.go.wait()
        await streams.write_stdout(b"done")
        return ExitStatus(0)


async def test_stop_tells_clients_and_closes_every_connection(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    stack = contextlib.AsyncExitStack()
    node = await stack.enter_async_context(serve(tmp_path))
    node.provider.run_exec = Shell()
    port, context = node.server.port, node.context()
    plain = await asyncio.open_connection("127.0.0.1", port)
    stranger = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    idle = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    idle[1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    await idle[0].readuntil(b"\r\n\r\nok")
    async with connect(port, context, build_path("sh")) as client:
        await client.open("error", "stdout", "stderr")
        start = loop.time()
        async with asyncio.TaskGroup() as group:
            finishing = group.create_task(client.finish())
            await stack.aclose()
        assert finishing.result() == CommandStatus(None, "the node is shutting down")
    assert loop.time() - start < 5
    for reader, writer in (plain, stranger, idle):
        assert await read_to_end(reader) == b""
        writer.transport.abort()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


async def test_stop_cuts_off_a_provider_that_takes_its_time(tmp_path: Path) -> None:
    async def stubborn(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(3600)
        return ExitStatus(0)

    loop = asyncio.get_running_loop()
    stack = contextlib.AsyncExitStack()
    node = await stack.enter_async_context(serve(tmp_path))
    node.provider.run_exec = stubborn
    async with connect(node.server.port, node.context(), build_path("sh")) as client:
        await client.open("error", "stdout", "stderr")
        start = loop.time()
        async with asyncio.TaskGroup() as group:
            finishing = group.create_task(client.finish())
            await stack.aclose()
        assert finishing.result().code is None
    assert loop.time() - start < 10


async def test_what_the_block_raises_comes_out_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with serve(tmp_path):
            raise KeyError("mine")
