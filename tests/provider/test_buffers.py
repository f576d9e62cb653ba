"""Buffers of TLS connections, which many connections multiply."""

import asyncio
import asyncio.sslproto
import ssl
from pathlib import Path

import pytest

from provider.buffers import TLS_BUFFER_BYTES, shrink_tls_buffers
from tests.vkubelet.kube.certificates import Authority, server_context

SIZE = 3_000_000


async def test_connections_take_less_and_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = 256 * 1024
    monkeypatch.setattr(asyncio.sslproto.SSLProtocol, "max_size", before)  # put back at the end
    shrink_tls_buffers()
    authority = Authority()

    served = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * SIZE)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        served.set()

    context = server_context(authority, tmp_path)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        trust = ssl.create_default_context(cadata=authority.pem.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
        protocol = writer.transport._ssl_protocol  # type: ignore[attr-defined]  # its buffer counts
        assert len(protocol._ssl_buffer) == TLS_BUFFER_BYTES < before
        assert len(await reader.read()) == SIZE
        writer.close()
        await writer.wait_closed()
        await served.wait()
