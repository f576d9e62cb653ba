"""Output of a command on its way to a caller who may be slow."""

import asyncio
from collections import deque
from typing import Final

from vkubelet.interface import CommandStreams
from vkubelet.streaming.channels import Channel

PAUSE_BYTES: Final = 256 * 1024
"""With so much waiting for the caller, reading stops; that pushes back on the command."""

MAX_BYTES: Final = 8 * 1024 * 1024
"""Cap of what waits; more than the kernels hold of one connection (6 MiB by Linux' default)."""

PING_GRACE_SECONDS: Final = 20.0
"""
How long reading stops for a caller who takes nothing.

Pings come behind the output that was sent before them, and who sends them gives up after 60 s. So
reading goes on after this, up to MAX_BYTES: enough to get at the ping.
"""


class OutputBuffer:
    """
    Output that waits for the caller, bounded; one task puts, another writes.

    A caller who takes nothing for ever stops the reading for ever; no API server pings its clients,
    but proxies may, and they end such a session.
    """

    def __init__(self, streams: CommandStreams) -> None:
        self._streams = streams
        self._chunks: deque[tuple[Channel, bytes]] = deque()
        self._size = 0
        self._closed = False
        self._changed = asyncio.Event()
        self._written = asyncio.Event()
        self._progress_at = 0.0

    async def put(self, channel: Channel, data: bytes) -> None:
        """Add output; waits while the caller is slow."""
        if not self._chunks:
            self._progress_at = asyncio.get_running_loop().time()
        self._chunks.append((channel, data))
        self._size += len(data)
        self._changed.set()
        try:
            while self._size > PAUSE_BYTES:
                async with asyncio.timeout_at(self._progress_at + PING_GRACE_SECONDS):
                    await self._wait_written()
        except TimeoutError:
            while self._size > MAX_BYTES:
                await self._wait_written()

    def close(self) -> None:
        """Note that no more output comes: `run` returns when all is written."""
        self._closed = True
        self._changed.set()

    async def run(self) -> None:
        """Write to the caller until closed and empty."""
        while True:
            while self._chunks:
                channel, data = self._chunks[0]
                if channel is Channel.STDERR:
                    await self._streams.write_stderr(data)
                else:
                    await self._streams.write_stdout(data)
                self._chunks.popleft()
                self._size -= len(data)
                self._progress_at = asyncio.get_running_loop().time()
                self._written.set()
            if self._closed:
                return
            self._changed.clear()
            await self._changed.wait()

    async def _wait_written(self) -> None:
        self._written.clear()
        await self._written.wait()
