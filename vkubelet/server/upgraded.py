"""
An upgraded connection: its bytes go through a protocol core, its buffers stay bounded.

The end is the delicate part: who closes a connection first loses what is still on its way. So the
last words are written, and then the client is awaited.
"""

import abc
import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar, cast

from vkubelet.server.errors import StreamInterruptedError
from vkubelet.server.hijack import count_unacknowledged_bytes, is_closed_by_peer
from vkubelet.server.interruption import Interruption
from vkubelet.server.policy import ServerPolicy

logger = logging.getLogger(__name__)

E = TypeVar("E")

MAX_UNREAD_OUTPUT_BYTES = 4 * 1024 * 1024
"""Output that TCP hasn't taken. Writers wait long before; only a flood of pings gets there."""

PAUSED_CHECK_SECONDS = 1.0
MAX_PAUSED_CHECK_SECONDS = 60.0
"""When to look whether the client is still there while nothing is read; the interval doubles."""

FAREWELL_SECONDS = 1.0
"""How long a connection may take to close once the client said goodbye, or the server stops."""


class ProtocolCore(Protocol[E]):
    """What every protocol core has."""

    def start(self) -> list[E]:
        """Begin, once the upgrade has been answered."""

    def data_to_send(self) -> bytes:
        """Return what must be written now, all of it and in order."""

    def receive_data(self, data: bytes) -> list[E]:
        """Take bytes of the client."""

    def receive_eof(self) -> list[E]:
        """Take the end of the client's bytes."""

    def send_probe(self) -> None:
        """Send something for its effect on the connection alone."""


class UpgradedConnection(asyncio.Protocol, abc.ABC, Generic[E]):
    """
    The connection's protocol; subclasses take the core's events.

    Attributes:
        lost: Set when the connection is gone.
        interruption: Ends what runs on the connection from outside.
    """

    def __init__(self, core: ProtocolCore[E], policy: ServerPolicy) -> None:
        self.lost = asyncio.Event()
        self.interruption = Interruption()
        self._policy = policy
        self._protocol_core = core
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._drained = asyncio.Event()
        self._drained.set()
        self._reading_paused = False
        self._paused_check: asyncio.TimerHandle | None = None
        self._received_bytes = 0
        self._last_data_time = self._loop.time()

    @abc.abstractmethod
    def _handle(self, events: list[E]) -> None:
        """Take what the core learned; called from the connection's callbacks."""

    # The connection's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over a connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._handle(self._protocol_core.start())
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""
        self._received_bytes += len(data)
        self._handle(self._protocol_core.receive_data(data))
        self._flush()

    def eof_received(self) -> None:
        """Take the client's end; the transport closes itself."""
        self._handle(self._protocol_core.receive_eof())

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the connection's end; resets are as normal as goodbyes."""
        if exc is not None:
            logger.debug("connection ended: %s", exc)
        self._handle(self._protocol_core.receive_eof())
        self._stop_paused_check()
        self.lost.set()
        self._drained.set()

    def pause_writing(self) -> None:
        """Have writers wait."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._drained.set()

    # What subclasses use.

    def _note_data(self) -> None:
        """Note that data passes: the connection isn't idle."""
        self._last_data_time = self._loop.time()

    async def _wait_writable(self) -> None:
        """Wait until the client takes bytes, or is gone."""
        while not self._drained.is_set():
            await self._drained.wait()

    def _flush(self) -> None:
        """Write what the core has to say."""
        data = self._protocol_core.data_to_send()
        transport = self._transport
        if not data or transport is None or transport.is_closing():
            return
        transport.write(data)
        if transport.get_write_buffer_size() > MAX_UNREAD_OUTPUT_BYTES:
            logger.warning("a client takes no bytes but sends: cut off")
            transport.abort()

    def _pause_reading(self) -> None:
        """Read nothing, pings included: there are no windows to push back with."""
        if self._reading_paused or self.lost.is_set():
            return
        self._reading_paused = True
        if self._transport is not None:
            self._transport.pause_reading()
        self._schedule_paused_check(PAUSED_CHECK_SECONDS)

    def _resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self._stop_paused_check()
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def _stop_paused_check(self) -> None:
        if self._paused_check is not None:
            self._paused_check.cancel()
            self._paused_check = None

    def _schedule_paused_check(self, seconds: float) -> None:
        self._paused_check = self._loop.call_later(seconds, self._check_paused, seconds)

    def _check_paused(self, seconds: float) -> None:
        """
        Look whether the client is gone: its end waits behind the bytes that we don't read.

        A closed socket answers bytes with a reset, which the kernel takes note of: so send some.
        """
        transport = self._transport
        if transport is None or self.lost.is_set():
            return
        if is_closed_by_peer(transport):
            self.interruption.interrupt("the client closed the connection")
            return
        self._protocol_core.send_probe()
        self._flush()
        self._schedule_paused_check(min(2 * seconds, MAX_PAUSED_CHECK_SECONDS))

    @contextlib.contextmanager
    def _watching_idleness(self) -> Iterator[None]:
        """Interrupt when no data has passed for too long; pings don't count."""
        handles: list[asyncio.TimerHandle] = []
        limit = self._policy.stream_idle_seconds

        def check() -> None:
            handles.clear()
            left = self._last_data_time + limit - self._loop.time()
            if left <= 0:
                self.interruption.interrupt(f"no data passed for {limit:g} seconds")
            else:
                handles.append(self._loop.call_later(left, check))

        if limit:
            self._note_data()
            handles.append(self._loop.call_later(limit, check))
        try:
            yield
        finally:
            for handle in handles:
                handle.cancel()

    async def _linger(self) -> None:
        """Wait for the client to close as long as bytes move; the caller then closes."""
        try:
            async with self.interruption.guard(
                timeout_seconds=self._policy.linger_seconds, timeout_reason="it took too long"
            ):
                await self._wait_closed()
        except StreamInterruptedError:  # the client is going, or the server stops
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_SECONDS):
                    await self.lost.wait()
        finally:
            self._stop_paused_check()

    async def _wait_closed(self) -> None:
        while True:
            before = self._progress()
            try:
                async with asyncio.timeout(self._policy.linger_idle_seconds):
                    await self.lost.wait()
                    return
            except TimeoutError:
                if self._progress() == before:
                    return

    def _progress(self) -> tuple[int, int]:
        """What changes as long as the client reads or writes."""
        transport = self._transport
        if transport is None or self.lost.is_set():
            return self._received_bytes, 0
        unsent = transport.get_write_buffer_size() + count_unacknowledged_bytes(transport)
        return self._received_bytes, unsent
