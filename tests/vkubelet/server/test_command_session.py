import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from tests.vkubelet.server.harness import Harness, serve
from tests.vkubelet.server.spdy_client import build_path, connect
from vkubelet.errors import RequestError, RetryError
from vkubelet.interface import CommandStreams, ExitStatus, PodRef, TerminalSize
from vkubelet.streaming.channels import CommandStatus, serialize_resize

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Harness, None]:
    async with serve(tmp_path) as harness:
        yield harness


async def cat(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
    while data := await streams.read_stdin():
        await streams.write_stdout(data)
    return ExitStatus(0)


async def test_output_status_and_end(node: Harness) -> None:
    async def run(streams: CommandStreams, command: Sequence[str]) -> ExitStatus:
        await streams.write_stdout(b"out\n")
        await streams.write_stderr(b"err\n")
        return ExitStatus(7)

    node.provider.run_exec = run
    path = build_path("sh", "-c", "exit 7")
    async with connect(node.server.port, node.context(), path) as client:
        await client.open("error", "stdout", "stderr")
        assert await client.finish() == CommandStatus(7)
        assert client.output["stdout"] == b"out\n"
        assert client.output["stderr"] == b"err\n"
        assert client.finished == ["stdout", "stderr", "error"]
    assert node.provider.exec_requests == [
        (PodRef("ns", "pod", "uid-1"), "c", ["sh", "-c", "exit 7"], False)
    ]


@pytest.mark.parametrize("code", [0, 1, 126, 127, 137, 255])
async def test_exit_codes(node: Harness, code: int) -> None:
    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        return ExitStatus(code)

    node.provider.run_exec = run
    async with connect(node.server.port, node.context(), build_path("x")) as client:
        await client.open("error", "stdout", "stderr")
        assert await client.finish() == CommandStatus(code)


@pytest.mark.parametrize("code", [256, -1])
async def test_impossible_exit_codes_are_no_success(node: Harness, code: int) -> None:
    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        return ExitStatus(code)

    node.provider.run_exec = run
    async with connect(node.server.port, node.context(), build_path("x")) as client:
        await client.open("error", "stdout", "stderr")
        status = await client.finish()
        assert status.code is None
        assert str(code) in status.message


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RequestError(404, "no such container"), CommandStatus(None, "no such container", 404)),
        (RetryError("remote is away"), CommandStatus(None, "remote is away")),
        (
            TimeoutError(),
            CommandStatus(None, "error executing command in container: internal error"),
        ),
    ],
)
async def test_provider_failures_are_told(
    node: Harness, error: Exception, status: CommandStatus
) -> None:
    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        raise error

    node.provider.run_exec = run
    async with connect(node.server.port, node.context(), build_path("x")) as client:
        await client.open("error", "stdout", "stderr")
        assert await client.finish() == status


async def test_an_unknown_end_is_no_success(node: Harness) -> None:
    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        return ExitStatus(None, "connection to the remote side lost")

    node.provider.run_exec = run
    async with connect(node.server.port, node.context(), build_path("x")) as client:
        await client.open("error", "stdout", "stderr")
        assert (await client.finish()).message == "connection to the remote side lost"


async def test_stdin_reaches_the_command_and_so_does_its_end(node: Harness) -> None:
    node.provider.run_exec = cat
    path = build_path("cat", streams=["input", "output"])
    sent = bytes(range(256)) * 1200
    async with connect(node.server.port, node.context(), path) as client:
        await client.open("error", "stdin", "stdout")
        client.send("stdin", sent, fin=True)
        assert await client.finish() == CommandStatus(0)
        assert client.output["stdout"] == sent
        assert client.finished == ["stdout", "error", "stdin"]


async def test_stdin_that_ends_before_the_start(node: Harness) -> None:
    node.provider.run_exec = cat
    path = build_path("cat", streams=["input", "output"])
    async with connect(node.server.port, node.context(), path) as client:
        await client.open("error", "stdin")
        client.send("stdin", b"early", fin=True)
        await client.open("stdout")
        await client.finish()
        assert client.output["stdout"] == b"early"


