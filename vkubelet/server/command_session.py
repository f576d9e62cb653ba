"""
The I/O side of an exec over SPDY: the connection, its buffers, its end.

The end is the delicate part (kubectl takes a cut connection for success): all output, then the
status, then wait until the client closes. Who closes first loses what is still on its way.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast

from vkubelet.errors import RequestError, VkubeletError
from vkubelet.interface import CommandStreams, ExitStatus, TerminalSize
from vkubelet.server.errors import StreamInterruptedError
from vkubelet.server.hijack import count_unacknowledged_bytes, is_closed_by_peer
from vkubelet.server.interruption import Interruption
from vkubelet.server.policy import ServerPolicy
from vkubelet.streaming.channels import CommandStatus
from vkubelet.streaming.remotecommand import (
    Disconnected,
    Event,
    Phase,
    RemoteCommandServer,
    Resized,
    StdinClosed,
    StdinReceived,
    StreamOptions,
    StreamsReady,
    StreamType,
)
from vkubelet.streaming.spdy.frames import MAX_DATA_FRAME_BYTES

logger = logging.getLogger(__name__)

MAX_STDIN_BUFFER_BYTES = 1024 * 1024
"""Stdin that the command hasn't read. Beyond it nothing is read, pings included: no windows."""

MAX_UNREAD_OUTPUT_BYTES = 4 * 1024 * 1024
"""Output that TCP hasn't taken. Commands wait long before; only a flood of pings gets there."""

MAX_PENDING_SIZES = 64
"""Terminal sizes that nobody has asked for; the oldest is dropped."""

PAUSED_CHECK_SECONDS = 1.0
MAX_PAUSED_CHECK_SECONDS = 60.0
"""When to look whether the client is still there while nothing is read; the interval doubles."""

FAREWELL_SECONDS = 1.0
"""How long a connection may take to close once the client said goodbye, or the server stops."""

STDIN_QUIET_SECONDS = 0.1
"""
After the command: stdin is discarded until it ends or pauses for so long.

An API server that still sends stdin when the streams end drops output: in 15 of 100 execs, with
20 ms in 1 of 300, with this in none.
"""


