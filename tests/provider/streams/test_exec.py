"""Commands through a server that plays the remote API server's side of a WebSocket."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeAlias

import pytest
from aiohttp import WSMsgType, web

from provider.streams.relay import RemoteStreams
from tests.fakes.api_server import ApiCall, FakeApiServer
from tests.provider.streams.caller import Caller
from tests.provider.streams.far_side import PlayCommand, Turn, over_spdy, play_command
from vkubelet.errors import RequestError
from vkubelet.interface import ExitStatus, TerminalSize
from vkubelet.kube.objects import NamespacedName
from vkubelet.streaming.channels import CommandStatus, serialize_status
from vkubelet.streaming.remotecommand import (
    Phase,
    RemoteCommandServer,
    Resized,
    StdinReceived,
    StreamOptions,
    StreamType,
)

KEY = NamespacedName("shop-home", "web")

Play: TypeAlias = Callable[[web.WebSocketResponse], Awaitable[None]]


async def run(
    remote: RemoteStreams, caller: Caller, command: Sequence[str] = ("true",), *, tty: bool = False
) -> ExitStatus:
    return await remote.exec(KEY, "main", command, caller, tty=tty, home_namespace="shop")


def serve(
    server: FakeApiServer, play: Play, *, protocol: str = "v5.channel.k8s.io"
) -> asyncio.Event:
    """Play the far side of each exec; the event is set when it's over."""
    over = asyncio.Event()

    async def answer(call: ApiCall) -> web.StreamResponse:
        if protocol not in call.headers["Sec-WebSocket-Protocol"]:
            return web.Response(status=403)
        socket = web.WebSocketResponse(protocols=(protocol,), compress=False, max_msg_size=0)
        await socket.prepare(call.request)
        try:
            await play(socket)
            await socket.close()
        finally:
            over.set()
        return socket

    server.handle("get pods/exec", answer)
    return over


