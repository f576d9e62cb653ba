"""The bytes of a SPDY connection: what carries them, and the one task that writes them."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import aiohttp

PING_SECONDS: Final = 30.0
"""How often a quiet connection is pinged, so that load balancers see traffic."""


class BytePipe(Protocol):
    """What carries bytes both ways."""

    async def read(self) -> bytes:
        """Return the next bytes, b"" when there will be no more, however it ended."""

    async def write(self, data: bytes) -> None:
        """
        Send bytes; waits while the far side is slow.

        Raises:
            OSError: If it has ended.
        """


class WebSocketPipe:
    """A tunnel: binary messages whose boundaries mean nothing."""

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse) -> None:
        self._websocket = websocket

    async def read(self) -> bytes:
        """See `BytePipe.read`."""
        while True:
            message = await self._websocket.receive()
            match message.type:
                case aiohttp.WSMsgType.BINARY:
                    if message.data:
                        return bytes(message.data)
                case aiohttp.WSMsgType.TEXT:
                    pass  # Tunnels don't use it.
                case _:
                    return b""

    async def write(self, data: bytes) -> None:
        """See `BytePipe.write`."""
        if self._websocket.closed:
            raise ConnectionResetError("the WebSocket is closed")
        try:
            await self._websocket.send_bytes(data)
        except aiohttp.ClientError as error:
            raise ConnectionResetError(str(error)) from error


class SpdyWriter:
    """
    Writes what a SPDY connection has to send: in order, and all of it by one task.

    So a writer that waits for a slow peer doesn't keep anybody from reading.
    """

    def __init__(
        self, pipe: BytePipe, take: Callable[[], bytes], send_ping: Callable[[], None]
    ) -> None:
        """
        Say what to write.

        Args:
            pipe: Where to.
            take: Returns what must be written now.
            send_ping: Has something to write appear.
        """
        self._pipe = pipe
        self._take = take
        self._send_ping = send_ping
        self._wake = asyncio.Event()
        self._waiting: list[asyncio.Event] = []
        self._broken = ""
        self._writing_since: float | None = None

    @property
    def blocked_seconds(self) -> float:
        """For how long the peer has been too slow."""
        since = self._writing_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    def wake(self) -> None:
        """Have written what there is, without waiting."""
        self._wake.set()

    async def flush(self) -> None:
        """
        Wait until what there is has been written.

        Raises:
            ConnectionResetError: If it can't be.
        """
        if not self._broken:
            written = asyncio.Event()
            self._waiting.append(written)
            self._wake.set()
            await written.wait()
        if self._broken:
            raise ConnectionResetError(self._broken)

    async def run(self) -> None:
        """Write until cancelled or the connection has ended."""
        waiting: list[asyncio.Event] = []
        try:
            while True:
                await self._wait()
                waiting, self._waiting = self._waiting, []
                if data := self._take():
                    self._writing_since = asyncio.get_running_loop().time()
                    await self._pipe.write(data)
                    self._writing_since = None
                for written in waiting:
                    written.set()
        except OSError as error:
            self._broken = str(error) or type(error).__name__
        finally:
            self._broken = self._broken or "the connection has ended"
            for written in (*waiting, *self._waiting):
                written.set()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            self._send_ping()
        self._wake.clear()