class CommandSession(asyncio.Protocol):
    """
    One exec: the connection's protocol, and the `CommandStreams` of the command.

    Attributes:
        stdin: Whether the caller sends stdin.
        stdout: Whether the caller wants stdout.
        stderr: Whether the caller wants stderr; never with a terminal.
        lost: Set when the connection is gone.
        interruption: Ends the command from outside.
    """

    def __init__(self, options: StreamOptions, protocol: str, policy: ServerPolicy) -> None:
        self.stdin = options.stdin
        self.stdout = options.stdout
        self.stderr = options.stderr and not options.tty
        self.lost = asyncio.Event()
        self.interruption = Interruption()
        self._policy = policy
        self._core = RemoteCommandServer(options, protocol)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._stdin: deque[bytes] = deque()
        self._stdin_bytes = 0
        self._stdin_moved = asyncio.Event()
        self._stdin_discarded = False
        self._reading_paused = False
        self._paused_check: asyncio.TimerHandle | None = None
        self._sizes: deque[TerminalSize] = deque(maxlen=MAX_PENDING_SIZES)
        self._resized = asyncio.Event()
        self._received_bytes = 0
        self._last_data_time = self._loop.time()

    # The connection's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over a connection."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""
        self._received_bytes += len(data)
        self._handle(self._core.receive_data(data))
        self._flush()

    def eof_received(self) -> None:
        """Take the client's end; the transport closes itself."""
        self._handle(self._core.receive_eof())

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the connection's end; resets are as normal as goodbyes."""
        if exc is not None:
            logger.debug("exec connection ended: %s", exc)
        self._handle(self._core.receive_eof())
        self.lost.set()
        self._drained.set()
        self._stdin_moved.set()

    def pause_writing(self) -> None:
        """Have writers wait."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._drained.set()

    def _flush(self) -> None:
        data = self._core.data_to_send()
        transport = self._transport
        if not data or transport is None or transport.is_closing():
            return
        transport.write(data)
        if transport.get_write_buffer_size() > MAX_UNREAD_OUTPUT_BYTES:
            logger.warning("an exec client takes no bytes but sends: cut off")
            transport.abort()

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case StreamsReady():
                    self._ready.set()
                case StdinReceived():
                    self._take_stdin(event.data)
                case StdinClosed():
                    self._stdin_moved.set()
                case Resized():
                    self._last_data_time = self._loop.time()
                    self._sizes.append(TerminalSize(event.width, event.height))
                    self._resized.set()
                case Disconnected():
                    self._stdin_moved.set()
                    self.interruption.interrupt(event.reason)

    def _take_stdin(self, data: bytes) -> None:
        self._last_data_time = self._loop.time()
        self._stdin_moved.set()
        if self._stdin_discarded or self.interruption.reason is not None:
            return
        self._stdin.append(data)
        self._stdin_bytes += len(data)
        if self._stdin_bytes > MAX_STDIN_BUFFER_BYTES and not self._reading_paused:
            self._reading_paused = True
            if self._transport is not None:
                self._transport.pause_reading()
            self._schedule_paused_check(PAUSED_CHECK_SECONDS)

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
        self._core.send_probe()
        self._flush()
        self._schedule_paused_check(min(2 * seconds, MAX_PAUSED_CHECK_SECONDS))

    def _resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            if self._paused_check is not None:
                self._paused_check.cancel()
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    # The command's side (`CommandStreams`).

    async def read_stdin(self) -> bytes:
        """Return the next bytes of stdin, b"" at its end."""
        while not self._stdin:
            if self._core.stdin_closed or self._core.phase is Phase.DISCONNECTED:
                return b""
            self._stdin_moved.clear()
            await self._stdin_moved.wait()
        data = self._stdin.popleft()
        self._stdin_bytes -= len(data)
        if self._stdin_bytes <= MAX_STDIN_BUFFER_BYTES // 2:
            self._resume_reading()
        return data

    async def write_stdout(self, data: bytes) -> None:
        """Write to the caller's stdout; waits while the caller is slow."""
        await self._write(StreamType.STDOUT, data)

    async def write_stderr(self, data: bytes) -> None:
        """Write to the caller's stderr; waits while the caller is slow."""
        await self._write(StreamType.STDERR, data)

    async def _write(self, stream: StreamType, data: bytes) -> None:
        """Write frame by frame, so that stdout and stderr take turns while the caller is slow."""
        for start in range(0, len(data), MAX_DATA_FRAME_BYTES):
            await self._drained.wait()
            self._last_data_time = self._loop.time()
            self._core.send_output(stream, data[start : start + MAX_DATA_FRAME_BYTES])
            self._flush()
        await self._drained.wait()

    async def wait_resize(self) -> TerminalSize:
        """Wait for the next terminal size."""
        while not self._sizes:
            self._resized.clear()
            await self._resized.wait()
        return self._sizes.popleft()

    # The session.

    async def run(self, start: Callable[[CommandStreams], Awaitable[ExitStatus]]) -> None:
        """
        Run a command on the client's streams and tell its end.

        Returns when the client has closed the connection, or has had its time to do so. Cancelling
        it cancels the command; the client is still told.
        """
        if not await self._wait_ready():
            return
        status = CommandStatus(None, "the node is shutting down", 503)
        try:
            status = await self._run_command(start)
            await self._discard_stdin()
        finally:
            self._core.send_status(status)
            self._flush()
            if self._paused_check is not None:
                self._paused_check.cancel()
        await self._linger()

    async def _wait_ready(self) -> bool:
        """Wait for the client's streams; without them there is nowhere to tell why it ends."""
        try:
            async with self.interruption.guard(
                timeout_seconds=self._policy.stream_creation_seconds,
                timeout_reason="the client didn't open its streams in time",
            ):
                await self._ready.wait()
        except StreamInterruptedError as error:
            if not self._ready.is_set():
                logger.info("exec not started: %s", error)
                self._core.send_go_away()
                self._flush()
        return self._ready.is_set()

    async def _run_command(
        self, start: Callable[[CommandStreams], Awaitable[ExitStatus]]
    ) -> CommandStatus:
        idle_check = self._schedule_idle_check()
        try:
            async with self.interruption.guard():
                exit_status = await start(self)
                return CommandStatus(exit_status.code, exit_status.message)
        except StreamInterruptedError as error:
            return CommandStatus(None, error.reason)
        except RequestError as error:
            return CommandStatus(None, error.message, error.code)
        except VkubeletError as error:
            logger.warning("exec failed: %s", error)
            return CommandStatus(None, str(error))
        except Exception:  # the client must be told, whatever a provider raises
            logger.exception("exec failed")
            return CommandStatus(None, "error executing command in container: internal error")
        finally:
            for handle in idle_check:
                handle.cancel()

    def _schedule_idle_check(self) -> list[asyncio.TimerHandle]:
        """End the command when no data has passed for too long; pings don't count."""
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
            self._last_data_time = self._loop.time()
            handles.append(self._loop.call_later(limit, check))
        return handles

    async def _discard_stdin(self) -> None:
        self._stdin_discarded = True
        self._stdin.clear()
        self._stdin_bytes = 0
        self._resume_reading()
        try:
            async with asyncio.timeout(self._policy.stdin_discard_seconds):
                while not self._core.stdin_closed and self.interruption.reason is None:
                    self._stdin_moved.clear()
                    async with asyncio.timeout(STDIN_QUIET_SECONDS):
                        await self._stdin_moved.wait()
        except TimeoutError:
            pass  # Quiet, or endless: either way it's time to say goodbye.

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