def ends_with(code: int, *, stdout: bytes = b"", stderr: bytes = b"") -> Play:
    async def play(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x01")
        if stdout:
            await socket.send_bytes(b"\x01" + stdout)
        if stderr:
            await socket.send_bytes(b"\x02" + stderr)
        await socket.send_bytes(b"\x03" + serialize_status(CommandStatus(code)))

    return play


async def messages(socket: web.WebSocketResponse) -> AsyncIterator[bytes]:
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            yield message.data


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
@pytest.mark.parametrize("code", [0, 1, 126, 127, 137, 255])
async def test_exit_codes(
    server: FakeApiServer, remote: RemoteStreams, code: int, protocol: str
) -> None:
    serve(server, ends_with(code, stdout=b"out", stderr=b"err"), protocol=protocol)
    caller = Caller()
    assert await run(remote, caller) == ExitStatus(code)
    assert (caller.output, caller.errors) == (b"out", b"err")


async def test_request(server: FakeApiServer, remote: RemoteStreams) -> None:
    serve(server, ends_with(0))
    await run(remote, Caller(stdin=True), ["sh", "-c", "echo 'ü &'; exit 7"])
    (call,) = server.calls("get pods/exec")
    assert call.path == "/api/v1/namespaces/shop-home/pods/web/exec"
    query = call.request.query
    assert query.getall("command") == ["sh", "-c", "echo 'ü &'; exit 7"]
    assert {name: query[name] for name in query if name != "command"} == {
        "container": "main",
        "stdin": "true",
        "stdout": "true",
        "stderr": "true",
    }
    # Beside it v4 might be chosen, and `true` would run without ever seeing the end of its stdin.
    assert call.headers["Sec-WebSocket-Protocol"] == "v5.channel.k8s.io"


@pytest.mark.parametrize("tty", [False, True])
async def test_v4_will_do_without_an_end_of_stdin(
    server: FakeApiServer, remote: RemoteStreams, tty: bool
) -> None:
    serve(server, ends_with(0), protocol="v4.channel.k8s.io")
    assert await run(remote, Caller(stdin=tty), tty=tty) == ExitStatus(0)
    (call,) = server.calls("get pods/exec")
    offered = call.headers["Sec-WebSocket-Protocol"].replace(" ", "")
    assert offered == "v5.channel.k8s.io,v4.channel.k8s.io"


async def test_terminal_has_no_stderr(server: FakeApiServer, remote: RemoteStreams) -> None:
    serve(server, ends_with(0))
    await run(remote, Caller(stderr=True), tty=True)
    (call,) = server.calls("get pods/exec")
    assert call.query["tty"] == "true"
    assert "stderr" not in call.query
    assert "stdin" not in call.query


async def test_big_output(server: FakeApiServer, remote: RemoteStreams) -> None:
    async def play(socket: web.WebSocketResponse) -> None:
        for number in range(600):
            await socket.send_bytes(b"\x01" + bytes([number % 256]) * 32 * 1024)
        await socket.send_bytes(b"\x03" + serialize_status(CommandStatus(0)))

    serve(server, play)
    caller = Caller()
    assert await run(remote, caller) == ExitStatus(0)
    assert caller.output == b"".join(bytes([number % 256]) * 32 * 1024 for number in range(600))


async def test_stdin_and_its_end(server: FakeApiServer, remote: RemoteStreams) -> None:
    async def cat(socket: web.WebSocketResponse) -> None:
        async for message in messages(socket):
            assert len(message) <= 1 + 32 * 1024
            if message == b"\xff\x00":
                break
            await socket.send_bytes(b"\x01" + message[1:])
        await socket.send_bytes(b"\x03" + serialize_status(CommandStatus(0)))

    serve(server, cat)
    caller = Caller(stdin=True)
    caller.feed(b"one", b"x" * 100_000, b"two", b"")
    assert await run(remote, caller) == ExitStatus(0)
    assert caller.output == b"one" + b"x" * 100_000 + b"two"


@pytest.mark.virtual_time
async def test_v4_is_the_last_resort_for_the_end_of_stdin(
    server: FakeApiServer, remote: RemoteStreams
) -> None:
    received: list[bytes] = []

    async def play(socket: web.WebSocketResponse) -> None:
        received.append(await socket.receive_bytes())
        await socket.send_bytes(b"\x03" + serialize_status(CommandStatus(0)))
        async for message in messages(socket):
            received.append(message)  # noqa: PERF401 - kept if the client goes

    over = serve(server, play, protocol="v4.channel.k8s.io")
    server.handle("create pods/exec", lambda _: web.Response(status=400, text="what?"))
    caller = Caller(stdin=True)
    caller.feed(b"one", b"")
    assert await run(remote, caller) == ExitStatus(0)
    await over.wait()
    assert received == [b"\x00one"]


async def test_sizes(server: FakeApiServer, remote: RemoteStreams) -> None:
    sizes: list[object] = []

    async def play(socket: web.WebSocketResponse) -> None:
        async for message in messages(socket):
            assert message[0] == 4
            sizes.append(json.loads(message[1:]))
            if len(sizes) == 2:
                break
        await socket.send_bytes(b"\x03" + serialize_status(CommandStatus(0)))

    serve(server, play)
    caller = Caller(stdin=True)
    caller.sizes.put_nowait(TerminalSize(81, 25))
    caller.sizes.put_nowait(TerminalSize(80, 24))
    assert await run(remote, caller, tty=True) == ExitStatus(0)
    assert sizes == [{"Width": 81, "Height": 25}, {"Width": 80, "Height": 24}]


async def test_command_ends_while_stdin_is_open(
    server: FakeApiServer, remote: RemoteStreams
) -> None:
    serve(server, ends_with(3))
    caller = Caller(stdin=True)
    assert await run(remote, caller) == ExitStatus(3)
    reads = caller.stdin_reads
    caller.feed(b"for the next one")
    await asyncio.sleep(0)
    assert caller.stdin_reads == reads
    assert caller.pending.qsize() == 1


async def test_output_after_the_status_counts(server: FakeApiServer, remote: RemoteStreams) -> None:
    async def play(socket: web.WebSocketResponse) -> None:
        status = serialize_status(CommandStatus(7))
        await socket.send_bytes(b"\x03" + status[:10])
        await socket.send_bytes(b"\x03" + status[10:])
        await socket.send_bytes(b"\x01tail")

    serve(server, play)
    caller = Caller()
    assert await run(remote, caller) == ExitStatus(7)
    assert caller.output == b"tail"


@pytest.mark.virtual_time
async def test_server_that_never_closes(server: FakeApiServer, remote: RemoteStreams) -> None:
    async def play(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x03" + serialize_status(CommandStatus(0)))
        await socket.receive()

    over = serve(server, play)
    assert await run(remote, Caller()) == ExitStatus(0)
    assert asyncio.get_running_loop().time() == pytest.approx(10, abs=0.5)
    await over.wait()


@pytest.mark.virtual_time
async def test_idle_command_goes_on(server: FakeApiServer, remote: RemoteStreams) -> None:
    async def play(socket: web.WebSocketResponse) -> None:
        await socket.receive()

    serve(server, play)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(remote, Caller(stdin=True)))
        await asyncio.sleep(3600)
        assert not running.done()
        running.cancel()


async def test_strange_messages_are_ignored(server: FakeApiServer, remote: RemoteStreams) -> None:
    async def play(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"")
        await socket.send_bytes(b"\x09data")
        await socket.send_bytes(b"\x00data")
        await socket.send_bytes(b"\xff\x01")
        await socket.send_str("text")
        await socket.ping()
        await socket.send_bytes(b"\x02")
        await socket.send_bytes(b"\x03" + serialize_status(CommandStatus(0)))

    serve(server, play)
    caller = Caller()
    assert await run(remote, caller) == ExitStatus(0)
    assert (caller.output, caller.errors) == (b"", b"")


async def test_close_without_a_status(server: FakeApiServer, remote: RemoteStreams) -> None:
    async def play(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x01half")
        await socket.close(code=1011, message=b"backend is gone")

    serve(server, play)
    caller = Caller()
    status = await run(remote, caller)
    assert caller.output == b"half"
    assert status.code is None
    assert status.message.endswith("closed with 1011 backend is gone")


async def test_connection_cut_without_a_status(
    server: FakeApiServer, remote: RemoteStreams
) -> None:
    async def answer(call: ApiCall) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(call.request)
        await socket.send_bytes(b"\x01half")
        assert call.request.transport is not None
        call.request.transport.abort()
        return socket

    server.handle("get pods/exec", answer)
    status = await run(remote, Caller(stdin=True))
    assert status.code is None
    assert "no exit status from the remote cluster" in status.message


async def test_what_came_before_a_cut_counts_whatever_is_sent_meanwhile(
    server: FakeApiServer, remote: RemoteStreams
) -> None:
    caller = Caller(stdin=True)

    async def answer(call: ApiCall) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(call.request)
        await socket.receive()  # by now the caller's next input is awaited
        await socket.send_bytes(b"\x01all")
        await socket.send_bytes(b"\x03" + serialize_status(CommandStatus(3)))
        assert call.request.transport is not None
        call.request.transport.abort()
        caller.feed(b"more", b"and more", b"and more")
        return socket

    server.handle("get pods/exec", answer)
    caller.feed(b"first")
    assert await run(remote, caller) == ExitStatus(3)
    assert caller.output == b"all"


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"not JSON", "not JSON"),
        (
            json.dumps(
                {
                    "status": "Failure",
                    "message": "Internal error occurred: no such container in web_shop-home(1)",
                    "code": 500,
                }
            ).encode(),
            "no such container in web_shop(1)",
        ),
    ],
)
async def test_failure_instead_of_an_exit_code(
    server: FakeApiServer, remote: RemoteStreams, sent: bytes, message: str
) -> None:
    async def play(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x03" + sent)

    serve(server, play)
    assert await run(remote, Caller()) == ExitStatus(None, message)


async def test_endless_status_is_cut(server: FakeApiServer, remote: RemoteStreams) -> None:
    async def play(socket: web.WebSocketResponse) -> None:
        for _ in range(100):
            await socket.send_bytes(b"\x03" + b"x" * 10_000)

    serve(server, play)
    status = await run(remote, Caller())
    assert status == ExitStatus(None, "x" * 64 * 1024)


@pytest.mark.parametrize(
    ("status", "text", "answer"),
    [
        (
            400,
            "container c is not valid for pod web",
            (400, "container c is not valid for pod web"),
        ),
        (404, 'pods "web" not found', (404, 'pods "web" not found')),
        (
            403,
            'cannot create "pods/exec" in "shop-home"',
            (403, 'the remote cluster refuses: cannot create "pods/exec" in "shop"'),
        ),
        (
            500,
            "Internal error occurred: dial failed",
            (500, "the remote cluster fails: dial failed"),
        ),
    ],
)
async def test_refused_handshakes(
    server: FakeApiServer, remote: RemoteStreams, status: int, text: str, answer: tuple[int, str]
) -> None:
    server.fail_next("get pods/exec", status, message=text)
    with pytest.raises(RequestError) as caught:
        await run(remote, Caller(stdin=True))
    assert (caught.value.code, caught.value.message) == answer


async def test_unreachable(server: FakeApiServer, remote: RemoteStreams) -> None:
    await server.stop()
    with pytest.raises(RequestError, match="the remote cluster can't be reached") as caught:
        await run(remote, Caller())
    assert caught.value.code == 500


async def test_cancelling_ends_the_far_side(server: FakeApiServer, remote: RemoteStreams) -> None:
    started = asyncio.Event()

    async def play(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x01started")
        started.set()
        assert (await socket.receive()).type is WSMsgType.CLOSE

    over = serve(server, play)
    caller = Caller(stdin=True)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(remote, caller))
        await started.wait()
        running.cancel()
    await over.wait()


async def test_slow_caller_pushes_back(server: FakeApiServer, remote: RemoteStreams) -> None:
    sent = 0

    async def play(socket: web.WebSocketResponse) -> None:
        nonlocal sent
        for _ in range(1000):
            await socket.send_bytes(b"\x01" + b"x" * 32 * 1024)
            sent += 1
        await socket.send_bytes(b"\x03" + serialize_status(CommandStatus(0)))

    serve(server, play)
    caller = Caller()
    caller.unblock.clear()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(remote, caller))
        before = -1
        while sent != before or not sent:
            before = sent
            await asyncio.sleep(0.05)
        assert sent < 1000
        caller.unblock.set()
        assert await running == ExitStatus(0)
    assert len(caller.output) == 1000 * 32 * 1024


