"""Commands over WebSockets; what doesn't depend on the protocol is in test_command_session.py."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from tests.vkubelet.server.harness import Harness, serve
from tests.vkubelet.server.spdy_client import build_path
from tests.vkubelet.server.websocket_client import connect
from vkubelet.interface import CommandStreams, ExitStatus, PodRef, TerminalSize
from vkubelet.streaming.channels import (
    PROTOCOL_BASE64_V4,
    PROTOCOL_V4,
    PROTOCOL_V5,
    CommandStatus,
    serialize_resize,
)
from vkubelet.streaming.remotecommand_websocket import WEBSOCKET_PROTOCOLS

pytestmark = pytest.mark.virtual_time

V5 = (PROTOCOL_V5, PROTOCOL_V4)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Harness, None]:
    async with serve(tmp_path) as harness:
        yield harness


async def cat(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
    while data := await streams.read_stdin():
        await streams.write_stdout(data)
    return ExitStatus(0)


@pytest.mark.parametrize("protocol", WEBSOCKET_PROTOCOLS)
async def test_every_protocol(node: Harness, protocol: str) -> None:
    async def run(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        data = await streams.read_stdin()
        await streams.write_stdout(data)
        await streams.write_stderr(b"err\xff")
        return ExitStatus(7)

    node.provider.run_exec = run
    path = build_path("x", streams=["input", "output", "error"])
    offered = [protocol] if protocol else []
    async with connect(node.server.port, node.context(), path, protocols=offered) as client:
        assert client.protocol == protocol
        client.send(0, b"in\xfe")
        status = await client.finish()
        assert client.output[1] == b"in\xfe"
        assert client.output[2] == b"err\xff"
        assert client.order == [1, 1, 2, 3]
        assert client.close_code == 1000
        if protocol in (PROTOCOL_V5, PROTOCOL_V4, PROTOCOL_BASE64_V4):
            assert status == CommandStatus(7)
        else:
            assert status.message.endswith("exit status 7")


@pytest.mark.parametrize("code", [0, 1, 127, 137, 255])
async def test_exit_codes(node: Harness, code: int) -> None:
    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        return ExitStatus(code)

    node.provider.run_exec = run
    async with connect(node.server.port, node.context(), build_path("x"), protocols=V5) as client:
        assert await client.finish() == CommandStatus(code)
        assert client.close_code == 1000


async def test_stdin_is_half_closed(node: Harness) -> None:
    node.provider.run_exec = cat
    path = build_path("cat", streams=["input", "output"])
    sent = bytes(range(256)) * 4000
    async with connect(node.server.port, node.context(), path, protocols=V5) as client:
        client.send(0, sent)
        client.send_eof()
        assert await client.finish() == CommandStatus(0)
        assert client.output[1] == sent


async def test_terminal(node: Harness) -> None:
    async def run(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        assert await streams.wait_resize() == TerminalSize(101, 31)
        assert await streams.wait_resize() == TerminalSize(100, 30)
        return ExitStatus(0)

    node.provider.run_exec = run
    path = build_path("sh", streams=["input", "output"], tty=True)
    async with connect(node.server.port, node.context(), path, protocols=V5) as client:
        client.send(4, serialize_resize(101, 31))
        client.send(4, serialize_resize(100, 30))
        assert await client.finish() == CommandStatus(0)


async def test_pings_are_answered_while_output_is_blocked(node: Harness) -> None:
    ended = asyncio.Event()

    async def run(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        await streams.write_stdout(bytes(16 << 20))
        ended.set()
        return ExitStatus(3)

    node.provider.run_exec = run
    async with connect(node.server.port, node.context(), build_path("x"), protocols=V5) as client:
        await asyncio.sleep(5)
        assert not ended.is_set()
        for _ in range(3):
            client.websocket.send_ping()
            client.flush()
        assert await client.finish() == CommandStatus(3)
        assert client.pongs == 3
        assert len(client.output[1]) == 16 << 20


async def test_pings_are_answered_after_the_end(node: Harness) -> None:
    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        return ExitStatus(0)

    node.provider.run_exec = run
    loop = asyncio.get_running_loop()
    async with connect(node.server.port, node.context(), build_path("x"), protocols=V5) as client:
        await client.read_close()
        start = loop.time()
        while not client.eof:  # our Close has gone out; who doesn't close is left soon
            await client.read()
        assert loop.time() - start < 5


async def test_a_silent_client_is_left_in_the_end(node: Harness) -> None:
    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        return ExitStatus(0)

    node.provider.run_exec = run
    loop = asyncio.get_running_loop()
    async with connect(node.server.port, node.context(), build_path("x"), protocols=V5) as client:
        start = loop.time()
        await asyncio.sleep(1)
        while await client.reader.read(65536):
            pass  # It doesn't answer the Close.
        assert 55 < loop.time() - start < 130


@pytest.mark.parametrize("way", ["close", "abort", "close frame", "rubbish"])
@pytest.mark.parametrize("writes", [True, False])
async def test_a_client_that_leaves_cancels_the_command(
    node: Harness, way: str, writes: bool
) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def run(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        started.set()
        try:
            while True:
                if writes:
                    await streams.write_stdout(bytes(32768))
                else:
                    await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    node.provider.run_exec = run
    async with connect(node.server.port, node.context(), build_path("x"), protocols=V5) as client:
        await started.wait()
        match way:
            case "close":
                client.writer.close()
            case "abort":
                client.vanish()
            case "close frame":
                client.websocket.send_close()
                client.flush()
            case _:
                client.writer.write(b"\xff\xff")
        async with asyncio.timeout(3):
            await cancelled.wait()
            while len(node.server.streams):
                await asyncio.sleep(0.1)


async def test_a_client_that_leaves_while_its_stdin_is_stuck(node: Harness) -> None:
    cancelled = asyncio.Event()

    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    node.provider.run_exec = run
    path = build_path("sleep", streams=["input", "output"])
    async with connect(node.server.port, node.context(), path, protocols=V5) as client:
        client.send(0, bytes(3 << 20))
        await asyncio.sleep(1)
        client.vanish()
        async with asyncio.timeout(5):
            await cancelled.wait()


async def test_idle_websockets_live_on_pings_but_not_for_ever(node: Harness) -> None:
    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        await asyncio.Event().wait()
        raise AssertionError

    node.provider.run_exec = run
    loop = asyncio.get_running_loop()
    async with connect(node.server.port, node.context(), build_path("x"), protocols=V5) as client:
        start = loop.time()

        async def ping() -> None:
            while client.close_code is None:
                client.websocket.send_ping()
                client.flush()
                await asyncio.sleep(600)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(ping())
            status = await client.finish()
            task.cancel()
        assert status == CommandStatus(None, "no data passed for 14400 seconds")
        assert 14390 < loop.time() - start < 14410


@pytest.mark.parametrize("protocol", [PROTOCOL_V5, PROTOCOL_V4])
async def test_attach(node: Harness, protocol: str) -> None:
    node.provider.run_exec = cat
    path = "/attach/ns/pod/c?input=1&output=1"
    async with connect(node.server.port, node.context(), path, protocols=[protocol]) as client:
        client.send(0, b"hello")
        assert await client.read_output(1, 5) == b"hello"
        if protocol == PROTOCOL_V5:
            client.send_eof()
            assert await client.finish() == CommandStatus(0)
    assert node.provider.exec_requests == [(PodRef("ns", "pod", "uid-1"), "c", ["attach"], False)]
