"""One connection to the remote API server that carries any number of connections to one pod."""

import asyncio
import logging
from collections import deque
from typing import Final

from provider.streams.failures import RemotePod
from provider.streams.pipes import BytePipe, SpdyWriter
from vkubelet.errors import RequestError
from vkubelet.streaming.portforward import Disconnected, ForwardEnded, ForwardReceived
from vkubelet.streaming.portforward_client import (
    RESET_MESSAGE,
    ClientEvent,
    ForwardFailed,
    ForwardReady,
    PortForwardClient,
)

logger = logging.getLogger(__name__)

MAX_CHUNK_BYTES: Final = 32 * 1024
"""Of one connection, before others get a turn."""

MAX_BUFFERED_BYTES: Final = 2 * 1024 * 1024
"""
What waits for slow callers, of all connections together; then reading stops.

SPDY as Kubernetes has it knows no windows: only the whole connection can be slowed down.
"""

STALL_SECONDS: Final = 30.0
"""A caller who takes nothing for so long, while others wait for theirs, loses its connection."""

SLOW_SECONDS: Final = 1.0
"""With reading or writing stopped for so long, new connections go another way."""

LINGER_SECONDS: Final = 10.0
"""How long it stays without connections: browsers come again."""

READY_SECONDS: Final = 30.0
"""For the server to accept a connection's streams."""

FAREWELL_SECONDS: Final = 2.0
"""For the server to take our goodbye."""

BROKEN = "the connection to the remote cluster broke"


class UpstreamEndedError(Exception):
    """It takes no connections any more: a new one is needed."""


class ForwardedStream:
    """A connection to a port of the pod; see `ByteStream`."""

    def __init__(self, upstream: "Upstream", forward_id: int) -> None:
        self.forward_id = forward_id
        self.buffered_bytes = 0
        self._upstream = upstream
        self._chunks: deque[bytes] = deque()
        self._has_read = False
        self._eof = False
        self._failure: RequestError | ConnectionResetError | None = None
        self._changed = asyncio.Event()
        self._ready = asyncio.Event()

    async def wait_ready(self) -> None:
        """Wait until data may be sent, or it has failed."""
        await self._ready.wait()

    async def read(self) -> bytes:
        """
        See `ByteStream.read`.

        Raises:
            RequestError: If nobody listens: servers tell it late.
            ConnectionResetError: If the connection broke later.
        """
        while True:
            if self._chunks:
                data = self._chunks.popleft()
                self.buffered_bytes -= len(data)
                self._upstream.note_taken(len(data))
                return data
            if self._failure is not None:
                raise self._failure
            if self._eof:
                return b""
            self._changed.clear()
            await self._changed.wait()

    async def write(self, data: bytes) -> None:
        """See `ByteStream.write`."""
        view = memoryview(data)
        for start in range(0, len(data), MAX_CHUNK_BYTES):
            await self._upstream.send(self, bytes(view[start : start + MAX_CHUNK_BYTES]))
            if self._failure is not None:
                raise ConnectionResetError(str(self._failure))

    async def write_eof(self) -> None:
        """See `ByteStream.write_eof`."""
        await self._upstream.send_eof(self)

    # What the upstream tells.

    def handle_ready(self) -> None:
        """Data may be sent."""
        self._ready.set()

    def handle_data(self, data: bytes) -> None:
        """Bytes of the pod."""
        self._has_read = True
        self.buffered_bytes += len(data)
        self._chunks.append(data)
        self._changed.set()

    def handle_eof(self) -> None:
        """The pod has ended its direction."""
        self._eof = True
        self._changed.set()

    def fail(self, message: str, *, refused: bool = False) -> None:
        """It's over; `refused`: nobody listens, unless something was read before."""
        if not self._eof and self._failure is None:
            refused = refused and not self._has_read
            self._failure = RequestError(500, message) if refused else ConnectionResetError(message)
        self._ready.set()
        self._changed.set()


