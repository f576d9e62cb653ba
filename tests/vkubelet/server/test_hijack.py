import asyncio
import socket
from typing import cast

import pytest

from vkubelet.server.hijack import count_unacknowledged_bytes, is_closed_by_peer


@pytest.mark.parametrize("way", ["close", "reset"])
async def test_a_closed_peer_is_seen_while_nothing_is_read(way: str) -> None:
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def keep(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await accepted.put(writer)

    async with await asyncio.start_server(keep, "127.0.0.1", 0) as server:
        address = server.sockets[0].getsockname()
        _, writer = await asyncio.open_connection(*address)
        cast(asyncio.Transport, writer.transport).pause_reading()
        peer = await accepted.get()
        assert not is_closed_by_peer(writer.transport)
        assert count_unacknowledged_bytes(writer.transport) == 0
        if way == "reset":
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            peer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        peer.write(b"unread")
        peer.close()
        async with asyncio.timeout(5):
            while not is_closed_by_peer(writer.transport):
                await asyncio.sleep(0)
        writer.transport.abort()
        await asyncio.sleep(0)
        assert is_closed_by_peer(writer.transport)
        assert count_unacknowledged_bytes(writer.transport) == 0


async def test_bytes_that_the_peer_does_not_take_are_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _, writer = await asyncio.open_connection(*listener.getsockname())
        peer, _ = listener.accept()  # it doesn't read
        writer.write(bytes(32 << 20))
        assert count_unacknowledged_bytes(writer.transport) > 0
        writer.transport.abort()
        peer.close()
