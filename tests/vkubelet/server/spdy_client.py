"""What kubectl and API servers do on the other end of an exec, on our own client role."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlencode

from vkubelet.streaming.channels import PROTOCOL_V4, CommandStatus, parse_status
from vkubelet.streaming.spdy.connection import Connection, Role
from vkubelet.streaming.spdy.events import (
    ConnectionTerminated,
    DataReceived,
    GoAwayReceived,
    PingAcknowledged,
    StreamReplied,
    StreamReset,
)

PROTOCOLS = ["v5.channel.k8s.io", PROTOCOL_V4, "v3.channel.k8s.io", "channel.k8s.io"]
UPGRADE = (("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"))


def build_path(
    *command: str, streams: Sequence[str] = ("output", "error"), tty: bool = False
) -> str:
    query = [("command", word) for word in command]
    query += [(stream, "1") for stream in streams]
    if tty:
        query.append(("tty", "1"))
    return f"/exec/ns/pod/c?{urlencode(query)}"


class SpdyClient:
    """
    A connection after its upgrade.

    Attributes:
        output: Bytes by stream, as far as they were read.
        finished: Streams that the server has half-closed, in that order.
        going_away: Whether GOAWAY came.
        eof: Whether the server's bytes ended.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.spdy = Connection(Role.CLIENT)
        self.ids: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.replied: set[int] = set()
        self.output: dict[str, bytearray] = {}
        self.finished: list[str] = []
        self.reset: list[str] = []
        self.pings_answered = 0
        self.going_away = False
        self.eof = False

    async def open(self, *streams: str) -> None:
        """Open streams one after the other, as Go clients do."""
        for stream in streams:
            stream_id = self.spdy.open_stream([("streamtype", stream)])
            self.ids[stream] = stream_id
            self.names[stream_id] = stream
            self.output[stream] = bytearray()
            self.flush()
            while stream_id not in self.replied and not self.eof:
                await self.read()

    def flush(self) -> None:
        self.writer.write(self.spdy.data_to_send())

    def send(self, stream: str, data: bytes = b"", *, fin: bool = False) -> None:
        self.spdy.send_data(self.ids[stream], data, fin=fin)
        self.flush()

    async def read(self) -> None:
        """Take what comes next."""
        data = await self.reader.read(65536)
        events = self.spdy.receive_data(data) if data else self.spdy.receive_eof()
        for event in events:
            match event:
                case StreamReplied():
                    self.replied.add(event.stream_id)
                case DataReceived():
                    self.output[self.names[event.stream_id]] += event.data
                    if event.fin:
                        self.finished.append(self.names[event.stream_id])
                case StreamReset():
                    self.reset.append(self.names[event.stream_id])
                case PingAcknowledged():
                    self.pings_answered += 1
                case GoAwayReceived():
                    self.going_away = True
                case ConnectionTerminated():
                    self.eof = True
                case _:
                    raise AssertionError(event)
        if not self.spdy.terminated:
            self.flush()

    async def read_output(self, stream: str, size: int) -> bytearray:
        while len(self.output[stream]) < size and not self.eof:
            await self.read()
        return self.output[stream]

    async def finish(self) -> CommandStatus:
        """Read to the server's goodbye, close as a Go client does, and return the status."""
        while not (self.going_away or self.eof):
            await self.read()
        self.writer.close()
        return parse_status(bytes(self.output["error"]))

    def vanish(self) -> None:
        """Cut the connection."""
        self.writer.transport.abort()


async def request(
    port: int,
    context: ssl.SSLContext,
    path: str,
    *,
    method: str = "POST",
    headers: Sequence[tuple[str, str]] = UPGRADE,
    protocols: Sequence[str] = PROTOCOLS,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
    """Send an upgrade request and return the answer's head too."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1:1", "Content-Length: 0"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines += [f"X-Stream-Protocol-Version: {protocol}" for protocol in protocols]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    return reader, writer, head.decode()


@asynccontextmanager
async def connect(
    port: int, context: ssl.SSLContext, path: str, *, protocols: Sequence[str] = PROTOCOLS
) -> AsyncGenerator[SpdyClient, None]:
    """Upgrade a connection; it's cut at the end if the test hasn't closed it."""
    reader, writer, head = await request(port, context, path, protocols=protocols)
    try:
        assert head.startswith("HTTP/1.1 101 "), head
        yield SpdyClient(reader, writer)
    finally:
        writer.transport.abort()
