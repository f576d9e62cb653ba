"""HTTP/1.1 for the mock API server: what API clients send, and nothing else, in little time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import parse_qsl, unquote

MAX_HEAD_BYTES = 64 * 1024

_REASONS = {200: "OK", 201: "Created", 404: "Not Found", 409: "Conflict"}


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked; the query's last value of each name."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str
    body: bytes


class Connection(asyncio.Protocol):
    """
    A connection: requests in, answers out, in their order; pipelining works.

    `handle` answers at once, with the whole answer; or opens a stream on the connection, returns
    None, and the connection takes no further request.
    """

    def __init__(self, handle: Callable[[Request, "Connection"], bytes | None]) -> None:
        self._handle = handle
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._events: list[bytes] = []
        self.on_lost: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none of its classes

    def connection_lost(self, exc: Exception | None) -> None:
        """End the stream, if there is one."""
        self._transport = None
        if self.on_lost is not None:
            self.on_lost()

    def data_received(self, data: bytes) -> None:
        """Answer the requests that are complete."""
        buffer = self._buffer
        buffer += data
        answers = []
        while (request := _take_request(buffer)) is not None:
            answer = self._handle(request, self)
            if answer is None:
                break
            answers.append(answer)
        if answers and self._transport is not None:
            self._transport.write(b"".join(answers))

    def open_stream(self, on_lost: Callable[[], None]) -> None:
        """Begin an endless answer."""
        self.on_lost = on_lost
        if self._transport is not None:
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )

    def send_event(self, line: bytes) -> None:
        """Send a line of the stream, with others of the same turn."""
        if not self._events:
            asyncio.get_running_loop().call_soon(self._flush)
        self._events.append(line)

    def _flush(self) -> None:
        data = b"".join(self._events)
        self._events.clear()
        if self._transport is not None:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))


def _take_request(buffer: bytearray) -> Request | None:
    """Take a request off the front; None if it isn't complete."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        assert len(buffer) <= MAX_HEAD_BYTES, "a head without an end"
        return None
    lines = buffer[:end].decode("latin-1").split("\r\n")
    length, content_type = 0, ""
    for line in lines[1:]:
        name, _, value = line.partition(":")
        lowered = name.lower()
        if lowered == "content-length":
            length = int(value)
        elif lowered == "content-type":
            content_type = value.strip()
    whole = end + 4 + length
    if len(buffer) < whole:
        return None
    body = bytes(buffer[end + 4 : whole])
    del buffer[:whole]
    method, target, _ = lines[0].split(" ")
    path, _, query = target.partition("?")
    return Request(
        method, unquote(path), dict(parse_qsl(query)) if query else {}, content_type, body
    )


def build_answer(code: int, body: bytes) -> bytes:
    """Build a whole answer."""
    return b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        code,
        _REASONS.get(code, "Failed").encode(),
        len(body),
        body,
    )
