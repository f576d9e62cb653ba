import asyncio
import asyncio.sslproto
import gc
import logging
import socket
import ssl
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp
import pytest

from tests.vkubelet.server.harness import (
    Harness,
    serve,
)
from vkubelet.server.connections import StrangerGuard
from vkubelet.server.listener import serve_node
from vkubelet.server.policy import ServerPolicy

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


async def test_plain_text_and_rubbish_leave_no_trace(
    node: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for sent in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01", b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", node.server.port)
            writer.write(sent)
            writer.write_eof()
            await read_to_end(reader)
            writer.close()
        for sent in (b"\x00rubbish\r\n\r\n", b"GET / HTTP/1.1\r\nno header\r\n\r\n"):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", node.server.port, ssl=node.context()
            )
            writer.write(sent)
            assert (await read_to_end(reader)).startswith(b"HTTP/1.0 400 ")
            writer.close()
    assert not caplog.records
    assert await get_health(node, node.context()) == 200


@pytest.mark.parametrize(("tls", "seconds"), [(False, 10), (True, 30)])
@pytest.mark.parametrize("drips", [False, True])
async def test_slow_handshakes_and_requests_are_cut(
    node: Harness, tls: bool, seconds: float, drips: bool
) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", node.server.port, ssl=node.context() if tls else None
    )
    # The start of a request, or the head of a TLS record of 16 KiB.
    writer.write(b"GET /healthz HTTP/1.1\r\nX: " if tls else b"\x16\x03\x01\x40\x00")

    async def drip() -> None:
        while drips and not writer.is_closing():
            writer.write(b"\x01" if not tls else b"x")
            await asyncio.sleep(1)

    async with asyncio.TaskGroup() as group:
        dripping = group.create_task(drip())
        await read_to_end(reader)
        dripping.cancel()
    assert seconds - 2 < loop.time() - start < seconds + 5
    writer.transport.abort()


async def test_idle_connection_is_closed_after_90_seconds(node: Harness) -> None:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", node.server.port, ssl=node.context()
    )
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\nok")).startswith(b"HTTP/1.1 200 ")
    loop = asyncio.get_running_loop()
    start = loop.time()
    await read_to_end(reader)
    assert 85 < loop.time() - start < 95
    writer.close()


async def test_stranger_cannot_send_endless_heads(
    node: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", node.server.port, ssl=node.context(None)
    )
    writer.write(b"GET /healthz HTTP/1.1\r\n")
    for number in range(40):
        writer.write(b"X-%d: %s\r\n" % (number, b"x" * 65536))
    assert await read_to_end(reader) == b""
    assert "too much was sent" in caplog.text
    writer.transport.abort()


async def test_who_may_do_nothing_stays_a_stranger(node: Harness) -> None:
    """Every user and kubelet of the cluster has a certificate that is accepted."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", node.server.port, ssl=node.context("someone", ())
    )
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 403 ")
    await read_to_end(reader)
    assert 25 < loop.time() - start < 35
    writer.transport.abort()


async def test_strangers_yield_to_newer_ones(tmp_path: Path) -> None:
    async with serve(tmp_path, policy=ServerPolicy(max_strangers=3)) as node:
        context = node.context(None)
        opened = [
            await asyncio.open_connection("127.0.0.1", node.server.port, ssl=context)
            for _ in range(5)
        ]
        assert await get_health(node, node.context()) == 200
        for reader, _ in opened[:3]:
            assert await read_to_end(reader) == b""
        for _, writer in opened:
            writer.transport.abort()


async def test_the_ports_of_all_nodes_share_the_room(tmp_path: Path) -> None:
    async with (
        serve(tmp_path, policy=ServerPolicy(max_strangers=4)) as node,
        serve_node(
            "virtual-1", host="127.0.0.1", port=0, tls=node.tls, services=node.services
        ) as other,
    ):
        tasks = len(asyncio.all_tasks())
        waiting = await asyncio.open_connection("127.0.0.1", other.port)
        crowd = [await asyncio.open_connection("127.0.0.1", node.server.port) for _ in range(5)]
        for reader, _ in crowd[:2]:
            assert await read_to_end(reader) == b""
        assert len(asyncio.all_tasks()) == tasks + 4
        assert not waiting[0].at_eof()
        for _, writer in (waiting, *crowd):
            writer.transport.abort()


async def test_large_heads_cost_those_who_send_them(tmp_path: Path) -> None:
    policy = ServerPolicy(max_stranger_bytes=4096)
    async with serve(tmp_path, policy=policy) as node:
        context = node.context(None)
        reader, writer = await asyncio.open_connection("127.0.0.1", node.server.port, ssl=context)
        writer.write(b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 4000)
        await writer.drain()
        assert await get_health(node, node.context()) == 200
        assert await read_to_end(reader) == b""
        writer.transport.abort()


async def test_others_have_turns_while_connections_pour_in(node: Harness) -> None:
    tasks = len(asyncio.all_tasks())
    poured = [socket.create_connection(("127.0.0.1", node.server.port)) for _ in range(200)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert tasks < len(asyncio.all_tasks()) < tasks + 100
    assert await get_health(node, node.context()) == 200
    for connection in poured:
        connection.close()


async def test_a_crowd_that_says_nothing_leaves_room(tmp_path: Path) -> None:
    async with serve(tmp_path, policy=ServerPolicy(max_strangers=50)) as node:
        tasks = len(asyncio.all_tasks())
        crowd = [await asyncio.open_connection("127.0.0.1", node.server.port) for _ in range(400)]
        assert await get_health(node, node.context()) == 200
        assert len(asyncio.all_tasks()) <= tasks + 60
        for _, writer in crowd:
            writer.transport.abort()
        assert await get_health(node, node.context()) == 200


async def test_those_who_are_cut_off_leave_nothing(tmp_path: Path) -> None:
    """What they held is gone at once, not when the collector comes."""
    gc.collect()
    gc.disable()
    try:
        async with serve(tmp_path, policy=ServerPolicy(max_strangers=5)) as node:
            crowd = [
                await asyncio.open_connection("127.0.0.1", node.server.port) for _ in range(100)
            ]
            assert await get_health(node, node.context()) == 200
            found = Counter(type(it) for it in gc.get_objects())
            assert found[StrangerGuard] <= 6
            assert found[asyncio.sslproto.SSLProtocol] <= 8
            for _, writer in crowd:
                writer.transport.abort()
    finally:
        gc.enable()


async def test_connections_are_capped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serve(tmp_path, policy=ServerPolicy(max_connections=1)) as node:
        async with node.http() as http:
            async with http.get("/healthz") as response:
                assert response.status == 200
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await get_health(node, node.context())
        assert "more are refused" in caplog.text
