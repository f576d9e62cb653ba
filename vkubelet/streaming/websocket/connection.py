"""
One side of a WebSocket after its handshake, without I/O: bytes to events, calls to bytes.

Pings are answered by themselves. Messages are reported in parts, as they come: none is too long.
"""

import enum
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from vkubelet.streaming.errors import LocalProtocolError
from vkubelet.streaming.websocket.frames import (
    FramePart,
    Opcode,
    WebSocketFrameDecoder,
    WebSocketFrameError,
    encode_frame,
)

MAX_UNSENT_REPLY_BYTES = 1024 * 1024
"""Pongs that the peer made us produce and that nobody has fetched."""

MAX_CLOSE_REASON_BYTES = 123
"""Section 5.5: a control frame's 125 less the code."""

_MASK_KEY_BYTES = 4


class CloseCode(enum.IntEnum):
    """Why a WebSocket is closed (section 7.4.1)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    NO_STATUS = 1005  # never on the wire: the Close frame was empty


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePart:
    """
    Some bytes of a message; there may be none.

    Attributes:
        data: The bytes.
        start: Whether a message begins here.
        end: Whether the message ends here.
    """

    data: bytes
    start: bool
    end: bool


@dataclass(frozen=True, slots=True)
class PongReceived:
    """The peer is alive."""


@dataclass(frozen=True, slots=True)
class CloseReceived:
    """The peer sends no more messages; it has our Close too."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class WebSocketTerminated:
    """
    Nothing more will come; the last event.

    Attributes:
        error: What the peer did wrong, None if its bytes just ended.
    """

    error: str | None


WebSocketEvent: TypeAlias = MessagePart | PongReceived | CloseReceived | WebSocketTerminated


class WebSocketConnection:
    """
    One side of a WebSocket.

    No input makes it raise: a broken peer gets a Close, `WebSocketTerminated` ends the events. Our
    own misuse raises `LocalProtocolError` and changes nothing.
    """

    def __init__(self, *, client: bool = False) -> None:
        self._client = client
        self._decoder = WebSocketFrameDecoder(masked=not client)
        self._output: list[bytes] = []
        self._unsent_reply_bytes = 0
        self._in_message = False
        self._close_sent = False
        self._close_received = False
        self._terminated = False

    @property
    def sendable(self) -> bool:
        """Whether messages and pings can be sent (still)."""
        return not (self._close_sent or self._terminated)

    @property
    def terminated(self) -> bool:
        """Whether `WebSocketTerminated` has been reported."""
        return self._terminated

    def data_to_send(self) -> bytes:
        """Return what must be written now, all of it and in order."""
        data = b"".join(self._output)
        self._output.clear()
        self._unsent_reply_bytes = 0
        return data

    # The peer's side.

    def receive_data(self, data: bytes) -> list[WebSocketEvent]:
        """Take bytes of the peer; bytes after its Close, or the end, are ignored."""
        events: list[WebSocketEvent] = []
        if self._terminated or self._close_received:
            return events
        try:
            for part in self._decoder.decode(data):
                events += self._handle_part(part)
                if events and isinstance(events[-1], CloseReceived):
                    break
        except WebSocketFrameError as error:
            if not self._close_sent:
                self._send_close(CloseCode.PROTOCOL_ERROR, "")
            events.append(self._terminate(str(error)))
        return events

    def receive_eof(self) -> list[WebSocketEvent]:
        """Take the end of the peer's bytes."""
        return [] if self._terminated else [self._terminate(None)]

    def _terminate(self, error: str | None) -> WebSocketTerminated:
        self._terminated = True
        self._decoder = WebSocketFrameDecoder(masked=not self._client)
        return WebSocketTerminated(error)

    def _handle_part(self, part: FramePart) -> Iterator[WebSocketEvent]:
        match part.opcode:
            case Opcode.PING:
                self._answer_ping(part.data)
            case Opcode.PONG:
                yield PongReceived()
            case Opcode.CLOSE:
                yield self._handle_close(part.data)
            case Opcode.TEXT | Opcode.BINARY | Opcode.CONTINUATION:
                yield self._handle_message(part)

    def _handle_message(self, part: FramePart) -> MessagePart:
        """Put fragments together (section 5.4)."""
        if part.start and self._in_message is not (part.opcode is Opcode.CONTINUATION):
            raise WebSocketFrameError("fragments of messages are out of order")
        start = part.start and not self._in_message
        end = part.end and part.fin
        self._in_message = not end
        return MessagePart(data=part.data, start=start, end=end)

    def _answer_ping(self, payload: bytes) -> None:
        if self._close_sent:
            return
        pong = self._encode(Opcode.PONG, payload)
        self._unsent_reply_bytes += len(pong)
        if self._unsent_reply_bytes > MAX_UNSENT_REPLY_BYTES:
            raise WebSocketFrameError("peer asks for answers faster than it takes them")
        self._output.append(pong)

    def _handle_close(self, payload: bytes) -> CloseReceived:
        if len(payload) == 1:
            raise WebSocketFrameError("Close frame of one byte")
        code = int(CloseCode.NO_STATUS)
        if payload:
            (code,) = struct.unpack_from(">H", payload)
        self._close_received = True
        if not self._close_sent:
            self._send_close(None if code == CloseCode.NO_STATUS else code, "")
        return CloseReceived(code, payload[2:].decode("utf-8", "replace"))

    # Our side.

    def send_message(self, data: bytes, *, text: bool = False) -> None:
        """Send a message in one frame."""
        self._check_sendable()
        self._output.append(self._encode(Opcode.TEXT if text else Opcode.BINARY, data))

    def send_ping(self) -> None:
        """Ask for a pong."""
        self._check_sendable()
        self._output.append(self._encode(Opcode.PING, b""))

    def send_close(self, code: CloseCode = CloseCode.NORMAL, reason: str = "") -> None:
        """Send the last frame; the peer answers with its own Close."""
        self._check_sendable()
        self._send_close(code, reason)

    def _send_close(self, code: int | None, reason: str) -> None:
        self._close_sent = True
        text = reason.encode()[:MAX_CLOSE_REASON_BYTES].decode("utf-8", "ignore").encode()
        payload = b"" if code is None else struct.pack(">H", code) + text
        self._output.append(self._encode(Opcode.CLOSE, payload))

    def _encode(self, opcode: Opcode, data: bytes) -> bytes:
        key = secrets.token_bytes(_MASK_KEY_BYTES) if self._client else None
        return encode_frame(opcode, data, mask_key=key)

    def _check_sendable(self) -> None:
        if not self.sendable:
            raise LocalProtocolError("the WebSocket is closed")