async def test_unwanted_streams(node: Harness) -> None:
    async def run(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        assert (streams.stdin, streams.stdout, streams.stderr) == (False, True, False)
        assert await streams.read_stdin() == b""
        assert await streams.read_stdin() == b""
        await streams.write_stderr(b"nobody wants this")
        await streams.write_stdout(b"x")
        return ExitStatus(0)

    node.provider.run_exec = run
    async with connect(
        node.server.port, node.context(), build_path("x", streams=["output"])
    ) as client:
        await client.open("error", "stdout")
        assert await client.finish() == CommandStatus(0)
        assert client.output["stdout"] == b"x"


async def test_terminal(node: Harness) -> None:
    sizes: list[TerminalSize] = []

    async def run(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        assert not streams.stderr
        sizes.extend([await streams.wait_resize() for _ in range(3)])
        return ExitStatus(5)

    node.provider.run_exec = run
    path = build_path("sh", streams=["input", "output", "error"], tty=True)
    async with connect(node.server.port, node.context(), path) as client:
        await client.open("error", "stdin", "resize")
        client.send("resize", serialize_resize(101, 31))
        await client.open("stdout")
        client.send("resize", serialize_resize(100, 30) + serialize_resize(120, 40))
        while not client.finished:
            await client.read()
        client.send("resize", serialize_resize(1, 1))  # after the end: ignored
        assert await client.finish() == CommandStatus(5)
    assert sizes == [TerminalSize(101, 31), TerminalSize(100, 30), TerminalSize(120, 40)]
    assert node.provider.exec_requests[0][3]


async def test_a_flood_of_sizes_holds_up_nothing_and_the_last_one_wins(node: Harness) -> None:
    flooded = asyncio.Event()
    last = TerminalSize(0, 0)

    async def run(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        nonlocal last
        await streams.write_stdout(await streams.read_stdin())  # the terminal isn't looked at yet
        await flooded.wait()
        while last != TerminalSize(9999, 9999):
            last = await streams.wait_resize()
        return ExitStatus(0)

    node.provider.run_exec = run
    path = build_path("sh", streams=["input", "output"], tty=True)
    async with connect(node.server.port, node.context(), path) as client:
        await client.open("error", "stdin", "stdout", "resize")
        for number in range(1, 10_000):
            client.send("resize", serialize_resize(number, number))
        client.send("stdin", b"typed")
        while client.output["stdout"] != b"typed":
            await client.read()
        flooded.set()
        assert await client.finish() == CommandStatus(0)
    assert last == TerminalSize(9999, 9999)


async def test_no_output_is_lost_to_a_slow_reader(node: Harness) -> None:
    output = bytes(range(256)) * 65536  # 16 MiB, beyond what sockets hold
    ended = asyncio.Event()

    async def run(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        await streams.write_stdout(output)
        ended.set()
        return ExitStatus(3)

    node.provider.run_exec = run
    async with connect(node.server.port, node.context(), build_path("x")) as client:
        await client.open("error", "stdout", "stderr")
        await asyncio.sleep(5)
        assert not ended.is_set()  # back-pressure reached the command
        assert await client.finish() == CommandStatus(3)
        assert client.output["stdout"] == output


async def test_command_ends_while_stdin_still_comes(node: Harness) -> None:
    async def run(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        await streams.read_stdin()
        await streams.write_stdout(b"enough")
        return ExitStatus(0)

    node.provider.run_exec = run
    path = build_path("head", streams=["input", "output"])
    async with connect(node.server.port, node.context(), path) as client:
        await client.open("error", "stdin", "stdout")
        for _ in range(64):
            client.send("stdin", bytes(65536))
        client.send("stdin", fin=True)
        assert await client.finish() == CommandStatus(0)
        assert client.output["stdout"] == b"enough"


async def test_stdin_without_end_does_not_keep_an_ended_command(node: Harness) -> None:
    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        return ExitStatus(0)

    node.provider.run_exec = run
    path = build_path("true", streams=["input", "output"])
    async with connect(node.server.port, node.context(), path) as client:
        await client.open("error", "stdin", "stdout")

        async def yes() -> None:
            while not client.going_away:
                client.send("stdin", b"y\n" * 100)
                await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            group.create_task(yes())
            assert await client.finish() == CommandStatus(0)


async def test_stdin_buffer_is_bounded(node: Harness) -> None:
    go = asyncio.Event()

    async def run(streams: CommandStreams, command: Sequence[str]) -> ExitStatus:
        await go.wait()
        return await cat(streams, command)

    node.provider.run_exec = run
    path = build_path("cat", streams=["input", "output"])
    sent = bytes(range(256)) * 65536  # 16 MiB
    async with connect(node.server.port, node.context(), path) as client:
        await client.open("error", "stdin", "stdout")

        async def send() -> None:
            for start in range(0, len(sent), 32768):
                client.send("stdin", sent[start : start + 32768])
                await client.writer.drain()
            client.send("stdin", fin=True)

        async with asyncio.TaskGroup() as group:
            sending = group.create_task(send())
            await asyncio.sleep(5)
            assert not sending.done()  # back-pressure reached the client
            go.set()
            assert await client.finish() == CommandStatus(0)
        assert client.output["stdout"] == sent


async def test_ping_is_answered_while_output_is_blocked(node: Harness) -> None:
    async def run(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        await streams.write_stdout(bytes(16 << 20))
        return ExitStatus(0)

    node.provider.run_exec = run
    async with connect(node.server.port, node.context(), build_path("x")) as client:
        await client.open("error", "stdout", "stderr")
        await asyncio.sleep(1)
        client.spdy.send_ping()
        client.flush()
        assert await client.finish() == CommandStatus(0)
        assert client.pings_answered == 1
        assert len(client.output["stdout"]) == 16 << 20


class Endless:
    """A command that runs until it's cancelled."""

    def __init__(self, *, writes: bool) -> None:
        self.writes = writes
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        self.started.set()
        try:
            while True:
                if self.writes:
                    await streams.write_stdout(bytes(32768))
                else:
                    await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest.mark.parametrize("way", ["close", "abort", "go_away", "reset", "rubbish"])
@pytest.mark.parametrize("writes", [True, False])
async def test_a_client_that_leaves_cancels_the_command(
    node: Harness, way: str, writes: bool
) -> None:
    command = Endless(writes=writes)
    node.provider.run_exec = command
    async with connect(node.server.port, node.context(), build_path("x")) as client:
        await client.open("error", "stdout", "stderr")
        await command.started.wait()
        match way:
            case "close":
                client.writer.close()
            case "abort":
                client.vanish()
            case "go_away":
                client.spdy.send_go_away()
            case "reset":
                client.spdy.reset_stream(client.ids["error"])
            case _:
                client.writer.write(b"\x80\x63rubbish")
        if way in ("go_away", "reset"):
            client.flush()
        async with asyncio.timeout(3):
            await command.cancelled.wait()
            while len(node.server.streams):
                await asyncio.sleep(0.1)


async def test_a_client_that_leaves_while_its_stdin_is_stuck(node: Harness) -> None:
    command = Endless(writes=False)
    node.provider.run_exec = command
    path = build_path("sleep", streams=["input", "output"])
    async with connect(node.server.port, node.context(), path) as client:
        await client.open("error", "stdin", "stdout")
        client.send("stdin", bytes(3 << 20))
        await asyncio.sleep(1)
        client.vanish()
        async with asyncio.timeout(5):
            await command.cancelled.wait()


async def test_streams_that_never_come(node: Harness) -> None:
    node.provider.run_exec = cat
    loop = asyncio.get_running_loop()
    async with connect(node.server.port, node.context(), build_path("x")) as client:
        await client.open("error", "stdout")
        start = loop.time()
        while not client.eof:
            await client.read()
        assert client.going_away
        assert 25 < loop.time() - start < 35
    assert not node.provider.exec_requests


async def test_idle_exec_lives_on_pings_but_not_for_ever(node: Harness) -> None:
    command = Endless(writes=False)
    node.provider.run_exec = command
    loop = asyncio.get_running_loop()
    async with connect(node.server.port, node.context(), build_path("x")) as client:
        await client.open("error", "stdout", "stderr")
        start = loop.time()

        async def ping() -> None:
            while not client.going_away:
                client.spdy.send_ping()
                client.flush()
                await asyncio.sleep(600)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(ping())
            status = await client.finish()
            task.cancel()
        assert status == CommandStatus(None, "no data passed for 14400 seconds")
        assert 14390 < loop.time() - start < 14410
        assert client.pings_answered >= 23


async def test_a_client_that_never_closes_is_left_in_the_end(node: Harness) -> None:
    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        return ExitStatus(0)

    node.provider.run_exec = run
    loop = asyncio.get_running_loop()
    async with connect(node.server.port, node.context(), build_path("x")) as client:
        await client.open("error", "stdout", "stderr")
        while not client.going_away:
            await client.read()
        start = loop.time()
        while not client.eof:
            await client.read()
        assert 55 < loop.time() - start < 130  # a late acknowledgement counts as life


async def test_old_protocols_are_spoken(node: Harness) -> None:
    async def run(_streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        return ExitStatus(4)

    node.provider.run_exec = run
    async with connect(
        node.server.port, node.context(), build_path("x"), protocols=["channel.k8s.io"]
    ) as client:
        await client.open("error", "stdout", "stderr")
        await client.finish()
        assert client.output["error"].endswith(b"exit status 4")


async def test_a_server_that_stops_tells_its_clients(tmp_path: Path) -> None:
    async with serve(tmp_path) as node:
        command = Endless(writes=False)
        node.provider.run_exec = command
        async with connect(node.server.port, node.context(), build_path("x")) as client:
            await client.open("error", "stdout", "stderr")
            await command.started.wait()

            async def stop() -> None:
                node.server.streams.interrupt_all("the node is shutting down")

            async with asyncio.TaskGroup() as group:
                group.create_task(stop())
                status = await client.finish()
            assert status == CommandStatus(None, "the node is shutting down")
            assert command.cancelled.is_set()
