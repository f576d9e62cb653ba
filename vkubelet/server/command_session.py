"""
The I/O side of an exec or attach: the command's streams on an upgraded connection.

kubectl takes a cut connection for success: so all output, then the status, then wait until the
client closes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from vkubelet.errors import RequestError, VkubeletError
from vkubelet.interface import CommandStreams, ExitStatus, TerminalSize
from vkubelet.server.errors import StreamInterruptedError
from vkubelet.server.policy import ServerPolicy
from vkubelet.server.upgraded import UpgradedConnection
from vkubelet.streaming.channels import CommandStatus
from vkubelet.streaming.remotecommand import (
    CommandServer,
    Disconnected,
    Event,
    Phase,
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

MAX_READ_BYTES = 64 * 1024
"""How much stdin the command gets at once."""

MAX_PENDING_SIZES = 64
"""Terminal sizes that nobody has asked for; the oldest is dropped."""

STDIN_QUIET_SECONDS = 0.1
"""
After the command: stdin is discarded until it ends or pauses for so long.

An API server that still sends stdin when the streams end drops output: in 15 of 100 execs, with
20 ms in 1 of 300, with this in none.
"""


class CommandSession(UpgradedConnection[Event]):
    """
    One exec or attach: the connection's protocol, and the `CommandStreams` of the command.

    Attributes:
        stdin: Whether the caller sends stdin.
        stdout: Whether the caller wants stdout.
        stderr: Whether the caller wants stderr; never with a terminal.
    """

    def __init__(
        self, options: StreamOptions, core: CommandServer, policy: ServerPolicy, *, verb: str
    ) -> None:
        """
        Prepare for a connection.

        Args:
            options: Which streams the caller asked for.
            core: The protocol.
            policy: Limits and time-outs.
            verb: What is being done in the container, for messages: "executing command".
        """
        super().__init__(core, policy)
        self.stdin = options.stdin
        self.stdout = options.stdout
        self.stderr = options.stderr and not options.tty
        self._core = core
        self._verb = verb
        self._ready = asyncio.Event()
        self._stdin = bytearray()
        self._stdin_moved = asyncio.Event()
        self._stdin_discarded = False
        self._sizes: deque[TerminalSize] = deque(maxlen=MAX_PENDING_SIZES)
        self._resized = asyncio.Event()

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
                    self._note_data()
                    self._sizes.append(TerminalSize(event.width, event.height))
                    self._resized.set()
                case Disconnected():
                    self._stdin_moved.set()
                    self.interruption.interrupt(event.reason)

    def _take_stdin(self, data: bytes) -> None:
        self._note_data()
        self._stdin_moved.set()
        if self._stdin_discarded or self.interruption.reason is not None:
            return
        self._stdin += data
        if len(self._stdin) > MAX_STDIN_BUFFER_BYTES:
            self._pause_reading()

    # The command's side (`CommandStreams`).

    async def read_stdin(self) -> bytes:
        """Return the next bytes of stdin, b"" at its end."""
        while not self._stdin:
            if self._core.stdin_closed or self._core.phase is Phase.DISCONNECTED:
                return b""
            self._stdin_moved.clear()
            await self._stdin_moved.wait()
        data = bytes(self._stdin[:MAX_READ_BYTES])
        del self._stdin[:MAX_READ_BYTES]
        if len(self._stdin) <= MAX_STDIN_BUFFER_BYTES // 2:
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
            await self._wait_writable()
            self._note_data()
            self._core.send_output(stream, data[start : start + MAX_DATA_FRAME_BYTES])
            self._flush()
        await self._wait_writable()

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
                logger.info("%s: not started: %s", self._verb, error)
                self._core.send_go_away()
                self._flush()
        return self._ready.is_set()

    async def _run_command(
        self, start: Callable[[CommandStreams], Awaitable[ExitStatus]]
    ) -> CommandStatus:
        try:
            with self._watching_idleness():
                async with self.interruption.guard():
                    exit_status = await start(self)
                    return CommandStatus(exit_status.code, exit_status.message)
        except StreamInterruptedError as error:
            return CommandStatus(None, error.reason)
        except RequestError as error:
            return CommandStatus(None, error.message, error.code)
        except VkubeletError as error:
            logger.warning("%s failed: %s", self._verb, error)
            return CommandStatus(None, str(error))
        except Exception:  # the client must be told, whatever a provider raises
            logger.exception("%s failed", self._verb)
            return CommandStatus(None, f"error {self._verb} in container: internal error")

    async def _discard_stdin(self) -> None:
        self._stdin_discarded = True
        self._stdin.clear()
        self._resume_reading()
        try:
            async with asyncio.timeout(self._policy.stdin_discard_seconds):
                while not self._core.stdin_closed and self.interruption.reason is None:
                    self._stdin_moved.clear()
                    async with asyncio.timeout(STDIN_QUIET_SECONDS):
                        await self._stdin_moved.wait()
        except TimeoutError:
            pass  # Quiet, or endless: either way it's time to say goodbye.
