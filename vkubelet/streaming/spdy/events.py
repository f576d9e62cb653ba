"""What a SPDY connection reports; `ConnectionTerminated` is always the last."""

from dataclasses import dataclass
from typing import TypeAlias

from vkubelet.streaming.spdy.headers import Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOpened:
    """The peer opened a stream; it waits for `send_reply`, unless unidirectional."""

    stream_id: int
    headers: Headers
    fin: bool
    unidirectional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReplied:
    """The peer accepted a stream of ours."""

    stream_id: int
    headers: Headers
    fin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadersReceived:
    """More headers for an open stream."""

    stream_id: int
    headers: Headers
    fin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DataReceived:
    """Bytes of a stream; `fin`: the peer will send no more of them."""

    stream_id: int
    data: bytes
    fin: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReset:
    """The stream is gone in both directions."""

    stream_id: int
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PingAcknowledged:
    """The peer echoed a ping of ours."""

    ping_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoAwayReceived:
    """The peer will accept no more streams; Go peers also read nothing any more."""

    last_stream_id: int
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTerminated:
    """
    Nothing more will come.

    Attributes:
        error: What the peer did wrong, None if its bytes just ended.
    """

    error: str | None


Event: TypeAlias = (
    StreamOpened
    | StreamReplied
    | HeadersReceived
    | DataReceived
    | StreamReset
    | PingAcknowledged
    | GoAwayReceived
    | ConnectionTerminated
)
