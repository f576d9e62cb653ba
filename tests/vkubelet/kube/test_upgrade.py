"""Upgrades to SPDY, over plain TCP, TLS and through a proxy."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.vkubelet.kube.certificates import Authority, server_context
from tests.vkubelet.kube.serving import Proxy, connect, serve_bytes
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import (
    ForbiddenError,
    KubeError,
    NotFoundError,
    StatusError,
    UnauthorizedError,
    UnreachableError,
    UpgradeError,
)

ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\n"
    b"Upgrade: spdy/3.1\r\nConnection: Upgrade\r\nx-stream-protocol-version: v4\r\n\r\n"
)
STATUS = b'{"kind":"Status","status":"Failure","message":"no","reason":"Forbidden","code":403}'


class EchoServer:
    """Answers each connection's request by bytes, then echoes in upper case."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.requests: list[list[str]] = []
        self.ended = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head.decode().split("\r\n")[:-2])
        writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
        try:
            while data := await reader.read(65536):
                writer.write(data.upper())
                await writer.drain()
        except OSError:
            pass
        self.ended.set()
        writer.close()


@asynccontextmanager
async def listen(server: EchoServer, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=tls)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"


async def read_exactly(connection: Any, size: int) -> bytes:
    read = b""
    while len(read) < size:
        data = await connection.read()
        assert data
        read += data
    return read


async def talk(client: KubeClient) -> None:
    query = [("command", "a b"), ("command", "ü")]
    async with client.connect_spdy("/exec", query, protocols=["v4", "v3"]) as connection:
        assert connection.protocol == "v4"
        await connection.write(b"hello")
        assert await read_exactly(connection, 5) == b"HELLO"


async def refused_by(tmp_path: Path, answer: bytes) -> KubeError:
    async with serve_bytes(answer) as url, connect(tmp_path, url) as client:
        with pytest.raises(KubeError) as caught:
            async with client.connect_spdy("/exec", [], protocols=["v4"]):
                pass
    return caught.value


async def test_plain(tmp_path: Path) -> None:
    server = EchoServer(ACCEPTED)
    async with listen(server) as url, connect(tmp_path, url) as client:
        await talk(client)
        await server.ended.wait()
    (lines,) = server.requests
    assert lines[0] == "POST /exec?command=a+b&command=%C3%BC HTTP/1.1"
    assert set(lines) >= {
        f"Host: {url.removeprefix('http://')}",
        "Content-Length: 0",
        "Connection: Upgrade",
        "Upgrade: SPDY/3.1",
        "Authorization: Bearer secret",
    }
    assert [line for line in lines if line.startswith("X-Stream")] == [
        "X-Stream-Protocol-Version: v4",
        "X-Stream-Protocol-Version: v3",
    ]


async def test_tls_with_a_client_certificate(tmp_path: Path) -> None:
    authority = Authority()
    issued = authority.issue("us")
    cluster = {"certificate-authority-data": base64.b64encode(authority.pem).decode()}
    user = {
        "client-certificate-data": base64.b64encode(issued.certificate).decode(),
        "client-key-data": base64.b64encode(issued.key).decode(),
    }
    context = server_context(authority, tmp_path)
    context.verify_mode = ssl.CERT_REQUIRED
    server = EchoServer(ACCEPTED)
    async with (
        listen(server, context) as url,
        connect(tmp_path, url, cluster=cluster, user=user) as client,
    ):
        await talk(client)


async def test_server_that_is_not_trusted(tmp_path: Path) -> None:
    context = server_context(Authority(), tmp_path)
    other = base64.b64encode(Authority().pem).decode()
    server = EchoServer(ACCEPTED)
    async with (
        listen(server, context) as url,
        connect(tmp_path, url, cluster={"certificate-authority-data": other}) as client,
    ):
        with pytest.raises(UnreachableError, match="TLS fails"):
            await talk(client)


@pytest.mark.parametrize("secure", [False, True])
async def test_proxy(tmp_path: Path, secure: bool) -> None:
    authority = Authority()
    proxy, server = Proxy(), EchoServer(ACCEPTED)
    context = server_context(authority, tmp_path) if secure else None
    async with proxy.listen("us:p%40ss@") as proxy_url, listen(server, context) as url:
        cluster = {"proxy-url": proxy_url}
        if secure:
            cluster["certificate-authority-data"] = base64.b64encode(authority.pem).decode()
        async with connect(tmp_path, url, cluster=cluster) as client:
            await talk(client)
            proxy.refuse = True
            with pytest.raises(UnreachableError, match="the proxy answers 407"):
                await talk(client)
    login = base64.b64encode(b"us:p@ss").decode()
    assert f"Proxy-Authorization: Basic {login}\r\n" in proxy.heads[0]


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + body


CHUNKED = b"%x\r\n%s\r\n%x;extension=1\r\n%s\r\n0\r\n\r\n" % (
    20,
    STATUS[:20],
    len(STATUS) - 20,
    STATUS[20:],
)


