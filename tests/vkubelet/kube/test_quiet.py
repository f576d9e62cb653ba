"""Connections that are only listened to while somebody reads."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.vkubelet.kube.certificates import Authority, server_context
from tests.vkubelet.kube.serving import Proxy
from tests.vkubelet.kube.test_dialing import build_connection
from vkubelet.kube.quiet import QuietConnection, open_quietly


class Peer:
    """The server's end of the connection that came last."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def __init__(self) -> None:
        self.connected = asyncio.Event()

    @asynccontextmanager
    async def listen(self, tls: ssl.SSLContext | None) -> AsyncIterator[str]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.reader, self.writer = reader, writer
            self.connected.set()

        server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
        async with server:
            port = server.sockets[0].getsockname()[1]
            yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
            if self.connected.is_set():
                self.writer.transport.abort()


@asynccontextmanager
async def open_pair(
    folder: Path, *, secure: bool, proxied: bool = False
) -> AsyncIterator[tuple[QuietConnection, Peer]]:
    authority, peer, proxy = Authority(), Peer(), Proxy()
    tls = ssl.create_default_context(cadata=authority.pem.decode())
    async with (
        peer.listen(server_context(authority, folder) if secure else None) as url,
        proxy.listen() as proxy_url,
    ):
        connection = build_connection(
            url, tls=tls if secure else True, proxy=proxy_url if proxied else None
        )
        opened = await open_quietly(connection)
        await peer.connected.wait()
        try:
            yield opened, peer
        finally:
            opened.abort()


async def read_exactly(opened: QuietConnection, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = await opened.read()
        assert piece
        data += piece
    return data


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("proxied", [False, True])
async def test_bytes_both_ways(tmp_path: Path, secure: bool, proxied: bool) -> None:
    large = bytes(range(256)) * 2000  # many TLS records
    async with open_pair(tmp_path, secure=secure, proxied=proxied) as (opened, peer):
        async with asyncio.TaskGroup() as group:
            group.create_task(opened.write(large))
            assert await peer.reader.readexactly(len(large)) == large
        peer.writer.write(large)
        assert await read_exactly(opened, len(large)) == large
        peer.writer.write(b"more")
        assert await opened.read() == b"more"


@pytest.mark.parametrize("secure", [False, True])
async def test_nobody_listens_between_reads(tmp_path: Path, secure: bool) -> None:
    async with open_pair(tmp_path, secure=secure) as (opened, peer):
        assert not opened._transport.is_reading()
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(read_exactly(opened, 60))
            while not opened._transport.is_reading():
                await asyncio.sleep(0)
            for number in range(30):
                peer.writer.write(b"%02d" % number)
        assert reading.result() == b"".join(b"%02d" % number for number in range(30))
        assert not opened._transport.is_reading()


@pytest.mark.parametrize("secure", [False, True])
async def test_end(tmp_path: Path, secure: bool) -> None:
    async with open_pair(tmp_path, secure=secure) as (opened, peer):
        peer.writer.write(b"last")
        peer.writer.close()
        assert await opened.read() == b"last"
        assert await opened.read() == b""
        assert await opened.read() == b""


@pytest.mark.parametrize("secure", [False, True])
async def test_cut(tmp_path: Path, secure: bool) -> None:
    async def use() -> None:
        assert await opened.read() == b""
        while True:
            await opened.write(b"x" * 100_000)

    async with open_pair(tmp_path, secure=secure) as (opened, peer):
        peer.writer.transport.abort()
        with pytest.raises(ConnectionError):
            await use()


@pytest.mark.parametrize("secure", [False, True])
async def test_listening(tmp_path: Path, secure: bool) -> None:
    large = bytes(range(256)) * 2000
    heard, ends = bytearray(), asyncio.Queue[BaseException | None]()
    async with open_pair(tmp_path, secure=secure) as (opened, peer):
        opened.listen(heard.extend, ends.put_nowait)
        opened.send(large)
        assert await peer.reader.readexactly(len(large)) == large
        peer.writer.write(large)
        peer.writer.close()
        assert await ends.get() is None
        assert heard == large


@pytest.mark.parametrize("secure", [False, True])
async def test_listening_to_a_connection_that_is_cut(tmp_path: Path, secure: bool) -> None:
    ends = asyncio.Queue[BaseException | None]()
    async with open_pair(tmp_path, secure=secure) as (opened, peer):
        opened.listen(bytearray().extend, ends.put_nowait)
        peer.writer.transport.abort()
        await ends.get()
        opened.abort()
    assert ends.empty()


async def test_listening_to_what_is_no_tls(tmp_path: Path) -> None:
    heard, ends = bytearray(), asyncio.Queue[BaseException | None]()
    async with open_pair(tmp_path, secure=True) as (opened, peer):
        opened.listen(heard.extend, ends.put_nowait)
        os.write(peer.writer.get_extra_info("socket").fileno(), b"no record of TLS")
        assert isinstance(await ends.get(), ssl.SSLError)
        assert heard == b""


async def test_server_that_is_not_trusted(tmp_path: Path) -> None:
    peer = Peer()
    tls = ssl.create_default_context(cadata=Authority("other").pem.decode())
    async with peer.listen(server_context(Authority(), tmp_path)) as url:
        with pytest.raises(ssl.SSLCertVerificationError):
            await open_quietly(build_connection(url, tls=tls))


async def test_server_that_leaves_amid_the_handshake() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(OSError, match=r"handshake|reset"):
            await open_quietly(build_connection(url, tls=ssl.create_default_context()))
