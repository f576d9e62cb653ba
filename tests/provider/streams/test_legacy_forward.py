"""Servers that know neither tunnels nor SPDY."""

import pytest
from aiohttp import WSMsgType, web

from provider.streams.relay import RemoteStreams
from tests.fakes.api_server import ApiCall, FakeApiServer
from tests.provider.streams.forwards import connect, read_all
from vkubelet.errors import RequestError


async def test_old_servers(server: FakeApiServer, running: RemoteStreams) -> None:
    asked: list[str] = []

    async def answer(call: ApiCall) -> web.StreamResponse:
        protocol = call.headers["Sec-WebSocket-Protocol"]
        asked.append(protocol)
        if protocol != "v4.channel.k8s.io":
            return web.Response(status=403)
        port = int(call.query["ports"])
        socket = web.WebSocketResponse(protocols=(protocol,))
        await socket.prepare(call.request)
        prefix = port.to_bytes(2, "little")
        await socket.send_bytes(b"\x00" + prefix)
        await socket.send_bytes(b"\x01" + prefix)
        if port == 81:
            await socket.send_bytes(b"\x01connection refused")
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                await socket.send_bytes(message.data)
                if message.data == b"\x00end":
                    await socket.close()
        return socket

    server.handle("get pods/portforward", answer)
    server.handle("create pods/portforward", lambda _: web.Response(status=400))
    async with connect(running) as stream:
        await stream.write(b"x" * 100_000)
        read = 0
        while read < 100_000:
            read += len(await stream.read())
        await stream.write_eof()
        await stream.write(b"end")
        assert await read_all(stream) == b"end"
    async with connect(running, 81) as stream:
        with pytest.raises(RequestError, match="connection refused"):
            await stream.read()
    assert asked == ["SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io"] * 2


async def test_refused_by_all(server: FakeApiServer, running: RemoteStreams) -> None:
    server.handle("get pods/portforward", lambda _: web.Response(status=403, text="no sockets"))
    server.handle("create pods/portforward", lambda _: web.Response(status=403, text="no SPDY"))
    with pytest.raises(RequestError, match="the remote cluster refuses: no sockets"):
        async with connect(running):
            pass
    server.handle("create pods/portforward", lambda _: web.Response(status=503, text="down"))
    with pytest.raises(RequestError, match="the remote cluster fails: down"):
        async with connect(running):
            pass
