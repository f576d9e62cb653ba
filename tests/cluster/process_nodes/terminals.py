"""Terminals of processes."""

import asyncio
import os

# A session leader without a terminal gets the first one that it opens as its controlling terminal.
TAKE_TERMINAL = ("/bin/sh", "-c", ': <"$0"; exec "$@"')


class TerminalProtocol(asyncio.StreamReaderProtocol):
    """Linux reports the end of a terminal as EIO; what was read before it counts."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Take it for the end."""
        super().connection_lost(None)


async def open_writer(descriptor: int) -> asyncio.StreamWriter:
    """Write to a terminal's descriptor, which is closed with the writer."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: TerminalProtocol(asyncio.StreamReader()),
        os.fdopen(descriptor, "wb", buffering=0),
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