# Attaching, and the fallback to SPDY.


async def test_attach(server: FakeApiServer, remote: RemoteStreams) -> None:
    async def answer(call: ApiCall) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(call.request)
        await socket.send_bytes(b"\x01out")
        await socket.send_bytes(b"\x03" + serialize_status(CommandStatus(0)))
        await socket.close()
        return socket

    server.handle("get pods/attach", answer)
    caller = Caller(stderr=False)
    status = await remote.attach(KEY, "main", caller, tty=False, home_namespace="shop")
    assert (status, caller.output) == (ExitStatus(0), b"out")
    (call,) = server.calls("get pods/attach")
    assert call.query == {"container": "main", "stdout": "true"}


def refuse_websockets(server: FakeApiServer, code: int, *, text: str = "") -> None:
    server.handle("get pods/exec", lambda _: web.Response(status=code, text=text))


def serve_spdy(server: FakeApiServer, options: StreamOptions, play: PlayCommand) -> None:
    hook = over_spdy(play_command(options, play), "v4.channel.k8s.io")
    server.handle("create pods/exec", hook)


@pytest.mark.parametrize("code", [200, 400, 403, 404, 426, 502])
async def test_falls_back_to_spdy(server: FakeApiServer, remote: RemoteStreams, code: int) -> None:
    async def play(core: RemoteCommandServer, turn: Turn) -> None:
        while core.phase is not Phase.RUNNING:
            await turn()
        core.send_output(StreamType.STDOUT, b"out")
        core.send_output(StreamType.STDERR, b"err")
        core.send_status(CommandStatus(7))

    refuse_websockets(server, code, text="no such thing here")
    serve_spdy(server, StreamOptions(stdout=True, stderr=True), play)
    caller = Caller()
    assert await run(remote, caller, ["a", "b c"]) == ExitStatus(7)
    assert (caller.output, caller.errors) == (b"out", b"err")
    (call,) = server.calls("create pods/exec")
    assert call.request.query.getall("command") == ["a", "b c"]
    assert call.request.headers.getall("X-Stream-Protocol-Version")[0] == "v4.channel.k8s.io"