class Upstream:
    """
    Connections to one pod over one SPDY connection; `run` reads and writes.

    One caller's slowness holds up the others, as with any SPDY of Kubernetes; see STALL_SECONDS.
    """

    def __init__(self, pipe: BytePipe, pod: RemotePod) -> None:
        self._pipe = pipe
        self._pod = pod
        self._client = PortForwardClient()
        self._writer = SpdyWriter(pipe, self._client.data_to_send, self._client.send_ping)
        self._streams: dict[int, ForwardedStream] = {}
        self._buffered_bytes = 0
        self._room = asyncio.Event()
        self._paused_at: float | None = None
        self._changed = asyncio.Event()
        self._spent = False

    @property
    def usable(self) -> bool:
        """Whether new connections are best made here."""
        paused = self._paused_at
        now = asyncio.get_running_loop().time()
        is_slow = self._writer.blocked_seconds > SLOW_SECONDS or (
            paused is not None and now - paused > SLOW_SECONDS
        )
        return not (self._spent or self._client.closed or is_slow)

    async def run(self) -> None:
        """Carry data until the connection ends, or nobody has used it for a while."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._writer.run(), name="port-forward writer"),
                group.create_task(self._read(), name="port-forward reader"),
                group.create_task(self._wait_idle(), name="port-forward idle"),
            ]
            try:
                await asyncio.wait(tasks[1:], return_when=asyncio.FIRST_COMPLETED)
                await self._say_goodbye()
            finally:
                self._end("the connection was closed")
                for task in tasks:
                    task.cancel()

    async def open(self, port: int) -> ForwardedStream:
        """
        Open a connection to a port.

        Raises:
            UpstreamEndedError: If this upstream has ended; another may do.
            RequestError: If the server refuses the connection.
        """
        if self._spent or self._has_ended():
            raise UpstreamEndedError
        forward_id = self._client.open(port)
        stream = self._streams[forward_id] = ForwardedStream(self, forward_id)
        self._changed.set()
        self._writer.wake()
        try:
            async with asyncio.timeout(READY_SECONDS):
                await stream.wait_ready()
        except TimeoutError as error:
            self._spent = True
            self.drop(stream)
            raise RequestError(500, "the remote cluster doesn't answer") from error
        except BaseException:
            self.drop(stream)
            raise
        if self._has_ended():
            self.drop(stream)
            raise UpstreamEndedError
        return stream

    def drop(self, stream: ForwardedStream) -> None:
        """Forget a connection; what is still open of it is reset."""
        if self._streams.pop(stream.forward_id, None) is None:
            return
        self.note_taken(stream.buffered_bytes)
        stream.buffered_bytes = 0
        self._client.reset(stream.forward_id)
        self._writer.wake()
        self._changed.set()

    async def send(self, stream: ForwardedStream, data: bytes) -> None:
        """Send bytes of a connection; ConnectionResetError if it's over."""
        if stream.forward_id not in self._client.forward_ids:
            raise ConnectionResetError("the connection has ended")
        self._client.send_data(stream.forward_id, data)
        await self._writer.flush()

    async def send_eof(self, stream: ForwardedStream) -> None:
        """End our direction of a connection."""
        if stream.forward_id in self._client.forward_ids:
            self._client.send_eof(stream.forward_id)
            await self._writer.flush()

    def note_taken(self, size: int) -> None:
        """Note that a caller has taken bytes."""
        self._buffered_bytes -= size
        self._room.set()

    def _has_ended(self) -> bool:
        return self._client.closed

    async def _read(self) -> None:
        while not self._has_ended():
            data = await self._pipe.read()
            events = self._client.receive_data(data) if data else self._client.receive_eof()
            for event in events:
                self._handle(event)
            self._writer.wake()
            if self._buffered_bytes > MAX_BUFFERED_BYTES:
                await self._wait_room()

    def _handle(self, event: ClientEvent) -> None:
        if isinstance(event, Disconnected):
            logger.debug("%s: port-forward: %s", self._pod.key, event.reason)
            self._end(BROKEN)
            return
        stream = self._streams.get(event.forward_id)
        if stream is None:
            return
        match event:
            case ForwardReady():
                stream.handle_ready()
            case ForwardReceived():
                self._buffered_bytes += len(event.data)
                stream.handle_data(event.data)
            case ForwardEnded():
                stream.handle_eof()
            case ForwardFailed():
                # Servers may give up the whole connection after an error: new ones go elsewhere.
                told = event.message != RESET_MESSAGE
                self._spent = self._spent or told
                stream.fail(self._pod.hide(event.message), refused=told)

    async def _wait_room(self) -> None:
        self._paused_at = asyncio.get_running_loop().time()
        while self._buffered_bytes > MAX_BUFFERED_BYTES:
            self._room.clear()
            try:
                async with asyncio.timeout(STALL_SECONDS):
                    await self._room.wait()
            except TimeoutError:
                self._drop_slowest()
        self._paused_at = None

    def _drop_slowest(self) -> None:
        slowest = max(self._streams.values(), key=lambda stream: stream.buffered_bytes)
        if len(self._streams) > 1:
            logger.info("%s: port-forward: a caller who takes nothing is cut off", self._pod.key)
            self.drop(slowest)
            slowest.fail("the connection was too slow")

    async def _wait_idle(self) -> None:
        """Return when there has been no connection for a while; then there will be none."""
        while True:
            self._changed.clear()
            try:
                async with asyncio.timeout(None if self._streams else LINGER_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                self._spent = True
                return

    async def _say_goodbye(self) -> None:
        self._client.close()
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                await self._writer.flush()
        except OSError as error:
            logger.debug("%s: port-forward: no goodbye: %s", self._pod.key, error)

    def _end(self, reason: str) -> None:
        self._spent = True
        for stream in list(self._streams.values()):
            stream.fail(reason)
