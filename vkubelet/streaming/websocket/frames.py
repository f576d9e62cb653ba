"""Frames of WebSockets (RFC 6455 section 5.2): bytes to values and back."""

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass

MAX_CONTROL_PAYLOAD_BYTES = 125
"""Section 5.5."""


class WebSocketFrameError(Exception):
    """The peer's bytes aren't frames; what follows can't be read either."""


class Opcode(enum.IntEnum):
    """Kinds of frames."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FramePart:
    """
    A control frame, or a part of a data frame: what has come of it.

    Attributes:
        opcode: The frame's.
        data: Unmasked.
        start: Whether the frame begins here.
        end: Whether the frame ends here.
        fin: Whether this frame is its message's last.
    """

    opcode: Opcode
    data: bytes
    start: bool
    end: bool
    fin: bool


def mask_data(data: bytes, key: bytes, offset: int = 0) -> bytes:
    """Mask or unmask (section 5.3); `offset` is where `data` is within its frame."""
    if not data:
        return data
    shift = offset % 4
    key = key[shift:] + key[:shift]
    size = len(data)
    mask = (key * (size // 4 + 1))[:size]
    # As one number: some hundred times faster than byte by byte.
    masked = int.from_bytes(data, "little") ^ int.from_bytes(mask, "little")
    return masked.to_bytes(size, "little")


class WebSocketFrameDecoder:
    """
    Cuts a peer's bytes into frames.

    Data frames are handed out as they come: their length needs no cap. Control frames come whole.
    """

    def __init__(self, *, masked: bool) -> None:
        """
        Expect frames.

        Args:
            masked: Whether they must be masked (those of clients) or must not be.
        """
        self._masked = masked
        self._buffer = bytearray()
        self._opcode: Opcode | None = None
        self._fin = False
        self._key = b""
        self._offset = 0
        self._length = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait for the rest of their frame; at most a head and a control frame."""
        return len(self._buffer)

    def decode(self, data: bytes) -> Iterator[FramePart]:
        """
        Yield what `data` completes; to be exhausted.

        Raises:
            WebSocketFrameError: After the last good part.
        """
        self._buffer += data
        consumed = 0
        try:
            while True:
                if self._opcode is None:
                    size = self._parse_head(consumed)
                    if size is None:
                        return
                    consumed += size
                part = self._take_part(consumed)
                if part is None:
                    return
                consumed += len(part.data)
                yield part
        finally:
            del self._buffer[:consumed]

    def _take_part(self, start: int) -> FramePart | None:
        opcode = self._opcode
        left = self._length - self._offset
        size = min(left, len(self._buffer) - start)
        if opcode is None or (size < left and (size == 0 or opcode >= Opcode.CLOSE)):
            return None
        data = bytes(memoryview(self._buffer)[start : start + size])
        if self._masked:
            data = mask_data(data, self._key, self._offset)
        first = self._offset == 0
        self._offset += size
        last = self._offset == self._length
        if last:
            self._opcode = None
        return FramePart(opcode=opcode, data=data, start=first, end=last, fin=self._fin)

    def _parse_head(self, start: int) -> int | None:
        """Take a frame's head and return its size, None if it isn't complete."""
        head = bytes(memoryview(self._buffer)[start : start + 14])
        if len(head) < 2:
            return None
        first, second = head[0], head[1]
        opcode = _check_head(first, second, masked=self._masked)
        length = second & 0x7F
        size = 2
        if length >= 126:
            code = ">H" if length == 126 else ">Q"
            size += struct.calcsize(code)
            if len(head) < size:
                return None
            (length,) = struct.unpack_from(code, head, 2)
            if length >> 63:
                raise WebSocketFrameError("frame length with its highest bit set")
        if self._masked:
            size += 4
            if len(head) < size:
                return None
            self._key = head[size - 4 : size]
        self._opcode = opcode
        self._fin = bool(first & 0x80)
        self._length = length
        self._offset = 0
        return size


def _check_head(first: int, second: int, *, masked: bool) -> Opcode:
    if first & 0x70:
        raise WebSocketFrameError("reserved bits are set, and no extension was agreed on")
    if bool(second & 0x80) is not masked:
        raise WebSocketFrameError("frame isn't masked" if masked else "frame is masked")
    try:
        opcode = Opcode(first & 0x0F)
    except ValueError as error:
        raise WebSocketFrameError(f"unknown opcode {first & 0x0F}") from error
    if opcode >= Opcode.CLOSE and (not first & 0x80 or second & 0x7F > MAX_CONTROL_PAYLOAD_BYTES):
        raise WebSocketFrameError("control frame that is fragmented or too long")
    return opcode


def encode_frame(
    opcode: Opcode, data: bytes, *, fin: bool = True, mask_key: bytes | None = None
) -> bytes:
    """Serialize a frame, masked if there is a key."""
    first = 0x80 * fin | opcode
    mask_bit = 0 if mask_key is None else 0x80
    size = len(data)
    if size < 126:
        head = struct.pack(">BB", first, mask_bit | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", first, mask_bit | 126, size)
    else:
        head = struct.pack(">BBQ", first, mask_bit | 127, size)
    return head + data if mask_key is None else head + mask_key + mask_data(data, mask_key)
