"""
Leaving HTTP for another protocol than WebSocket: the HTTP/1.1 handshake, by hand.

aiohttp's client gives the connection away for WebSockets only.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress

from yarl import URL

from vkubelet.kube.access import Connection
from vkubelet.kube.dialing import Head, dial, read_head, request_headers, serialize_head
from vkubelet.kube.errors import UpgradeError
from vkubelet.kube.statuses import build_status_error

MAX_REFUSAL_BYTES = 64 * 1024
"""What is read of a refusal's body; a Status takes some hundred bytes."""

READ_BYTES = 64 * 1024

CLOSE_SECONDS = 3.0
"""A peer that doesn't answer TLS's farewell is left after this."""

PROTOCOL_HEADER = "X-Stream-Protocol-Version"


class UpgradedConnection:
    """
    Bytes both ways, after an upgrade.

    Attributes:
        protocol: What the server chose, "" if it didn't say.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: str
    ) -> None:
        self.protocol = protocol
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Return the next bytes, b"" when the connection has ended, however it did."""
        try:
            return await self._reader.read(READ_BYTES)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """
        Send bytes; waits while the peer is slow.

        Raises:
            OSError: If the connection has ended.
        """
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        """End the connection in order."""
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.wait_closed()
        except OSError:
            self.abort()

    def abort(self) -> None:
        """Cut the connection."""
        self._writer.transport.abort()


async def open_upgrade(
    connection: Connection, path: str, *, upgrade: str, protocols: Sequence[str]
) -> UpgradedConnection:
    """
    POST to a path and switch to another protocol.

    Args:
        connection: How to reach the server.
        path: With its query, encoded.
        upgrade: What to switch to.
        protocols: Sub-protocols, best first.

    Raises:
        StatusError: If the server refuses.
        UpgradeError: If it answers by something else.
        OSError: If it can't be reached or closes at once.
    """
    async with AsyncExitStack() as stack:
        reader, writer = await dial(connection, secure=True, patient=True)
        stack.callback(writer.transport.abort)
        writer.write(_build_request(connection, path, upgrade, protocols))
        await writer.drain()
        answer = await read_head(reader)
        if answer.status != 101:
            await _refuse(answer, reader)
        chosen = answer.headers.get("upgrade", "")
        if chosen.lower() != upgrade.lower():
            raise UpgradeError(f"the server switched to {chosen!r} in place of {upgrade}")
        stack.pop_all()
    return UpgradedConnection(reader, writer, answer.headers.get(PROTOCOL_HEADER.lower(), ""))


def _build_request(
    connection: Connection, path: str, upgrade: str, protocols: Sequence[str]
) -> bytes:
    url = URL(connection.server + path, encoded=True)
    return serialize_head(
        [
            f"POST {url.raw_path_qs} HTTP/1.1",
            *request_headers(connection),
            "Accept: */*",
            "Content-Length: 0",
            "Connection: Upgrade",
            f"Upgrade: {upgrade}",
            *(f"{PROTOCOL_HEADER}: {protocol}" for protocol in protocols),
        ]
    )


async def _refuse(answer: Head, reader: asyncio.StreamReader) -> None:
    """Raise what the server refuses by."""
    body = b""
    with suppress(EOFError, asyncio.LimitOverrunError, ValueError):
        body = await _read_body(answer, reader)
    if answer.status < 400:
        raise UpgradeError(f"the server answers {answer.status} in place of switching protocols")
    raise build_status_error(answer.status, body, answer.headers.get("retry-after", ""))


async def _read_body(answer: Head, reader: asyncio.StreamReader) -> bytes:
    """Read the body, a long one in part; ValueError or EOFError if it isn't proper."""
    if answer.headers.get("transfer-encoding", "").lower() == "chunked":
        return await _read_chunks(reader)
    if "content-length" in answer.headers:
        size = min(int(answer.headers["content-length"]), MAX_REFUSAL_BYTES)
        return await reader.readexactly(size)
    body = bytearray()
    while len(body) < MAX_REFUSAL_BYTES and (data := await reader.read(READ_BYTES)):
        body += data
    return bytes(body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while len(body) < MAX_REFUSAL_BYTES:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        if size == 0:
            break
        body += await reader.readexactly(min(size, MAX_REFUSAL_BYTES))
        await reader.readexactly(2)
    return bytes(body)
