"""Ports of a pod, in memory, for port-forward tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vkubelet.errors import RequestError
from vkubelet.interface import ByteStream


class PodStream:
    """A pod's end of a connection: the test feeds what it sends and sees what it gets."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.received = bytearray()
        self.ended = asyncio.Event()
        self.closed = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.write_failure: Exception | None = None
        self.changed = asyncio.Event()
        self._output: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    def say(self, data: bytes | Exception) -> None:
        """Send something; b"" ends the pod's direction."""
        self._output.put_nowait(data)

    async def wait_received(self, size: int) -> bytes:
        while len(self.received) < size:
            self.changed.clear()
            await self.changed.wait()
        return bytes(self.received)

    async def read(self) -> bytes:
        data = await self._output.get()
        if isinstance(data, Exception):
            raise data
        return data

    async def write(self, data: bytes) -> None:
        await self.gate.wait()
        if self.write_failure is not None:
            raise self.write_failure
        self.received += data
        self.changed.set()

    async def write_eof(self) -> None:
        self.ended.set()


class Pod:
    """
    Ports that somebody listens on.

    Attributes:
        closed_ports: Where nobody does.
        streams: The connections that were made, in order.
    """

    def __init__(self) -> None:
        self.closed_ports: set[int] = set()
        self.streams: list[PodStream] = []
        self._connected = asyncio.Event()
        self.open_count = 0

    @asynccontextmanager
    async def dial(self, port: int) -> AsyncIterator[ByteStream]:
        if port in self.closed_ports:
            raise RequestError(500, f"dial port {port}: connection refused")
        stream = PodStream(port)
        self.streams.append(stream)
        self._connected.set()
        self.open_count += 1
        try:
            yield stream
        finally:
            self.open_count -= 1
            stream.closed.set()

    async def wait_stream(self, index: int = 0) -> PodStream:
        while len(self.streams) <= index:
            self._connected.clear()
            await self._connected.wait()
        return self.streams[index]


@asynccontextmanager
async def echo(_port: int) -> AsyncIterator[ByteStream]:
    """A port that sends back what it gets."""
    yield Echo()


class Echo:
    def __init__(self) -> None:
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(maxsize=4)

    async def read(self) -> bytes:
        return await self._chunks.get()

    async def write(self, data: bytes) -> None:
        await self._chunks.put(data)

    async def write_eof(self) -> None:
        await self._chunks.put(b"")
