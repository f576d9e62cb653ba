"""Connections to an API server by hand: straight or through the proxy, and heads of HTTP/1.1."""

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote

from yarl import URL

from vkubelet import __version__
from vkubelet.kube.access import Connection
from vkubelet.kube.errors import UpgradeError
from vkubelet.kube.requests import Call
from vkubelet.kube.sockets import open_patient_socket, open_socket

MAX_HEAD_BYTES = 64 * 1024
"""Cap of the answer's head; one takes some hundred bytes."""

BUFFER_BYTES = 128 * 1024
"""Bytes that wait for a reader; the kernel's buffers fill up behind them."""

_CreateSocket: TypeAlias = Callable[[tuple[Any, ...]], socket.socket]


@dataclass(frozen=True, slots=True)
class Head:
    """Head of an answer; names in lower case."""

    status: int
    headers: Mapping[str, str]


async def dial(
    connection: Connection, *, secure: bool, patient: bool
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """
    Connect to an API server, through the proxy if there is one.

    Args:
        connection: How to reach it.
        secure: Whether TLS with it is begun, if it speaks TLS.
        patient: Whether no write fails, so that all can be read that the server has said; who
            writes and doesn't read then learns of no end.

    Raises:
        UpgradeError: If a proxy answers by something that isn't HTTP.
        OSError: If it can't be reached, or the proxy refuses.
    """
    url = URL(connection.server, encoded=True)
    host, port = url.host or "", url.port or 443
    tls = connection.ssl if secure and connection.ssl is not True else None
    create = open_patient_socket if patient else open_socket
    proxy = URL(connection.proxy) if connection.proxy else None
    if proxy is None:
        opened = await _connect(host, port, create)
        return await _begin(opened, tls, server_name(connection))
    proxy_host = proxy.host or ""
    opened = await _connect(proxy_host, proxy.port or 0, create)
    proxy_tls = ssl.create_default_context() if proxy.scheme == "https" else None
    reader, writer = await _begin(opened, proxy_tls, proxy_host)
    try:
        await _pass_proxy(reader, writer, proxy, f"{_bracket(host)}:{port}")
        if tls is not None:
            await writer.start_tls(tls, server_hostname=server_name(connection))
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


async def _begin(
    opened: socket.socket, tls: ssl.SSLContext | None, name: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_connection(
            sock=opened, limit=BUFFER_BYTES, ssl=tls, server_hostname=name if tls else None
        )
    except BaseException:
        opened.close()
        raise


async def _connect(host: str, port: int, create: _CreateSocket) -> socket.socket:
    """Connect to the first address of a host that answers."""
    loop = asyncio.get_running_loop()
    failures: list[OSError] = []
    for address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        opened = create(address)
        try:
            await loop.sock_connect(opened, address[4])
        except OSError as error:
            opened.close()
            failures.append(error)
        except BaseException:
            opened.close()
            raise
        else:
            return opened
    raise failures[0]


def server_name(connection: Connection) -> str:
    """The name that the server's certificate has to be for."""
    return connection.server_hostname or URL(connection.server, encoded=True).host or ""


def request_headers(connection: Connection) -> list[str]:
    """Header lines that each request to the server has, credentials among them."""
    url = URL(connection.server, encoded=True)
    host = _bracket(url.host or "")
    default_port = 443 if url.scheme == "https" else 80
    return [
        f"Host: {host if url.port == default_port else f'{host}:{url.port}'}",
        f"User-Agent: vkubelet/{__version__}",
        *(f"{name}: {value}" for name, value in connection.headers.items()),
    ]


def serialize_head(lines: Sequence[str]) -> bytes:
    """Write the head of a request."""
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")


class CallWriter:
    """Writes calls as requests; what those of one connection have in common is made once."""

    def __init__(self, connection: Connection, *accept: str) -> None:
        """
        Say where they go.

        Args:
            connection: The way there, and its credentials.
            accept: Header lines that say which answers are taken.
        """
        self._prefix = URL(connection.server, encoded=True).raw_path.rstrip("/")
        self._common = [*request_headers(connection), *accept]

    def write(self, call: Call) -> bytes:
        """Write a call whole, head and body."""
        head = [
            f"{call.method} {self._prefix}{call.path} HTTP/1.1",
            *self._common,
            f"Content-Type: {call.content_type}",
            f"Content-Length: {len(call.body)}",
        ]
        return serialize_head(head) + call.body


async def read_head(reader: asyncio.StreamReader) -> Head:
    """
    Read the head of an answer.

    Raises:
        UpgradeError: If it isn't one.
        ConnectionError: If the connection ends before.
    """
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
            break
        lines.append(text)
    head = parse_head(lines)
    if head is None:
        raise UpgradeError("the answer isn't HTTP/1.1")
    return head


def parse_head(lines: Sequence[str]) -> Head | None:
    """Parse the lines of an answer's head; None if it isn't HTTP/1."""
    version, _, rest = (lines[0] if lines else "").partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdigit()):
        return None
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Head(int(status), headers)


async def _pass_proxy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, proxy: URL, target: str
) -> None:
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.user is not None:
        login = f"{unquote(proxy.user)}:{unquote(proxy.password or '')}".encode()
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(login).decode()}")
    writer.write(serialize_head(lines))
    await writer.drain()
    answer = await read_head(reader)
    if not 200 <= answer.status < 300:
        raise ConnectionError(f"the proxy answers {answer.status}")


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host
