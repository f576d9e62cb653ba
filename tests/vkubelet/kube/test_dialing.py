"""Connections by hand, straight and through a proxy; heads of HTTP/1.1."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from tests.vkubelet.kube.certificates import Authority, server_context
from tests.vkubelet.kube.serving import Proxy
from vkubelet.kube.access import Connection
from vkubelet.kube.dialing import (
    Head,
    dial,
    parse_head,
    read_head,
    request_headers,
    serialize_head,
    server_name,
)


def build_connection(
    server: str,
    *,
    tls: ssl.SSLContext | Literal[True] = True,
    server_hostname: str | None = None,
    proxy: str | None = None,
    headers: dict[str, str] | None = None,
) -> Connection:
    return Connection(
        server=server,
        headers=CIMultiDictProxy(CIMultiDict(headers or {})),
        ssl=tls,
        server_hostname=server_hostname,
        proxy=proxy,
    )


@asynccontextmanager
async def greet(
    tls: ssl.SSLContext | None = None, address: str = "127.0.0.1"
) -> AsyncIterator[str]:
    """A server that says hello; gives its URL."""

    async def handle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(handle, address, 0, ssl=tls)
    async with server:
        port = server.sockets[0].getsockname()[1]
        host = f"[{address}]" if ":" in address else address
        yield f"{'https' if tls else 'http'}://{host}:{port}"


async def read_greeting(connection: Connection, *, secure: bool = True) -> bytes:
    reader, writer = await dial(connection, secure=secure, patient=True)
    try:
        return await reader.read()
    finally:
        writer.transport.abort()


async def test_dial_an_ipv6_address() -> None:
    async with greet(address="::1") as url:
        assert await read_greeting(build_connection(url)) == b"hello"


async def test_nobody_listens() -> None:
    async with greet() as url:
        pass
    with pytest.raises(ConnectionRefusedError):
        await read_greeting(build_connection(url))


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("proxied", [False, True])
async def test_dial(tmp_path: Path, secure: bool, proxied: bool) -> None:
    authority, proxy = Authority(), Proxy()
    tls = ssl.create_default_context(cadata=authority.pem.decode())
    async with (
        greet(server_context(authority, tmp_path) if secure else None) as url,
        proxy.listen() as proxy_url,
    ):
        connection = build_connection(
            url, tls=tls if secure else True, proxy=proxy_url if proxied else None
        )
        assert await read_greeting(connection) == b"hello"
    assert len(proxy.heads) == (1 if proxied else 0)


async def test_tls_is_left_to_the_caller(tmp_path: Path) -> None:
    authority = Authority()
    tls = ssl.create_default_context(cadata=authority.pem.decode())
    async with greet(server_context(authority, tmp_path)) as url:
        reader, writer = await dial(build_connection(url, tls=tls), secure=False, patient=False)
        assert writer.get_extra_info("sslcontext") is None
        writer.write(b"this is no TLS\r\n\r\n")
        assert await reader.read() != b"hello"
        writer.transport.abort()


async def test_server_is_known_by_another_name(tmp_path: Path) -> None:
    authority = Authority()
    tls = ssl.create_default_context(cadata=authority.pem.decode())
    async with greet(server_context(authority, tmp_path, host="kubernetes")) as url:
        with pytest.raises(ssl.SSLCertVerificationError):
            await read_greeting(build_connection(url, tls=tls))
        named = build_connection(url, tls=tls, server_hostname="kubernetes")
        assert await read_greeting(named) == b"hello"


async def test_failures() -> None:
    proxy = Proxy(refuse=True)
    async with greet() as url, proxy.listen() as proxy_url:
        with pytest.raises(ConnectionError, match="the proxy answers 407"):
            await read_greeting(build_connection(url, proxy=proxy_url))
    with pytest.raises(OSError, match="Connect call failed"):
        await read_greeting(build_connection(url))


@pytest.mark.parametrize(
    ("server", "host"),
    [
        ("https://a.example.com", "a.example.com"),
        ("https://a.example.com:443/k8s", "a.example.com"),
        ("https://a.example.com:6443", "a.example.com:6443"),
        ("http://a.example.com", "a.example.com"),
        ("http://[fd00::1]:8080", "[fd00::1]:8080"),
    ],
)
def test_headers(server: str, host: str) -> None:
    connection = build_connection(server, headers={"Authorization": "Bearer x"})
    lines = request_headers(connection)
    assert lines[0] == f"Host: {host}"
    assert lines[1].startswith("User-Agent: vkubelet/")
    assert lines[2:] == ["Authorization: Bearer x"]
    assert serialize_head(["GET / HTTP/1.1", *lines[2:]]) == (
        b"GET / HTTP/1.1\r\nAuthorization: Bearer x\r\n\r\n"
    )


def test_name_of_the_server() -> None:
    assert server_name(build_connection("https://[fd00::1]:6443")) == "fd00::1"
    assert server_name(build_connection("https://a:1", server_hostname="b")) == "b"


def test_head() -> None:
    assert parse_head(["HTTP/1.0 404 Not Found", "A:b ", "c : d"]) == Head(
        404, {"a": "b", "c": "d"}
    )
    for lines in ([], ["HTTP/1.1"], ["HTTP/1.1 ²00 x"], ["HTTP/3 200 OK"]):
        assert parse_head(lines) is None


async def test_read_head() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"HTTP/1.1 200 OK\r\nA: b\n\nrest")
    assert await read_head(reader) == Head(200, {"a": "b"})
    reader.feed_eof()
    with pytest.raises(ConnectionError, match="closed before the answer"):
        await read_head(reader)
