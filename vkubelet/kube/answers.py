"""
The answers to pipelined requests, without I/O: bytes in, answers out (RFC 9112).

Answers come in the order of their requests (section 9.3.2). Requests aren't looked at here: none
may be a HEAD or CONNECT, whose answers have bodies of their own kind.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from vkubelet.kube.dialing import MAX_HEAD_BYTES, parse_head

MAX_BODY_BYTES = 1024 * 1024
"""Cap of an answer's body; those that are pipelined take about a kilobyte."""

_SIZE = re.compile(r"[0-9]{1,9}", re.ASCII)
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
_HEAD_END = b"\r\n\r\n"
_LINE_END = b"\r\n"

_MAX_CHUNK_LINE_BYTES = 4096
"""A chunk's size with its extensions, which nobody uses; a line without an end must end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """
    An answer.

    Attributes:
        retry_after: That header, "" if it isn't there.
        closes: No other comes on this connection.
    """

    status: int
    body: bytes
    retry_after: str
    closes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The last event: nothing more can be read, and why."""

    reason: str


Event: TypeAlias = Answer | Broken


@dataclass(frozen=True, slots=True)
class _Opened:
    """An answer whose body is still to come."""

    status: int
    headers: Mapping[str, str]
    closes: bool


class AnswerParser:
    """Parses what comes on one connection; after `Broken` or an answer that closes, nothing."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._max_body_bytes = max_body_bytes
        self._buffer = bytearray()
        self._read: Callable[[], Event | None] | None = self._read_head
        self._opened = _Opened(0, {}, closes=False)
        self._size = 0
        self._chunks = bytearray()

    def receive_data(self, data: bytes) -> list[Event]:
        """Take bytes in; returns what they complete."""
        events: list[Event] = []
        if self._read is not None:
            self._buffer += data
        while self._read is not None:
            step, held = self._read, len(self._buffer)
            event = step()
            if event is not None:
                events.append(event)
            elif self._read == step and len(self._buffer) == held:
                break
        return events

    def receive_eof(self) -> list[Event]:
        """Take the connection's end in."""
        if self._read is None:
            return []
        if self._read == self._read_to_the_end:
            return [self._finish(bytes(self._buffer))]
        return [self._break("the connection was closed before the answer")]

    # Each step returns an event, or sets the next step, or changes nothing when it needs more.

    def _read_head(self) -> Event | None:
        end = self._buffer.find(_HEAD_END, 0, MAX_HEAD_BYTES)
        if end < 0:
            is_long = len(self._buffer) >= MAX_HEAD_BYTES
            return self._break("the answer's head is too long") if is_long else None
        text = self._buffer[:end].decode("latin-1")
        del self._buffer[: end + len(_HEAD_END)]
        head = parse_head(text.split("\r\n"))
        if head is None:
            return self._break("the answer isn't HTTP/1.1")
        if head.status == 101:
            return self._break("the server switches protocols")
        if head.status < 200:
            return None  # an interim answer (RFC 9110, section 15.2): the final one follows
        options = head.headers.get("connection", "").lower().replace(" ", "").split(",")
        is_old = text.startswith("HTTP/1.0")
        closes = "close" in options or (is_old and "keep-alive" not in options)
        self._opened = _Opened(head.status, head.headers, closes)
        return self._open_body()

    def _open_body(self) -> Event | None:
        """Find out how the body's end is told (RFC 9112, section 6.3)."""
        headers = self._opened.headers
        coding = headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        if self._opened.status in {204, 304}:
            return self._finish(b"")
        if coding:
            if coding != "chunked" or length is not None:
                return self._break(f"the answer's body can't be told from the next: {coding}")
            self._chunks.clear()
            self._read = self._read_chunk_size
        elif length is not None:
            if not _SIZE.fullmatch(length) or int(length) > self._max_body_bytes:
                return self._break(f"the answer's Content-Length is {length[:20]}")
            self._size = int(length)
            self._read = self._read_sized
        else:
            self._read = self._read_to_the_end
        return None

    def _read_sized(self) -> Event | None:
        if len(self._buffer) < self._size:
            return None
        body = bytes(self._buffer[: self._size])
        del self._buffer[: self._size]
        return self._finish(body)

    def _read_to_the_end(self) -> Event | None:
        too_large = len(self._buffer) > self._max_body_bytes
        return self._break("the answer is too large") if too_large else None

    def _read_chunk_size(self) -> Event | None:
        line = self._take_line()
        if line is None:
            return self._break_at_long_line()
        digits = line.partition(b";")[0].strip()
        if not _CHUNK_SIZE.fullmatch(digits):
            return self._break("the answer's chunks are malformed")
        self._size = int(digits, 16)
        if self._size + len(self._chunks) > self._max_body_bytes:
            return self._break("the answer is too large")
        self._read = self._read_chunk if self._size else self._read_trailer
        return None

    def _read_chunk(self) -> Event | None:
        end = self._size + len(_LINE_END)
        if len(self._buffer) < end:
            return None
        if self._buffer[self._size : end] != _LINE_END:
            return self._break("the answer's chunks are malformed")
        self._chunks += self._buffer[: self._size]
        del self._buffer[:end]
        self._read = self._read_chunk_size
        return None

    def _read_trailer(self) -> Event | None:
        line = self._take_line()
        if line is None:
            return self._break_at_long_line()
        return None if line else self._finish(bytes(self._chunks))

    def _take_line(self) -> bytes | None:
        end = self._buffer.find(_LINE_END)
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + len(_LINE_END)]
        return line

    def _break_at_long_line(self) -> Event | None:
        is_long = len(self._buffer) > _MAX_CHUNK_LINE_BYTES
        return self._break("the answer's chunks are malformed") if is_long else None

    def _finish(self, body: bytes) -> Answer:
        opened = self._opened
        closes = opened.closes or self._read == self._read_to_the_end
        self._read = None if closes else self._read_head
        if closes:
            self._buffer.clear()
        return Answer(
            status=opened.status,
            body=body,
            retry_after=opened.headers.get("retry-after", ""),
            closes=closes,
        )

    def _break(self, reason: str) -> Broken:
        self._read = None
        self._buffer.clear()
        return Broken(reason=reason)
