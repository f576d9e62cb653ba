"""A container's log: lines with time and stream, as a CRI log file has them."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple, cast

from vkubelet.interface import LogOptions, LogStream

# containerd cuts lines at this length.
_LINE_LIMIT_BYTES = 16 * 1024

# The kubelet rotates at containerLogMaxSize, 10Mi; here the oldest lines go.
_LOG_LIMIT_BYTES = 10 * 1024 * 1024

# What an entry costs besides its text: else many empty lines would be kept.
_ENTRY_BYTES = 100

_READ_ENTRIES = 256

_EPOCH = datetime.fromtimestamp(0, UTC)


class LogEntry(NamedTuple):
    """A line with its newline, or a part of one."""

    time_ns: int
    stream: LogStream
    data: bytes


class ContainerLog:
    """What one instance of a container has written; bounded."""

    def __init__(self, *, limit_bytes: int = _LOG_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._entries: deque[LogEntry] = deque()
        self._dropped = 0  # position of the first entry
        self._size_bytes = 0
        self._unfinished = {LogStream.STDOUT: b"", LogStream.STDERR: b""}
        self._ended = False
        self._changed = asyncio.Event()

    def write(self, stream: LogStream, data: bytes) -> None:
        """Add output; a line counts when it's complete."""
        lines = (self._unfinished[stream] + data).split(b"\n")
        rest = lines.pop()
        for line in lines:
            self._add_line(stream, line + b"\n")
        while len(rest) > _LINE_LIMIT_BYTES:
            self._add(stream, rest[:_LINE_LIMIT_BYTES])
            rest = rest[_LINE_LIMIT_BYTES:]
        self._unfinished[stream] = rest
        self._notify()

    def end(self) -> None:
        """Note that nothing more comes; an incomplete line is kept as it is."""
        for stream, rest in self._unfinished.items():
            if rest:
                self._add(stream, rest)
        self._unfinished = dict.fromkeys(self._unfinished, b"")
        self._ended = True
        self._notify()

    async def read(self, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """Yield what is selected, in chunks; with `follow` an empty one first, until the end."""
        position = self._dropped
        if options.tail_lines is not None:
            position += max(0, len(self._entries) - options.tail_lines)
        selection = _Selection(options)
        if options.follow:
            yield b""
        while True:
            changed = self._changed
            position = max(position, self._dropped)
            start = position - self._dropped
            entries = list(islice(self._entries, start, start + _READ_ENTRIES))
            position += len(entries)
            if chunk := selection.render(entries):
                yield chunk
            if selection.exhausted:
                return
            if position >= self._dropped + len(self._entries):
                if self._ended or not options.follow:
                    return
                await changed.wait()

    def _add_line(self, stream: LogStream, line: bytes) -> None:
        while len(line) > _LINE_LIMIT_BYTES + 1:
            self._add(stream, line[:_LINE_LIMIT_BYTES])
            line = line[_LINE_LIMIT_BYTES:]
        self._add(stream, line)

    def _add(self, stream: LogStream, data: bytes) -> None:
        self._entries.append(LogEntry(time.time_ns(), stream, data))
        self._size_bytes += len(data) + _ENTRY_BYTES
        while self._size_bytes > self._limit_bytes:
            self._size_bytes -= len(self._entries.popleft().data) + _ENTRY_BYTES
            self._dropped += 1

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class LogPipe(asyncio.Protocol):
    """The end of a pipe that a container writes to; `closed` is set at its end."""

    def __init__(
        self, stream: LogStream, writers: Iterable[Callable[[LogStream, bytes], None]]
    ) -> None:
        """
        Take what comes.

        Args:
            stream: Which output this is.
            writers: Where it goes.
        """
        self._stream = stream
        self._writers = tuple(writers)
        self._transport: asyncio.ReadTransport | None = None
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        """Hand on what was written."""
        for write in self._writers:
            write(self._stream, data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end; Linux reports that of a terminal as EIO."""
        self.closed.set()

    def pause_reading(self) -> None:
        """Have the container wait."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Let the container go on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Read no more."""
        if self._transport is not None:
            self._transport.close()


class _Selection:
    """What a request wants of the entries, one after another."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._since_ns = _compute_since_ns(options)
        self._left_bytes = options.limit_bytes
        self._line_begins = True

    @property
    def exhausted(self) -> bool:
        """Whether the limit of bytes is reached."""
        return self._left_bytes == 0

    def render(self, entries: Iterable[LogEntry]) -> bytes:
        """Turn the next entries into what is sent; the limit may cut a line."""
        text = bytearray()
        for entry in entries:
            if entry.time_ns < self._since_ns:
                continue
            if self._options.stream not in {LogStream.ALL, entry.stream}:
                continue
            if self._options.timestamps and self._line_begins:
                text += _format_time(entry.time_ns)
            text += entry.data
            self._line_begins = entry.data.endswith(b"\n")
        if self._left_bytes is not None:
            del text[self._left_bytes :]
            self._left_bytes -= len(text)
        return bytes(text)


def _compute_since_ns(options: LogOptions) -> int:
    since_ns = 0
    if options.since_time is not None:
        since_ns = (options.since_time - _EPOCH) // timedelta(microseconds=1) * 1000
    if options.since_seconds is not None:
        since_ns = max(since_ns, time.time_ns() - options.since_seconds * 10**9)
    return since_ns


def _format_time(time_ns: int) -> bytes:
    seconds, nanoseconds = divmod(time_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z ".encode()
