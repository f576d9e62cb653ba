"""Frames of SPDY/3.1 (spec sections 2.2 and 2.6): bytes to values and back."""

import enum
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

VERSION = 3
MAX_CONTROL_PAYLOAD_BYTES = 64 * 1024
"""Cap of a control frame: it's buffered whole. DATA isn't, so that its 16 MiB need no cap."""

MAX_DATA_FRAME_BYTES = 32 * 1024
"""How much we put in one DATA frame, as Go peers do: more would hold up other streams."""

MAX_STREAM_ID = 0x7FFFFFFF
FLAG_FIN = 0x01
FLAG_UNIDIRECTIONAL = 0x02

_HEAD = struct.Struct(">II")
_PAIR = struct.Struct(">II")
_CONTROL_BIT = 0x80000000


class FrameError(Exception):
    """The peer's bytes aren't SPDY frames; what follows can't be read either."""


class FrameType(enum.IntEnum):
    """Types of control frames."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class ResetCode(enum.IntEnum):
    """Why a stream is reset (RST_STREAM)."""

    PROTOCOL_ERROR = 1
    INVALID_STREAM = 2
    REFUSED_STREAM = 3
    UNSUPPORTED_VERSION = 4
    CANCEL = 5
    INTERNAL_ERROR = 6
    FLOW_CONTROL_ERROR = 7
    STREAM_IN_USE = 8
    STREAM_ALREADY_CLOSED = 9
    FRAME_TOO_LARGE = 11


class GoAwayCode(enum.IntEnum):
    """Why a connection ends (GOAWAY)."""

    OK = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SynStream:
    """Opens a stream; `block` is the compressed header block."""

    stream_id: int
    associated_id: int = 0
    priority: int = 0
    fin: bool = False
    unidirectional: bool = False
    block: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SynReply:
    """Accepts a stream."""

    stream_id: int
    fin: bool = False
    block: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RstStream:
    """Ends a stream at once, both directions."""

    stream_id: int
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Advice of the peer: (id, flags, value) each; nothing here depends on it."""

    entries: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """Asks for an echo, or is one."""

    ping_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoAway:
    """Says that no further stream will be accepted."""

    last_stream_id: int
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadersFrame:
    """More headers for a stream that is open."""

    stream_id: int
    fin: bool = False
    block: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowUpdate:
    """Flow control; Kubernetes' peers have none."""

    stream_id: int
    delta: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A control frame of a type that the spec doesn't have; it's skipped (section 2.2.1)."""

    type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """A DATA frame or, when received, a part of one; `fin` comes with the last part."""

    stream_id: int
    data: bytes
    fin: bool = False


Frame: TypeAlias = (
    SynStream
    | SynReply
    | RstStream
    | Settings
    | Ping
    | GoAway
    | HeadersFrame
    | WindowUpdate
    | Unknown
    | Data
)


class FrameDecoder:
    """Cuts a peer's bytes into frames; DATA is handed out as it comes, control frames whole."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._data_left = 0
        self._data_stream_id = 0
        self._data_fin = False

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait for the rest of their frame; at most one control frame."""
        return len(self._buffer)

    def decode(self, data: bytes) -> Iterator[Frame]:
        """
        Yield the frames that `data` completes; to be exhausted.

        Raises:
            FrameError: After the last good frame.
        """
        self._buffer += data
        offset = 0
        try:
            while True:
                if self._data_left:
                    size = min(self._data_left, len(self._buffer) - offset)
                    if not size:
                        return
                    payload = bytes(memoryview(self._buffer)[offset : offset + size])
                    offset += size
                    self._data_left -= size
                    fin = self._data_fin and not self._data_left
                    yield Data(stream_id=self._data_stream_id, data=payload, fin=fin)
                    continue
                if len(self._buffer) - offset < _HEAD.size:
                    return
                first, second = _HEAD.unpack_from(self._buffer, offset)
                flags, length = second >> 24, second & 0xFFFFFF
                if not first & _CONTROL_BIT:
                    offset += _HEAD.size
                    yield from self._start_data(first, length, fin=bool(flags & FLAG_FIN))
                    continue
                version, kind = (first >> 16) & 0x7FFF, first & 0xFFFF
                _check_control_head(version, length)
                end = offset + _HEAD.size + length
                if len(self._buffer) < end:
                    return
                payload = bytes(memoryview(self._buffer)[offset + _HEAD.size : end])
                offset = end
                yield _parse_control(kind, flags, payload)
        finally:
            del self._buffer[:offset]

    def _start_data(self, stream_id: int, length: int, *, fin: bool) -> Iterator[Data]:
        self._data_stream_id = stream_id
        self._data_left = length
        self._data_fin = fin
        if not length:
            yield Data(stream_id=stream_id, data=b"", fin=fin)


def _check_control_head(version: int, length: int) -> None:
    if version != VERSION:
        raise FrameError(f"SPDY version {version}, not {VERSION}")
    if length > MAX_CONTROL_PAYLOAD_BYTES:
        raise FrameError(
            f"control frame of {length} bytes, {MAX_CONTROL_PAYLOAD_BYTES} are allowed"
        )


def _parse_control(kind: int, flags: int, payload: bytes) -> Frame:
    parse = _PARSERS.get(kind)
    if parse is None:
        return Unknown(type=kind)
    try:
        return parse(flags, payload)
    except struct.error as error:
        raise FrameError(f"{FrameType(kind).name} frame of {len(payload)} bytes") from error


def _parse_syn_stream(flags: int, payload: bytes) -> SynStream:
    stream_id, associated_id, priority, _slot = struct.unpack_from(">IIBB", payload)
    return SynStream(
        stream_id=stream_id & MAX_STREAM_ID,
        associated_id=associated_id & MAX_STREAM_ID,
        priority=priority >> 5,
        fin=bool(flags & FLAG_FIN),
        unidirectional=bool(flags & FLAG_UNIDIRECTIONAL),
        block=payload[10:],
    )


def _parse_syn_reply(flags: int, payload: bytes) -> SynReply:
    (stream_id,) = struct.unpack_from(">I", payload)
    return SynReply(
        stream_id=stream_id & MAX_STREAM_ID, fin=bool(flags & FLAG_FIN), block=payload[4:]
    )


def _parse_rst_stream(_flags: int, payload: bytes) -> RstStream:
    stream_id, code = _PAIR.unpack(payload)
    return RstStream(stream_id=stream_id & MAX_STREAM_ID, code=code)


def _parse_settings(_flags: int, payload: bytes) -> Settings:
    (count,) = struct.unpack_from(">I", payload)
    if len(payload) != 4 + 8 * count:
        raise FrameError(f"SETTINGS frame of {len(payload)} bytes for {count} entries")
    entries = struct.iter_unpack(">II", payload[4:])
    return Settings(entries=tuple((key & 0xFFFFFF, key >> 24, value) for key, value in entries))


def _parse_ping(_flags: int, payload: bytes) -> Ping:
    (ping_id,) = struct.unpack(">I", payload)
    return Ping(ping_id=ping_id)


def _parse_go_away(_flags: int, payload: bytes) -> GoAway:
    last_stream_id, code = _PAIR.unpack(payload)
    return GoAway(last_stream_id=last_stream_id & MAX_STREAM_ID, code=code)


def _parse_headers(flags: int, payload: bytes) -> HeadersFrame:
    (stream_id,) = struct.unpack_from(">I", payload)
    return HeadersFrame(
        stream_id=stream_id & MAX_STREAM_ID, fin=bool(flags & FLAG_FIN), block=payload[4:]
    )


def _parse_window_update(_flags: int, payload: bytes) -> WindowUpdate:
    stream_id, delta = _PAIR.unpack(payload)
    return WindowUpdate(stream_id=stream_id & MAX_STREAM_ID, delta=delta & MAX_STREAM_ID)


_PARSERS: Mapping[int, Callable[[int, bytes], Frame]] = {
    FrameType.SYN_STREAM: _parse_syn_stream,
    FrameType.SYN_REPLY: _parse_syn_reply,
    FrameType.RST_STREAM: _parse_rst_stream,
    FrameType.SETTINGS: _parse_settings,
    FrameType.PING: _parse_ping,
    FrameType.GOAWAY: _parse_go_away,
    FrameType.HEADERS: _parse_headers,
    FrameType.WINDOW_UPDATE: _parse_window_update,
}


def encode(  # noqa: PLR0911 - one a frame type
    frame: SynStream | SynReply | RstStream | Ping | GoAway | HeadersFrame | Data,
) -> bytes:
    """Serialize a frame of the types that Kubernetes' peers expect; others kill Go's reader."""
    match frame:
        case Data():
            flags = FLAG_FIN if frame.fin else 0
            return _HEAD.pack(frame.stream_id, flags << 24 | len(frame.data)) + frame.data
        case SynStream():
            head = struct.pack(
                ">IIBB", frame.stream_id, frame.associated_id, frame.priority << 5, 0
            )
            flags = FLAG_FIN * frame.fin | FLAG_UNIDIRECTIONAL * frame.unidirectional
            return _encode_control(FrameType.SYN_STREAM, flags, head + frame.block)
        case SynReply():
            payload = struct.pack(">I", frame.stream_id) + frame.block
            return _encode_control(FrameType.SYN_REPLY, FLAG_FIN * frame.fin, payload)
        case HeadersFrame():
            payload = struct.pack(">I", frame.stream_id) + frame.block
            return _encode_control(FrameType.HEADERS, FLAG_FIN * frame.fin, payload)
        case RstStream():
            payload = _PAIR.pack(frame.stream_id, frame.code)
            return _encode_control(FrameType.RST_STREAM, 0, payload)
        case Ping():
            return _encode_control(FrameType.PING, 0, struct.pack(">I", frame.ping_id))
        case GoAway():
            payload = _PAIR.pack(frame.last_stream_id, frame.code)
            return _encode_control(FrameType.GOAWAY, 0, payload)


def _encode_control(kind: FrameType, flags: int, payload: bytes) -> bytes:
    head = _HEAD.pack(_CONTROL_BIT | VERSION << 16 | kind, flags << 24 | len(payload))
    return head + payload
