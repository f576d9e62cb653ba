"""Taking a connection away from HTTP after a `101 Switching Protocols`."""

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from collections.abc import AsyncIterator

from aiohttp import web

TCP_ESTABLISHED = 1
"""State in `struct tcp_info` of a connection that neither side has closed."""


@contextlib.asynccontextmanager
async def hijack(
    request: web.Request, headers: dict[str, str], protocol: asyncio.Protocol, lost: asyncio.Event
) -> AsyncIterator[web.StreamResponse]:
    """
    Answer 101 and hand the connection to `protocol`; it's closed at the end of the block.

    Args:
        request: The request that asks for the upgrade.
        headers: Of the answer, besides Connection.
        protocol: Gets the connection's bytes from then on.
        lost: Set by `protocol` when the connection is gone.

    Yields:
        The response that the handler has to return.

    Raises:
        ConnectionError: If the client has left already.
    """
    response = web.StreamResponse(status=101, headers={"Connection": "Upgrade", **headers})
    response.force_close()
    await response.prepare(request)
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client closed the connection")
    http_protocol = transport.get_protocol()
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    try:
        yield response
    finally:
        transport.set_protocol(http_protocol)
        if lost.is_set():
            http_protocol.connection_lost(None)  # so that HTTP forgets it too
        else:
            transport.close()


def is_closed_by_peer(transport: asyncio.BaseTransport) -> bool:
    """
    Return whether the peer has closed or reset the TCP connection, as far as the kernel knows.

    While reading is paused this is the only way to notice.
    """
    connection = transport.get_extra_info("socket")
    if connection is None:
        return True
    try:
        info: bytes = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    except OSError:
        return True
    return info[0] != TCP_ESTABLISHED


def count_unacknowledged_bytes(transport: asyncio.BaseTransport) -> int:
    """Return how many bytes the kernel holds that the peer hasn't acknowledged."""
    connection = transport.get_extra_info("socket")
    try:
        answer: bytes = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
    except (AttributeError, OSError, ValueError):  # it's closed
        return 0
    return int(struct.unpack("i", answer)[0])
