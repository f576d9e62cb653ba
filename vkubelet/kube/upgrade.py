"""
Leaving HTTP for another protocol than WebSocket: the HTTP/1.1 handshake, by hand.

aiohttp's client gives the connection away for WebSockets only.
"""

import asyncio
import base64
import socket
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from urllib.parse import unquote

from yarl import URL

from vkubelet import __version__
from vkubelet.kube.access import Connection
from vkubelet.kube.errors import UpgradeError
from vkubelet.kube.statuses import build_status_error

MAX_HEAD_BYTES = 64 * 1024
"""Cap of the answer's head; one takes some hundred bytes."""

MAX_REFUSAL_BYTES = 64 * 1024
"""What is read of a refusal's body; a Status takes some hundred bytes."""

READ_BYTES = 64 * 1024

BUFFER_BYTES = 128 * 1024
"""Bytes that wait for a reader; the kernel's buffers fill up behind them."""

PROBE_IDLE_SECONDS = 15
PROBE_INTERVAL_SECONDS = 5
PROBE_COUNT = 3
"""TCP keepalive: a stream ends 30 s after its peer vanished without a word."""

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


@dataclass(frozen=True, slots=True)
class _Answer:
    """Head of an answer; names in lower case."""

    status: int
    headers: Mapping[str, str]


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
    url = URL(connection.server + path, encoded=True)
    async with AsyncExitStack() as stack:
        reader, writer = await _connect(connection, url)
        stack.callback(writer.transport.abort)
        writer.write(_build_request(connection, url, upgrade, protocols))
        await writer.drain()
        answer = await _read_head(reader)
        if answer.status != 101:
            await _refuse(answer, reader)
        chosen = answer.headers.get("upgrade", "")
        if chosen.lower() != upgrade.lower():
            raise UpgradeError(f"the server switched to {chosen!r} in place of {upgrade}")
        stack.pop_all()
    return UpgradedConnection(reader, writer, answer.headers.get(PROTOCOL_HEADER.lower(), ""))


def watch_peer(opened: socket.socket) -> None:
    """Have the kernel find out when the peer of a connection is gone."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", PROBE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", PROBE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", PROBE_COUNT),
    ):
        if hasattr(socket, option):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def _connect(
    connection: Connection, url: URL
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = url.host or "", url.port or 443
    tls = None if connection.ssl is True else connection.ssl
    server_name = connection.server_hostname or host
    proxy = URL(connection.proxy) if connection.proxy else None
    if proxy is None:
        reader, writer = await asyncio.open_connection(
            host,
            port,
            limit=BUFFER_BYTES,
            ssl=tls,
            server_hostname=server_name if tls else None,
        )
    else:
        reader, writer = await asyncio.open_connection(
            proxy.host or "",
            proxy.port or 0,
            limit=BUFFER_BYTES,
            ssl=True if proxy.scheme == "https" else None,
        )
    try:
        watch_peer(writer.get_extra_info("socket"))
        if proxy is not None:
            await _pass_proxy(reader, writer, proxy, f"{_bracket(host)}:{port}")
            if tls is not None:
                await writer.start_tls(tls, server_hostname=server_name)
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


async def _pass_proxy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, proxy: URL, target: str
) -> None:
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.user is not None:
        login = f"{unquote(proxy.user)}:{unquote(proxy.password or '')}".encode()
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(login).decode()}")
    writer.write(_serialize_head(lines))
    await writer.drain()
    answer = await _read_head(reader)
    if not 200 <= answer.status < 300:
        raise ConnectionError(f"the proxy answers {answer.status}")


def _build_request(
    connection: Connection, url: URL, upgrade: str, protocols: Sequence[str]
) -> bytes:
    default_port = 443 if url.scheme == "https" else 80
    host = _bracket(url.host or "")
    lines = [
        f"POST {url.raw_path_qs} HTTP/1.1",
        f"Host: {host if url.port == default_port else f'{host}:{url.port}'}",
        f"User-Agent: vkubelet/{__version__}",
        "Accept: */*",
        "Content-Length: 0",
        "Connection: Upgrade",
        f"Upgrade: {upgrade}",
        *(f"{PROTOCOL_HEADER}: {protocol}" for protocol in protocols),
        *(f"{name}: {value}" for name, value in connection.headers.items()),
    ]
    return _serialize_head(lines)


def _serialize_head(lines: Sequence[str]) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _read_head(reader: asyncio.StreamReader) -> _Answer:
    size = 0
    lines: list[str] = []
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            raise UpgradeError("the answer's head is too long") from error
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("the connection was closed before the answer") from error
        size += len(line)
        if size > MAX_HEAD_BYTES:
            raise UpgradeError("the answer's head is too long")
        text = line.rstrip(b"\r\n").decode("latin-1")
        if not text:
            return _parse_head(lines)
        lines.append(text)


def _parse_head(lines: Sequence[str]) -> _Answer:
    version, _, rest = (lines[0] if lines else "").partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdigit()):
        raise UpgradeError("the answer isn't HTTP/1.1")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return _Answer(int(status), headers)


async def _refuse(answer: _Answer, reader: asyncio.StreamReader) -> None:
    """Raise what the server refuses by."""
    body = b""
    with suppress(EOFError, asyncio.LimitOverrunError, ValueError):
        body = await _read_body(answer, reader)
    if answer.status < 400:
        raise UpgradeError(f"the server answers {answer.status} in place of switching protocols")
    raise build_status_error(answer.status, body, answer.headers.get("retry-after", ""))


async def _read_body(answer: _Answer, reader: asyncio.StreamReader) -> bytes:
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
