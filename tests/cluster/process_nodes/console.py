"""The streams of a container's main process, for those who attach to it."""

import asyncio
import contextlib
import fcntl
import struct
import termios
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from vkubelet.interface import CommandStreams, ExitStatus, LogStream

# What one who is attached hasn't taken; beyond it the container has to wait, as in containerd.
_BUFFER_BYTES = 1024 * 1024

_STDIN_CHUNK_BYTES = 64 * 1024


class Pausable(Protocol):
    """What the container writes to."""

    def pause_reading(self) -> None:
        """Have the container wait."""

    def resume_reading(self) -> None:
        """Let it go on."""


class Attachment:
    """Output for one who is attached."""

    def __init__(self) -> None:
        self._chunks: deque[tuple[LogStream, bytes]] = deque()
        self._changed = asyncio.Event()
        self._ended = False
        self.size_bytes = 0

    def put(self, stream: LogStream, data: bytes) -> None:
        """Add output."""
        self._chunks.append((stream, data))
        self.size_bytes += len(data)
        self._changed.set()

    def end(self) -> None:
        """Note that nothing more comes."""
        self._ended = True
        self._changed.set()

    async def take(self) -> tuple[LogStream, bytes] | None:
        """Return what comes next, None at the end."""
        while not self._chunks:
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        stream, data = self._chunks.popleft()
        self.size_bytes -= len(data)
        return stream, data


class Console:
    """
    The streams of one instance of a container.

    Attributes:
        stdin: Where its stdin goes; None if it has none.
        terminal: Descriptor of its terminal; None without one.
    """

    def __init__(self) -> None:
        self.stdin: asyncio.StreamWriter | None = None
        self.terminal: int | None = None
        self._pipes: list[Pausable] = []
        self._attached: set[Attachment] = set()
        self._paused = False
        self._ended = False

    def add_pipe(self, pipe: Pausable) -> None:
        """Add a source of output that can be made to wait."""
        self._pipes.append(pipe)

    def write(self, stream: LogStream, data: bytes) -> None:
        """Hand output to all who are attached."""
        for attachment in self._attached:
            attachment.put(stream, data)
        self._balance()

    def end(self) -> None:
        """Note that nothing more comes."""
        self._ended = True
        for attachment in self._attached:
            attachment.end()
        if self.stdin is not None:
            self.stdin.close()
            self.stdin = None
        self.terminal = None

    async def attach(self, streams: CommandStreams, *, tty: bool, stdin_once: bool) -> ExitStatus:
        """
        Copy streams until the container ends.

        Args:
            streams: The caller's side.
            tty: Whether the caller has a terminal.
            stdin_once: Whether the container's stdin ends with the caller's.
        """
        with self._attaching() as attachment:
            async with asyncio.TaskGroup() as group:
                inputs = []
                if streams.stdin:
                    copying = self._copy_stdin(streams, once=stdin_once)
                    inputs.append(group.create_task(copying, name="attach stdin"))
                if tty:
                    inputs.append(group.create_task(self._copy_sizes(streams), name="attach size"))
                while (chunk := await attachment.take()) is not None:
                    stream, data = chunk
                    self._balance()
                    if stream is LogStream.STDERR:
                        await streams.write_stderr(data)
                    else:
                        await streams.write_stdout(data)
                for task in inputs:
                    task.cancel()
        return ExitStatus(0)

    @contextlib.contextmanager
    def _attaching(self) -> Iterator[Attachment]:
        attachment = Attachment()
        if self._ended:
            attachment.end()
        self._attached.add(attachment)
        try:
            yield attachment
        finally:
            self._attached.discard(attachment)
            self._balance()

    def _balance(self) -> None:
        """Have the container wait for the slowest."""
        fullest = max((attachment.size_bytes for attachment in self._attached), default=0)
        if self._paused and fullest <= _BUFFER_BYTES // 2:
            self._paused = False
            for pipe in self._pipes:
                pipe.resume_reading()
        elif not self._paused and fullest > _BUFFER_BYTES:
            self._paused = True
            for pipe in self._pipes:
                pipe.pause_reading()

    async def _copy_stdin(self, streams: CommandStreams, *, once: bool) -> None:
        """Copy until the caller's end; what the container doesn't want is thrown away."""
        try:
            while data := await streams.read_stdin():
                for start in range(0, len(data), _STDIN_CHUNK_BYTES):
                    if self.stdin is not None:
                        with contextlib.suppress(ConnectionError):
                            self.stdin.write(data[start : start + _STDIN_CHUNK_BYTES])
                            await self.stdin.drain()
        finally:
            if once and self.stdin is not None and self.terminal is None:
                self.stdin.close()
                self.stdin = None

    async def _copy_sizes(self, streams: CommandStreams) -> None:
        while True:
            size = await streams.wait_resize()
            if self.terminal is not None:
                shape = struct.pack("HHHH", size.height, size.width, 0, 0)
                fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, shape)
