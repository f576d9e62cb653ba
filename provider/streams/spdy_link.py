"""A command's streams over SPDY: a stream each."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final

from provider.streams.pipes import BytePipe, SpdyWriter
from vkubelet.interface import CommandStreams, TerminalSize
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import UpgradeError
from vkubelet.streaming.channels import Channel, CommandStatus
from vkubelet.streaming.remotecommand import (
    SPDY_PROTOCOLS,
    Disconnected,
    StreamOptions,
    StreamsReady,
    StreamType,
)
from vkubelet.streaming.remotecommand_client import (
    CommandEnded,
    OutputReceived,
    RemoteCommandClient,
)

MAX_CHUNK_BYTES: Final = 32 * 1024
"""Of stdin, between two looks at whether the command has ended."""

FAREWELL_SECONDS: Final = 2.0
"""For a peer to take our goodbye."""

_CHANNELS = {StreamType.STDOUT: Channel.STDOUT, StreamType.STDERR: Channel.STDERR}


class SpdyLink:
    """
    A command over SPDY; `open_spdy_link` opens and closes it.

    Attributes:
        ending: How it ended, for a message.
    """

    def __init__(self, pipe: BytePipe, client: RemoteCommandClient) -> None:
        self._pipe = pipe
        self._client = client
        self._writer = SpdyWriter(pipe, client.data_to_send, client.send_ping)
        self._ready = asyncio.Event()
        self._over = False
        self.ending = "it fell silent"

    @property
    def status(self) -> CommandStatus | None:
        """See `CommandLink.status`."""
        return self._client.status

    async def run_writer(self) -> None:
        """Write until cancelled or the connection has ended."""
        self._writer.wake()
        await self._writer.run()

    async def receive(self) -> Sequence[tuple[Channel, bytes]] | None:
        """See `CommandLink.receive`."""
        if self._over:
            return None
        data = await self._pipe.read()
        events = self._client.receive_data(data) if data else self._client.receive_eof()
        self._writer.wake()
        output: list[tuple[Channel, bytes]] = []
        for event in events:
            match event:
                case StreamsReady():
                    self._ready.set()
                case OutputReceived(stream, part):
                    output.append((_CHANNELS[stream], part))
                case CommandEnded():
                    self._end("the command ended")
                case Disconnected(reason):
                    self._end(reason)
        return output

    def _end(self, reason: str) -> None:
        self._over = True
        self.ending = reason
        self._ready.set()

    async def send_stdin(self, data: bytes) -> None:
        """See `CommandLink.send_stdin`."""
        await self._ready.wait()
        view = memoryview(data)
        for start in range(0, len(data), MAX_CHUNK_BYTES):
            if self._over:
                return
            self._client.send_stdin(bytes(view[start : start + MAX_CHUNK_BYTES]))
            await self._writer.flush()

    async def end_stdin(self) -> None:
        """See `CommandLink.end_stdin`."""
        await self._ready.wait()
        if not self._over:
            self._client.send_stdin_eof()
            await self._writer.flush()

    async def send_size(self, size: TerminalSize) -> None:
        """See `CommandLink.send_size`."""
        await self._ready.wait()
        if not self._over:
            self._client.send_resize(size.width, size.height)
            await self._writer.flush()

    async def close(self) -> None:
        """Say goodbye: what is still open ends."""
        self._client.close()
        with suppress(OSError):  # of a peer that is gone or too slow
            async with asyncio.timeout(FAREWELL_SECONDS):
                await self._writer.flush()


@asynccontextmanager
async def open_spdy_link(
    client: KubeClient,
    path: str,
    query: Sequence[tuple[str, str]],
    streams: CommandStreams,
    *,
    tty: bool,
) -> AsyncIterator[SpdyLink]:
    """
    Ask for a command over SPDY; leaving by an error or cancellation cuts the connection.

    Raises:
        KubeError: The server's Status if it refuses.
    """
    options = StreamOptions(
        stdin=streams.stdin, stdout=streams.stdout, stderr=streams.stderr, tty=tty
    )
    async with client.connect_spdy(path, query, protocols=SPDY_PROTOCOLS) as connection:
        if connection.protocol not in SPDY_PROTOCOLS:
            raise UpgradeError(f"{client.server}: speaks none of {', '.join(SPDY_PROTOCOLS)}")
        link = SpdyLink(connection, RemoteCommandClient(options, connection.protocol))
        # Not by `async with`: the group would wrap what the body raises.
        stack = AsyncExitStack()
        group = await stack.enter_async_context(asyncio.TaskGroup())
        writer = group.create_task(link.run_writer(), name="command SPDY writer")
        try:
            yield link
            await link.close()
        finally:
            writer.cancel()
            await stack.aclose()