async def test_end_of_stdin_over_spdy(server: FakeApiServer, remote: RemoteStreams) -> None:
    received = bytearray()

    async def cat(core: RemoteCommandServer, turn: Turn) -> None:
        while not core.stdin_closed:
            for event in await turn():
                if isinstance(event, StdinReceived):
                    received.extend(event.data)
        core.send_output(StreamType.STDOUT, bytes(received))
        core.send_status(CommandStatus(0))

    serve(server, ends_with(9), protocol="v4.channel.k8s.io")  # it would, if it were offered
    serve_spdy(server, StreamOptions(stdin=True, stdout=True, stderr=True), cat)
    caller = Caller(stdin=True)
    caller.feed(b"one", b"x" * 200_000, b"two", b"")
    assert await run(remote, caller) == ExitStatus(0)
    assert caller.output == b"one" + b"x" * 200_000 + b"two"


async def test_sizes_over_spdy(server: FakeApiServer, remote: RemoteStreams) -> None:
    sizes: list[object] = []

    async def play(core: RemoteCommandServer, turn: Turn) -> None:
        while len(sizes) < 2:
            sizes.extend(event for event in await turn() if isinstance(event, Resized))
        core.send_status(CommandStatus(0))

    refuse_websockets(server, 403)
    serve_spdy(server, StreamOptions(stdin=True, stdout=True, tty=True), play)
    caller = Caller(stdin=True)
    caller.sizes.put_nowait(TerminalSize(81, 25))
    caller.sizes.put_nowait(TerminalSize(80, 24))
    assert await run(remote, caller, tty=True) == ExitStatus(0)
    assert sizes == [Resized(81, 25), Resized(80, 24)]


