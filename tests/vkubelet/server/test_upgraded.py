"""The plumbing of upgraded connections: what sessions don't show by themselves."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from tests.vkubelet.server import websocket_client
from tests.vkubelet.server.harness import Harness, serve
from tests.vkubelet.server.spdy_client import build_path, connect
from vkubelet.interface import CommandStreams, ExitStatus
from vkubelet.server.policy import ServerPolicy
from vkubelet.server.upgraded import MAX_UNREAD_OUTPUT_BYTES
from vkubelet.streaming.channels import PROTOCOL_V5
from vkubelet.streaming.websocket.frames import Opcode, encode_frame

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Harness, None]:
    async with serve(tmp_path, policy=ServerPolicy(stream_idle_seconds=0)) as harness:
        yield harness


async def test_a_flood_of_pings_from_one_who_does_not_read(node: Harness) -> None:
    cancelled = asyncio.Event()

    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    node.provider.run_exec = run
    pings = encode_frame(Opcode.PING, bytes(125), mask_key=b"abcd") * 500
    async with websocket_client.connect(
        node.server.port, node.context(), build_path("x"), protocols=[PROTOCOL_V5]
    ) as client:
        sent = 0
        while not cancelled.is_set():
            assert sent < 20 * MAX_UNREAD_OUTPUT_BYTES
            sent += len(pings)
            client.writer.write(pings)
            with contextlib.suppress(ConnectionError):
                await client.writer.drain()
            await asyncio.sleep(0.01)


async def test_without_a_limit_idle_streams_live_on(node: Harness) -> None:
    go = asyncio.Event()

    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        await go.wait()
        return ExitStatus(0)

    node.provider.run_exec = run
    async with connect(node.server.port, node.context(), build_path("x")) as client:
        await client.open("error", "stdout", "stderr")
        await asyncio.sleep(24 * 3600)
        go.set()
        assert (await client.finish()).code == 0
