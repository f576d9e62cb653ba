"""
A connection to an API server that is only listened to while somebody reads.

asyncio's streams wake the process for each packet, and TLS by asyncio is the dearest part of a
small request. What a server sends in thirty packets while nobody listens is read here in one go.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from vkubelet.kube.access import Connection
from vkubelet.kube.dialing import dial, server_name

READ_BYTES = 256 * 1024


class QuietConnection:
    """Bytes both ways, by TLS if the server speaks it; get one by `open_quietly`."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        context: ssl.SSLContext | None,
        hostname: str,
    ) -> None:
        self._reader = reader
        self._writer = writer
        # Streams say that theirs is for writing only.
        self._transport = cast(asyncio.Transport, writer.transport)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = (
            None
            if context is None
            else context.wrap_bio(self._incoming, self._outgoing, server_hostname=hostname)
        )
        self._ended = False

    async def shake_hands(self) -> None:
        """
        Begin TLS.

        Raises:
            OSError: If it fails; ssl.SSLError is one.
        """
        if self._tls is None:
            self._transport.pause_reading()
            return
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                if not await self._receive():
                    raise ConnectionError(
                        "the connection was closed amid TLS's handshake"
                    ) from None
            except ssl.SSLError:
                self._flush()  # the alert that tells the server why
                raise
            else:
                self._flush()
                return

    async def write(self, data: bytes) -> None:
        """
        Send bytes; waits while the server is slow to take them.

        Raises:
            OSError: If the connection has ended.
        """
        self.send(data)
        await self._writer.drain()

    async def read(self) -> bytes:
        """
        Return what has come since, and wait for something if nothing has; b"" at the end.

        Raises:
            OSError: If the connection breaks.
        """
        while not self._ended:
            data = await self._receive()
            if self._tls is None or not data:
                return data
            decrypted = self._decrypt(self._tls)
            self._flush()  # TLS may have something to answer
            if decrypted:
                return decrypted
        return b""

    def listen(
        self, take: Callable[[bytes], None], end: Callable[[BaseException | None], None]
    ) -> None:
        """
        From now on, hand over what comes as soon as it does, instead of having it read.

        Args:
            take: Is given the bytes.
            end: Is told, once, that no more come, and by which error if by one.
        """
        self._transport.set_protocol(_Listener(self._hear, take, end))
        self._transport.resume_reading()

    def send(self, data: bytes) -> None:
        """Send bytes, whole, without waiting; what a slow server doesn't take yet is kept."""
        if self._tls is None:
            self._writer.write(data)
        else:
            rest = memoryview(data)
            while rest:
                rest = rest[self._tls.write(rest) :]
            self._flush()

    def abort(self) -> None:
        """Cut the connection."""
        self._transport.abort()

    def _hear(self, data: bytes) -> bytes:
        """Decrypt what has come."""
        if self._tls is None:
            return data
        self._incoming.write(data)
        decrypted = self._decrypt(self._tls)
        self._flush()
        if self._ended:
            self._transport.close()
        return decrypted

    async def _receive(self) -> bytes:
        self._transport.resume_reading()
        try:
            data = await self._reader.read(READ_BYTES)
        finally:
            self._transport.pause_reading()
        if self._tls is not None:
            self._incoming.write(data)
        return data

    def _decrypt(self, tls: ssl.SSLObject) -> bytes:
        """Return what can be decrypted by now, and note whether the server has said farewell."""
        decrypted = bytearray()
        with suppress(ssl.SSLWantReadError):
            try:
                while data := tls.read(READ_BYTES):
                    decrypted += data
            except ssl.SSLZeroReturnError:
                pass
            self._ended = True
        return bytes(decrypted)

    def _flush(self) -> None:
        if data := self._outgoing.read():
            self._writer.write(data)


class _Listener(asyncio.Protocol):
    """What is told by a transport in place of streams."""

    def __init__(
        self,
        hear: Callable[[bytes], bytes],
        take: Callable[[bytes], None],
        end: Callable[[BaseException | None], None],
    ) -> None:
        self._hear = hear
        self._take = take
        self._end = end

    def data_received(self, data: bytes) -> None:
        if heard := self._hear(data):
            self._take(heard)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)


async def open_quietly(connection: Connection, *, patient: bool = False) -> QuietConnection:
    """
    Connect to an API server, through the proxy if there is one.

    Args:
        connection: How to reach it.
        patient: Whether no write fails; see `dial`.

    Raises:
        UpgradeError: If a proxy answers by something that isn't HTTP.
        OSError: If it can't be reached or trusted.
    """
    reader, writer = await dial(connection, secure=False, patient=patient)
    context = None if connection.ssl is True else connection.ssl
    opened = QuietConnection(reader, writer, context, server_name(connection))
    try:
        await opened.shake_hands()
    except BaseException:
        opened.abort()
        raise
    return opened
