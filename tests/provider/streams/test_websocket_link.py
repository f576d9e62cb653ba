"""Messages of a command's WebSocket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import WSMsgType, web

from provider.streams.websocket_link import WebSocketLink
from tests.fakes.api_server import ApiCall, FakeApiServer
from vkubelet.interface import TerminalSize
from vkubelet.streaming.channels import Channel, CommandStatus


@asynccontextmanager
async def open_link(
    *messages: bytes | str, protocol: str = "v5.channel.k8s.io"
) -> AsyncIterator[tuple[WebSocketLink, list[bytes]]]:
    """A link to a server that sends these, takes what comes, and closes at `close`."""
    taken: list[bytes] = []

    async def answer(call: ApiCall) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=(protocol,), max_msg_size=0)
        await socket.prepare(call.request)
        for message in messages:
            if isinstance(message, bytes):
                await socket.send_bytes(message)
            elif message == "close":
                await socket.close(code=1000, message=b"bye")
            else:
                await socket.send_str(message)
        async for received in socket:
            if received.type is WSMsgType.BINARY:
                taken.append(received.data)  # noqa: PERF401 - looked at before the end
        return socket

    async with FakeApiServer() as server, server.client("remote") as client:
        server.handle("get pods/exec", answer)
        path = "/api/v1/namespaces/a/pods/p/exec"
        async with client.connect_websocket(path, [], protocols=[protocol]) as socket:
            yield WebSocketLink(socket), taken


async def test_what_comes() -> None:
    status = b'{"status":"Success"}'
    async with open_link(
        b"\x01", b"\x01out", b"\x02err", b"", "text", b"\x09x", b"\x03" + status, "close"
    ) as (link, _):
        received: list[tuple[Channel, bytes]] = []
        while (part := await link.receive()) is not None:
            received += part
        assert received == [(Channel.STDOUT, b"out"), (Channel.STDERR, b"err")]
        assert link.status == CommandStatus(0)
        assert link.ending == "closed with 1000 bye"
        with pytest.raises(ConnectionResetError):
            await link.send_stdin(b"x")


@pytest.mark.parametrize(("protocol", "end"), [("v5", [b"\xff\x00"]), ("v4", [])])
async def test_what_is_sent(protocol: str, end: list[bytes]) -> None:
    async with open_link(protocol=f"{protocol}.channel.k8s.io") as (link, taken):
        await link.send_stdin(b"x" * 70_000)
        await link.send_size(TerminalSize(80, 24))
        await link.end_stdin()
    data = [message for message in taken if message[0] == 0]
    assert [len(message) for message in data] == [32 * 1024 + 1, 32 * 1024 + 1, 4464 + 1]
    assert taken[len(data) :] == [b'\x04{"Width":80,"Height":24}\n', *end]
