"""Connections to ports of pods; as processes share the machine's network, all are local."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vkubelet.errors import RequestError

_CHUNK_BYTES = 64 * 1024
_DIAL_SECONDS = 10.0
_CLOSE_SECONDS = 1.0

# In a pod's own network too, servers listen on either of these.
_ADDRESSES = ("127.0.0.1", "::1")


class TcpStream:
    """A TCP connection; it implements `vkubelet.interface.ByteStream`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Return what comes next."""
        return await self._reader.read(_CHUNK_BYTES)

    async def write(self, data: bytes) -> None:
        """Send."""
        self._writer.write(data)
        await self._writer.drain()

    async def write_eof(self) -> None:
        """Half-close."""
        self._writer.write_eof()


@asynccontextmanager
async def connect_to_port(port: int) -> AsyncIterator[TcpStream]:
    """
    Connect, and close at the end.

    Raises:
        RequestError: If nobody listens.
    """
    reader, writer = await _dial(port)
    try:
        yield TcpStream(reader, writer)
        writer.close()
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await writer.wait_closed()
    finally:
        writer.transport.abort()


async def _dial(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    failures = []
    for address in _ADDRESSES:
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                return await asyncio.open_connection(address, port)
        except OSError as error:  # also a time-out
            text = os.strerror(error.errno).lower() if error.errno else "i/o timeout"
            failures.append(f"dial {address} port {port}: {text}")
    reasons = ", ".join(failures)
    raise RequestError(500, f"failed to connect to localhost:{port} inside the pod: {reasons}")
