"""The far side of port-forwards and SPDY commands: an API server's, as far as clients see it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from aiohttp import WSMsgType, web

from tests.fakes.api_server import ApiCall
from vkubelet.server.hijack import hijack
from vkubelet.streaming.channels import PROTOCOL_V4
from vkubelet.streaming.portforward import (
    TUNNEL_PROTOCOL,
    ForwardEnded,
    ForwardOpened,
    ForwardReceived,
    ForwardReset,
    PortForwardServer,
)
from vkubelet.streaming.remotecommand import RemoteCommandServer, StreamOptions


class Wire(Protocol):
    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...


class _HijackedProtocol(asyncio.StreamReaderProtocol):
    def __init__(self, reader: asyncio.StreamReader, lost: asyncio.Event) -> None:
        super().__init__(reader)
        self._lost = lost

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lost.set()


class SpdyWire:
    """An upgraded connection."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.Transport) -> None:
        self._reader = reader
        self._transport = transport

    async def read(self) -> bytes:
        with contextlib.suppress(ConnectionError):
            return await self._reader.read(65536)
        return b""

    async def write(self, data: bytes) -> None:
        self._transport.write(data)


class TunnelWire:
    """A WebSocket whose messages are bytes; they are cut small, and some are empty."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        message = await self._socket.receive()
        return message.data if message.type is WSMsgType.BINARY else b""

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send_bytes(b"")
            await self._socket.send_bytes(data[:7])
            await self._socket.send_bytes(data[7:])


Serve = Callable[[Wire], Awaitable[None]]


def over_spdy(serve: Serve, protocol: str) -> Callable[[ApiCall], Awaitable[web.StreamResponse]]:
    """A hook that upgrades to SPDY and serves."""

    async def answer(call: ApiCall) -> web.StreamResponse:
        assert call.headers["Upgrade"] == "SPDY/3.1"
        lost = asyncio.Event()
        reader = asyncio.StreamReader()
        headers = {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": protocol}
        wire_protocol = _HijackedProtocol(reader, lost)
        async with hijack(call.request, headers, wire_protocol, lost) as response:
            assert call.request.transport is not None
            await serve(SpdyWire(reader, call.request.transport))
            await lost.wait()
        return response

    return answer


def over_tunnel(serve: Serve) -> Callable[[ApiCall], Awaitable[web.StreamResponse]]:
    """A hook that accepts a WebSocket tunnel and serves."""

    async def answer(call: ApiCall) -> web.StreamResponse:
        if TUNNEL_PROTOCOL not in call.headers["Sec-WebSocket-Protocol"]:
            return web.Response(status=403)
        socket = web.WebSocketResponse(protocols=(TUNNEL_PROTOCOL,), compress=False)
        await socket.prepare(call.request)
        await serve(TunnelWire(socket))
        await socket.close()
        return socket

    return answer


class ForwardingPod:
    """
    A pod with a server on some ports: it echoes, and ends when its client has.

    Attributes:
        upstreams: Connections that came.
        opened: Ports that were asked for.
        resets: How many connections were dropped.
        greeting: What is sent first, unasked.
        refusals: Texts by port that nobody listens on.
    """

    def __init__(self) -> None:
        self.upstreams = 0
        self.opened: list[int] = []
        self.resets = 0
        self.greeting = b""
        self.refusals: dict[int, str] = {}
        self.closed = asyncio.Event()
        self.cut = asyncio.Event()
        self.progress = asyncio.Event()

    async def serve(self, wire: Wire) -> None:
        self.upstreams += 1
        core = PortForwardServer()
        with contextlib.suppress(TimeoutError):
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(self._read(core, wire))
                cutting = group.create_task(self.cut.wait())
                await asyncio.wait([reading, cutting], return_when=asyncio.FIRST_COMPLETED)
                reading.cancel()
                cutting.cancel()
        self.closed.set()

    async def _read(self, core: PortForwardServer, wire: Wire) -> None:
        while not core.closed:
            data = await wire.read()
            for event in core.receive_data(data) if data else core.receive_eof():
                self._handle(core, event)
            self.progress.set()
            if answer := core.data_to_send():
                await wire.write(answer)
            if not data:
                return

    def _handle(self, core: PortForwardServer, event: object) -> None:
        match event:
            case ForwardOpened(number, port):
                self.opened.append(port)
                if port in self.refusals:
                    core.abort(number, self.refusals[port])
                elif self.greeting:
                    core.send_data(number, self.greeting)
            case ForwardReceived(number, part):
                core.send_data(number, part)
            case ForwardEnded(number):
                core.finish(number)
            case ForwardReset():
                self.resets += 1
            case _:
                pass


Turn = Callable[[], Awaitable[list[object]]]
PlayCommand = Callable[[RemoteCommandServer, Turn], Awaitable[None]]


def play_command(options: StreamOptions, play: PlayCommand) -> Serve:
    """
    Play the far side of a command over SPDY.

    `play` gets the core, and a function that sends what there is and returns what came.
    """

    async def serve(wire: Wire) -> None:
        core = RemoteCommandServer(options, PROTOCOL_V4)

        async def turn() -> list[object]:
            if data := core.data_to_send():
                await wire.write(data)
            data = await wire.read()
            events: Sequence[object] = core.receive_data(data) if data else core.receive_eof()
            if answer := core.data_to_send():
                await wire.write(answer)
            return list(events)

        await play(core, turn)
        if data := core.data_to_send():
            await wire.write(data)

    return serve
