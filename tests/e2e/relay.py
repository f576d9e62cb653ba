"""
Carry connections from one address to another: `python relay.py LISTEN_HOST PORT TARGET_PORT`.

By it a node in a network namespace reaches an API server that listens on 127.0.0.1 outside. It
needs nothing but the standard library.
"""

import asyncio
import contextlib
import sys

_CHUNK_BYTES = 64 * 1024


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def main(host: str, port: int, target: int) -> None:
    """Serve until killed."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as copying:
                copying.create_task(_copy(reader, far_writer))
                copying.create_task(_copy(far_reader, writer))
        finally:
            far_writer.close()
            writer.close()

    async with await asyncio.start_server(carry, host, port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
