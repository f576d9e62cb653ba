"""kubectl's end of a port-forward over SPDY, on our own client role."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.vkubelet.server.spdy_client import request
from vkubelet.streaming.portforward import (
    PORT_FORWARD_PROTOCOL,
    Disconnected,
    ForwardEnded,
    ForwardReceived,
)
from vkubelet.streaming.portforward_client import (
    ClientEvent,
    ForwardFailed,
    ForwardReady,
    PortForwardClient,
)

PATH = "/portForward/ns/pod"


class ForwardClient:
    """
    A connection after its upgrade.

    Attributes:
        output: Bytes by forward.
        ready: Forwards that the server accepted.
        ended: Forwards whose pod has ended its direction.
        failures: What the server said, by forward.
        eof: Whether the connection has ended.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.core = PortForwardClient()
        self.output: dict[int, bytearray] = {}
        self.ready: set[int] = set()
        self.ended: set[int] = set()
        self.failures: dict[int, str] = {}
        self.eof = False

    def flush(self) -> None:
        self.writer.write(self.core.data_to_send())

    async def open(self, port: int) -> int:
        forward_id = self.core.open(port)
        self.output[forward_id] = bytearray()
        self.flush()
        while forward_id not in self.ready:
            await self.read()
        return forward_id

    def send(self, forward_id: int, data: bytes) -> None:
        self.core.send_data(forward_id, data)
        self.flush()

    def send_eof(self, forward_id: int) -> None:
        self.core.send_eof(forward_id)
        self.flush()

    def reset(self, forward_id: int) -> None:
        self.core.reset(forward_id)
        self.flush()

    async def read(self) -> None:
        data = await self.reader.read(65536)
        for event in self.core.receive_data(data) if data else self.core.receive_eof():
            self.take(event)
        self.eof = self.eof or not data
        if not self.eof:
            self.flush()

    def take(self, event: ClientEvent) -> None:
        match event:
            case ForwardReady():
                self.ready.add(event.forward_id)
            case ForwardReceived():
                self.output[event.forward_id] += event.data
            case ForwardEnded():
                self.ended.add(event.forward_id)
            case ForwardFailed():
                self.failures[event.forward_id] = event.message
            case Disconnected():
                self.eof = True

    async def read_output(self, forward_id: int, size: int) -> bytes:
        while len(self.output[forward_id]) < size and not self.eof:
            await self.read()
        return bytes(self.output[forward_id])

    async def read_end(self, forward_id: int) -> bytes:
        """Read until the pod has ended its direction."""
        while forward_id not in self.ended and not self.eof:
            await self.read()
        return bytes(self.output[forward_id])

    async def read_failure(self, forward_id: int) -> str:
        while forward_id not in self.failures and not self.eof:
            await self.read()
        return self.failures[forward_id]

    async def read_eof(self) -> None:
        while not self.eof:
            await self.read()


@asynccontextmanager
async def connect_forward(
    port: int, context: ssl.SSLContext, path: str = PATH
) -> AsyncGenerator[ForwardClient, None]:
    """Upgrade a connection; it's cut at the end if the test hasn't closed it."""
    reader, writer, head = await request(port, context, path, protocols=[PORT_FORWARD_PROTOCOL])
    try:
        assert head.startswith("HTTP/1.1 101 "), head
        assert f"X-Stream-Protocol-Version: {PORT_FORWARD_PROTOCOL}\r\n" in head
        yield ForwardClient(reader, writer)
    finally:
        writer.transport.abort()
