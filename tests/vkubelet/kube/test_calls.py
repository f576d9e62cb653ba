"""Writes over kept connections."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.vkubelet.kube.certificates import Authority, server_context
from tests.vkubelet.kube.serving import serve_bytes
from tests.vkubelet.kube.test_dialing import build_connection
from vkubelet.kube.access import Connection
from vkubelet.kube.calls import MAX_ANSWER_BYTES, CallPool
from vkubelet.kube.errors import ConflictError, StatusError
from vkubelet.kube.requests import JSON, Call
from vkubelet.kube.sessions import KEEP_ALIVE_SECONDS

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CUT = b""
"""The server cuts the connection in place of an answer."""


def call(method: str = "PUT", path: str = "/x", body: bytes = b"{}") -> Call:
    return Call(verb="update", method=method, path=path, body=body, content_type=JSON)


Answer: TypeAlias = bytes | None  # None: none ever comes


class Server:
    """
    Answers requests one by one by given bytes, then by OK.

    Attributes:
        heads: What came, over which connection.
        open: How many connections are open.
    """

    def __init__(self, answers: Sequence[Answer] = ()) -> None:
        self._answers = iter(answers)
        self._writers: list[asyncio.StreamWriter] = []
        self._changed = asyncio.Condition()
        self.heads: list[tuple[int, str]] = []
        self.bodies: list[bytes] = []
        self.open = 0

    @asynccontextmanager
    async def listen(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0, ssl=tls)
        async with server:
            port = server.sockets[0].getsockname()[1]
            yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
            self.cut()
            await self.wait_open(0)

    @property
    def connections(self) -> list[int]:
        """Which connections the requests came over."""
        return [number for number, _ in self.heads]

    def cut(self) -> None:
        """Cut all connections."""
        for writer in self._writers:
            writer.transport.abort()

    def say(self, data: bytes) -> None:
        """Send what nobody asked for, over the connection that came last."""
        self._writers[-1].write(data)

    async def wait_open(self, count: int) -> None:
        """Wait until so many connections are open."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.open == count)

    async def wait_requests(self, count: int) -> None:
        """Wait until so many requests have come."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.heads) == count)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        number = len(self._writers)
        await self._note(opened=1)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().partition("content-length: ")[2].split("\r\n")[0])
                self.bodies.append(await reader.readexactly(length))
                self.heads.append((number, head))
                await self._note(opened=0)
                answer = next(self._answers, OK)
                if answer == CUT:
                    return
                if answer is not None:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()
            await self._note(opened=-1)

    async def _note(self, *, opened: int) -> None:
        async with self._changed:
            self.open += opened
            self._changed.notify_all()


@asynccontextmanager
async def pool_to(*answers: Answer) -> AsyncIterator[tuple[CallPool, Connection, Server]]:
    server = Server(answers)
    async with server.listen() as url:
        with CallPool() as pool:
            yield pool, build_connection(url), server


async def wait_unusable(pool: CallPool) -> None:
    """Wait until the pool has noticed what became of its idle connection."""
    while pool._idle[0].usable:
        await asyncio.sleep(0)


@pytest.mark.parametrize("secure", [False, True])
async def test_request_and_answer(tmp_path: Path, secure: bool) -> None:
    authority, server = Authority(), Server()
    tls = ssl.create_default_context(cadata=authority.pem.decode())
    large = bytes(range(256)) * 4000  # many TLS records
    async with server.listen(server_context(authority, tmp_path) if secure else None) as url:
        connection = build_connection(
            url + "/prefix/", tls=tls if secure else True, headers={"Authorization": "Bearer x"}
        )
        with CallPool() as pool:
            assert await pool.send(connection, call(path="/x?y=z", body=large)) == (200, b"{}")
            assert await pool.send(connection, call("POST")) == (200, b"{}")
    assert server.connections == [1, 1]
    assert server.bodies == [large, b"{}"]
    line, *headers = server.heads[0][1].strip().split("\r\n")
    assert line == "PUT /prefix/x?y=z HTTP/1.1"
    assert headers[0] == f"Host: {url.partition('//')[2]}"
    assert headers[1].startswith("User-Agent: vkubelet/")
    assert headers[2:] == [
        "Authorization: Bearer x",
        "Accept: application/json",
        "Accept-Encoding: identity",
        "Content-Type: application/json",
        f"Content-Length: {len(large)}",
    ]


async def test_as_many_connections_as_calls_at_once() -> None:
    async with pool_to() as (pool, connection, server):
        for _ in range(2):
            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(pool.send(connection, call()))
        assert sorted(server.connections) == [1, 1, 2, 2, 3, 3]
        await pool.send(connection, call())
        assert server.open == 3
    assert server.open == 0


async def test_refusals_leave_the_connection_open() -> None:
    refusal = b'{"kind":"Status","reason":"Conflict","message":"changed"}'
    conflict = b"HTTP/1.1 409 x\r\nContent-Length: %d\r\n\r\n" % len(refusal) + refusal
    redirect = b"HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n"
    async with pool_to(conflict, redirect) as (pool, connection, server):
        with pytest.raises(ConflictError, match="changed"):
            await pool.send(connection, call())
        with pytest.raises(StatusError, match=r"302.*redirects"):
            await pool.send(connection, call())
        await pool.send(connection, call())
    assert server.connections == [1, 1, 1]


async def test_connection_that_the_server_closes_after_its_answer() -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with pool_to(closing) as (pool, connection, server):
        assert await pool.send(connection, call()) == (200, b"{}")
        await pool.send(connection, call())
    assert server.connections == [1, 2]


@pytest.mark.parametrize("answer", [OK + OK, OK + b"noise\r\n\r\n"])
async def test_more_than_was_asked_for(answer: bytes) -> None:
    async with pool_to(answer) as (pool, connection, server):
        assert await pool.send(connection, call()) == (200, b"{}")
        await pool.send(connection, call())
    assert server.connections == [1, 2]


async def test_words_on_an_idle_connection() -> None:
    async with pool_to() as (pool, connection, server):
        await pool.send(connection, call("POST"))
        server.say(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await wait_unusable(pool)
        await pool.send(connection, call("POST"))
    assert server.connections == [1, 2]


async def test_idle_connection_that_was_closed_is_not_used() -> None:
    async with pool_to() as (pool, connection, server):
        await pool.send(connection, call("POST"))
        server.cut()
        await server.wait_open(0)
        await wait_unusable(pool)
        assert await pool.send(connection, call("POST")) == (200, b"{}")
    assert server.connections == [1, 2]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_idle_connection_that_is_closed_under_an_idempotent_call(method: str) -> None:
    async with pool_to(OK, CUT) as (pool, connection, server):
        await pool.send(connection, call())
        assert await pool.send(connection, call(method)) == (200, b"{}")
    assert server.connections == [1, 1, 2]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_what_may_have_been_done_is_not_done_again(method: str) -> None:
    async with pool_to(OK, CUT) as (pool, connection, server):
        await pool.send(connection, call())
        with pytest.raises(OSError, match=r"closed|reset"):
            await pool.send(connection, call(method))
    assert server.connections == [1, 1]


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (CUT, r"closed|reset"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "isn't HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_ANSWER_BYTES + 1), "Length"),
    ],
)
async def test_no_usable_answer(answer: bytes, complaint: str) -> None:
    async with pool_to(answer) as (pool, connection, server):
        with pytest.raises(OSError, match=complaint):
            await pool.send(connection, call())
        await server.wait_open(0)


@pytest.mark.parametrize("reset", [False, True])
async def test_answer_that_is_cut_short(reset: bool) -> None:
    async with serve_bytes(OK[:-1], then_reset=reset) as url:
        with CallPool() as pool, pytest.raises(OSError, match=r"closed|reset"):
            await pool.send(build_connection(url), call())


async def test_server_that_cannot_be_connected_to(tmp_path: Path) -> None:
    server = Server()
    stranger = ssl.create_default_context(cadata=Authority("other").pem.decode())
    with CallPool() as pool:
        async with server.listen(server_context(Authority(), tmp_path)) as url:
            with pytest.raises(ConnectionError, match="its certificate isn't accepted: "):
                await pool.send(build_connection(url, tls=stranger), call())
        with pytest.raises(ConnectionError, match="can't connect: Connect call failed"):
            await pool.send(build_connection(url, tls=stranger), call())
    assert server.heads == []


async def test_large_answer() -> None:
    large = b"x" * (4 * 1024 * 1024)
    answer = b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % len(large) + large
    async with pool_to(answer) as (pool, connection, _):
        assert await pool.send(connection, call()) == (201, large)


async def test_cancelling_cuts_the_connection() -> None:
    async with pool_to(None) as (pool, connection, server), asyncio.TaskGroup() as group:
        sending = group.create_task(pool.send(connection, call()))
        await server.wait_requests(1)
        sending.cancel()
        await server.wait_open(0)
        assert sending.cancelled()


async def test_call_that_ends_after_the_pool_leaves_nothing_open() -> None:
    server = Server([None])
    async with server.listen() as url, asyncio.TaskGroup() as group:
        with CallPool() as pool:
            sending = group.create_task(pool.send(build_connection(url), call()))
            await server.wait_requests(1)
        server.say(OK)
        assert await sending == (200, b"{}")
        await server.wait_open(0)


@pytest.mark.virtual_time
async def test_idle_connections_go_after_a_while() -> None:
    async with pool_to() as (pool, connection, server):
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(pool.send(connection, call()))
        for _ in range(4):
            await asyncio.sleep(KEEP_ALIVE_SECONDS / 3)
            await pool.send(connection, call())
        await server.wait_open(1)
        assert len(set(server.connections[3:])) == 1
        await asyncio.sleep(KEEP_ALIVE_SECONDS + 1)
        await server.wait_open(0)


async def test_newer_tokens_use_the_same_connection_newer_servers_another() -> None:
    other = Server()
    async with pool_to() as (pool, connection, server), other.listen() as other_url:
        for token in ("one", "two"):
            headers = {"Authorization": token}
            await pool.send(build_connection(connection.server, headers=headers), call())
        await pool.send(build_connection(other_url), call())
        await pool.send(connection, call())
        assert server.connections == [1, 1, 2]
        assert "Authorization: one" in server.heads[0][1]
        assert "Authorization: two" in server.heads[1][1]
        assert other.connections == [1]