async def test_cut_over_spdy(server: FakeApiServer, remote: RemoteStreams) -> None:
    async def play(core: RemoteCommandServer, turn: Turn) -> None:
        while core.phase is not Phase.RUNNING:
            await turn()
        core.send_output(StreamType.STDOUT, b"half")
        await asyncio.sleep(0)
        (call,) = server.calls("create pods/exec")
        assert call.request.transport is not None
        call.request.transport.close()

    refuse_websockets(server, 403)
    serve_spdy(server, StreamOptions(stdout=True, stderr=True), play)
    status = await run(remote, Caller())
    assert status.code is None
    assert "no exit status from the remote cluster: " in status.message


async def test_cancelling_ends_the_far_side_over_spdy(
    server: FakeApiServer, remote: RemoteStreams
) -> None:
    started, over = asyncio.Event(), asyncio.Event()

    async def play(core: RemoteCommandServer, turn: Turn) -> None:
        while core.phase is not Phase.DISCONNECTED:
            await turn()
            if core.phase is Phase.RUNNING:
                started.set()
        over.set()

    refuse_websockets(server, 403)
    serve_spdy(server, StreamOptions(stdin=True, stdout=True, stderr=True), play)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(remote, Caller(stdin=True)))
        await started.wait()
        running.cancel()
    await over.wait()


async def test_refused_by_all(server: FakeApiServer, remote: RemoteStreams) -> None:
    refuse_websockets(server, 403)
    server.handle("create pods/exec", lambda _: web.Response(status=403, text="nothing goes"))
    with pytest.raises(RequestError) as caught:
        await run(remote, Caller(stdin=True))
    assert caught.value.code == 403
    assert len(server.calls("get pods/exec")) == 2


async def test_a_proxy_that_strips_the_upgrade(
    server: FakeApiServer, remote: RemoteStreams
) -> None:
    server.fail_next("get pods/exec", 400, message="Upgrade request required")
    server.fail_next("create pods/exec", 400, message="Upgrade request required")
    with pytest.raises(RequestError, match="Upgrade request required") as caught:
        await run(remote, Caller())
    assert caught.value.code == 400
    assert server.calls("create pods/exec")


async def test_spdy_without_a_protocol(server: FakeApiServer, remote: RemoteStreams) -> None:
    async def play(core: RemoteCommandServer, turn: Turn) -> None:
        await turn()

    refuse_websockets(server, 404, text="404 page not found")
    hook = over_spdy(play_command(StreamOptions(stdout=True, stderr=True), play), "")
    server.handle("create pods/exec", hook)
    with pytest.raises(RequestError, match="404 page not found"):
        await run(remote, Caller())