@pytest.mark.parametrize(
    "refusal",
    [
        answer("403 Forbidden", f"Content-Length: {len(STATUS)}", body=STATUS),
        answer("403 Forbidden", "Transfer-Encoding: chunked", body=CHUNKED),
        answer("403 Forbidden", body=STATUS),
    ],
)
async def test_refusals_with_a_status(tmp_path: Path, refusal: bytes) -> None:
    error = await refused_by(tmp_path, refusal)
    assert isinstance(error, ForbiddenError)
    assert (error.message, error.reason) == ("no", "Forbidden")
    assert error.status


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (answer("404 Not Found", "Content-Length: 9", body=b"not here\n"), "not here"),
        (answer("404 Not Found", "Content-Length: 900", body=b"cut"), ""),
        (answer("404 Not Found", "Content-Length: much", body=b"x"), ""),
        (answer("404 Not Found", "Transfer-Encoding: chunked", body=b"zz\r\n"), ""),
        (answer("404 Not Found", body=b"x" * 200_000), "x" * 1000),
    ],
)
async def test_refusals_without(tmp_path: Path, refusal: bytes, message: str) -> None:
    error = await refused_by(tmp_path, refusal)
    assert isinstance(error, NotFoundError)
    assert (error.message, error.status) == (message, {})


@pytest.mark.parametrize(
    ("strange", "words"),
    [
        (answer("200 OK", "Content-Length: 0"), "answers 200 in place of switching"),
        (answer("302 Found", "Location: /"), "answers 302 in place of switching"),
        (answer("101 Switching", "Upgrade: websocket"), "switched to 'websocket'"),
        (answer("101 Switching"), "switched to ''"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "isn't HTTP/1.1"),
        (b"HTTP/2 101 x\r\n\r\n", "isn't HTTP/1.1"),
        (b"\r\n", "isn't HTTP/1.1"),
        (b"HTTP/1.1 101 x\r\n" + b"a: b\r\n" * 20_000, "head is too long"),
        (b"x" * 300_000, "head is too long"),
    ],
)
async def test_no_upgrade(tmp_path: Path, strange: bytes, words: str) -> None:
    error = await refused_by(tmp_path, strange)
    assert isinstance(error, UpgradeError)
    assert words in str(error)
    assert "POST /exec: " in str(error)


@pytest.mark.parametrize("cut", [b"", b"HTTP/1.1 101 Swit"])
async def test_closed_before_the_answer(tmp_path: Path, cut: bytes) -> None:
    error = await refused_by(tmp_path, cut)
    assert type(error) is UnreachableError
    assert "closed before the answer" in str(error)


async def test_fresh_credentials_and_throttling(tmp_path: Path) -> None:
    server = EchoServer(
        answer("429 Too Many Requests", "Retry-After: 0", "Content-Length: 0"), ACCEPTED
    )
    async with listen(server) as url, connect(tmp_path, url) as client:
        await talk(client)
    assert len(server.requests) == 2
    error = await refused_by(tmp_path, answer("401 Unauthorized", "Content-Length: 0"))
    assert isinstance(error, UnauthorizedError)


async def test_leaving_by_an_error_cuts(tmp_path: Path) -> None:
    server = EchoServer(ACCEPTED)
    async with listen(server) as url, connect(tmp_path, url) as client:
        with pytest.raises(StatusError):
            async with client.connect_spdy("/exec", [], protocols=["v4"]):
                raise StatusError(500)
        await server.ended.wait()


async def test_end_of_the_server(tmp_path: Path) -> None:
    async with (
        serve_bytes(ACCEPTED + b"tail") as url,
        connect(tmp_path, url) as client,
        client.connect_spdy("/exec", [], protocols=["v4"]) as connection,
    ):
        assert await read_exactly(connection, 4) == b"tail"
        assert await connection.read() == b""


async def test_reset_by_the_server(tmp_path: Path) -> None:
    async with (
        serve_bytes(ACCEPTED, then_reset=True) as url,
        connect(tmp_path, url) as client,
        client.connect_spdy("/exec", [], protocols=["v4"]) as connection,
    ):
        assert await connection.read() == b""


@pytest.mark.virtual_time
async def test_silent_server(tmp_path: Path) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with connect(tmp_path, url, timeout_seconds=7) as client:
            with pytest.raises(UnreachableError, match="no answer within 7 s"):
                await talk(client)


async def test_last_words_are_read_whatever_is_sent_meanwhile(tmp_path: Path) -> None:
    upgraded: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ACCEPTED)
        upgraded.put_nowait(writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with (
        server,
        connect(tmp_path, url) as client,
        client.connect_spdy("/exec", [], protocols=["v4"]) as connection,
    ):
        writer = await upgraded.get()
        writer.write(b"last words")
        writer.transport.abort()
        await asyncio.sleep(0)  # it's closed now, and we haven't read yet
        for _ in range(3):
            await connection.write(b"still talking")
        assert await connection.read() == b"last words"
        assert await connection.read() == b""
