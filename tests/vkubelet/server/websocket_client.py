"""What kubectl, dashboards and Python clients do on a WebSocket, on our own client role."""

import asyncio
import base64
import hashlib
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from tests.vkubelet.server.spdy_client import request
from vkubelet.streaming.channels import (
    BASE64_PROTOCOLS,
    Channel,
    CommandStatus,
    encode_channel,
    encode_close,
    parse_status,
)
from vkubelet.streaming.portforward import TUNNEL_PROTOCOL, Disconnected
from vkubelet.streaming.portforward_client import ClientEvent, PortForwardClient
from vkubelet.streaming.websocket.connection import (
    CloseReceived,
    MessagePart,
    PongReceived,
    WebSocketConnection,
    WebSocketTerminated,
)

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = base64.b64encode(
    hashlib.sha1(f"{KEY}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
).decode()
HANDSHAKE = (
    ("Connection", "keep-alive, Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", KEY),
)


class WebSocketClient:
    """
    A WebSocket after its handshake, with channels.

    Attributes:
        protocol: What the server chose.
        output: Bytes by channel, as far as they were read.
        order: Channels in the order in which they spoke.
        close_code: Of the server's Close.
        pongs: How many came.
        eof: Whether the server's bytes ended.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: str
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.protocol = protocol
        self.is_base64 = protocol in BASE64_PROTOCOLS
        self.websocket = WebSocketConnection(client=True)
        self.output: dict[int, bytearray] = {}
        self.order: list[int] = []
        self.messages: list[bytes] = []
        self._message = bytearray()
        self.close_code: int | None = None
        self.pongs = 0
        self.eof = False

    def flush(self) -> None:
        self.writer.write(self.websocket.data_to_send())

    def send(self, channel: int, data: bytes) -> None:
        message = encode_channel(channel, data, is_base64=self.is_base64)
        self.websocket.send_message(message, text=self.is_base64)
        self.flush()

    def send_eof(self) -> None:
        self.websocket.send_message(encode_close(Channel.STDIN))
        self.flush()

    async def read(self) -> None:
        """Take what comes next."""
        data = await self.reader.read(65536)
        events = self.websocket.receive_data(data) if data else self.websocket.receive_eof()
        for event in events:
            match event:
                case MessagePart():
                    self._message += event.data
                    if event.end:
                        self.messages.append(bytes(self._message))
                        self._message.clear()
                        self._take(self.messages[-1])
                case PongReceived():
                    self.pongs += 1
                case CloseReceived():
                    self.close_code = event.code
                case WebSocketTerminated():
                    self.eof = True
        self.eof = self.eof or not data
        if not self.writer.transport.is_closing():
            self.flush()

    def _take(self, message: bytes) -> None:
        channel, data = message[0], message[1:]
        if self.is_base64:
            channel, data = channel - 48, base64.b64decode(data)
        self.order.append(channel)
        self.output.setdefault(channel, bytearray()).extend(data)

    async def read_output(self, channel: int, size: int) -> bytearray:
        while len(self.output.get(channel, b"")) < size and not self.eof:
            await self.read()
        return self.output[channel]

    async def read_close(self) -> None:
        while self.close_code is None and not self.eof:
            await self.read()

    async def finish(self) -> CommandStatus:
        """Read to the server's Close, answer it, close, and return the status."""
        await self.read_close()
        self.writer.close()
        return parse_status(bytes(self.output.get(Channel.ERROR, b"")))

    def vanish(self) -> None:
        """Cut the connection."""
        self.writer.transport.abort()


class TunnelClient:
    """SPDY in the messages of a WebSocket."""

    def __init__(self, client: WebSocketClient) -> None:
        self.client = client
        self.forwards = PortForwardClient()
        self._taken = 0

    def flush(self) -> None:
        data = self.forwards.data_to_send()
        for start in range(0, len(data), 54):
            self.client.websocket.send_message(data[start : start + 54])
        self.client.flush()

    async def read(self) -> list[ClientEvent]:
        await self.client.read()
        events: list[ClientEvent] = []
        for message in self.client.messages[self._taken :]:
            events += self.forwards.receive_data(message)
        self._taken = len(self.client.messages)
        if self.client.eof or self.client.close_code is not None:
            events += self.forwards.receive_eof()
        if not self.client.eof and not any(isinstance(e, Disconnected) for e in events):
            self.flush()
        return events


@asynccontextmanager
async def connect(
    port: int, context: ssl.SSLContext, path: str, *, protocols: Sequence[str]
) -> AsyncGenerator[WebSocketClient, None]:
    """Upgrade a connection; it's cut at the end if the test hasn't closed it."""
    headers = list(HANDSHAKE)
    if protocols:
        headers.append(("Sec-WebSocket-Protocol", ", ".join(protocols)))
    reader, writer, head = await request(
        port, context, path, method="GET", headers=headers, protocols=()
    )
    try:
        assert head.startswith("HTTP/1.1 101 "), head
        assert f"Sec-WebSocket-Accept: {ACCEPT}\r\n" in head
        chosen = [
            line.partition(": ")[2]
            for line in head.split("\r\n")
            if line.startswith("Sec-WebSocket-Protocol")
        ]
        yield WebSocketClient(reader, writer, chosen[0] if chosen else "")
    finally:
        writer.transport.abort()


@asynccontextmanager
async def connect_tunnel(
    port: int, context: ssl.SSLContext, path: str
) -> AsyncGenerator[TunnelClient, None]:
    """Open a port-forward tunnel."""
    async with connect(port, context, path, protocols=[TUNNEL_PROTOCOL]) as client:
        assert client.protocol == TUNNEL_PROTOCOL
        yield TunnelClient(client)
