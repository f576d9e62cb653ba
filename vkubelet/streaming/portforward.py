"""
The server's side of a port-forward over SPDY, without I/O: pairs of streams and what flows.

For each connection the client opens two streams with the headers port, requestid and streamtype:
`error` first, which only we write to, then `data`.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from vkubelet.streaming.spdy.connection import Connection, Role
from vkubelet.streaming.spdy.events import (
    ConnectionTerminated,
    DataReceived,
    Event as SpdyEvent,
    GoAwayReceived,
    StreamOpened,
    StreamReset,
)
from vkubelet.streaming.spdy.frames import ResetCode
from vkubelet.streaming.spdy.headers import Headers, find_header

PORT_FORWARD_PROTOCOL = "portforward.k8s.io"
"""What is spoken over SPDY."""

TUNNEL_PROTOCOL = f"SPDY/3.1+{PORT_FORWARD_PROTOCOL}"
"""Subprotocol of a WebSocket whose binary messages are chunks of the SPDY bytes."""

MAX_PORT = 65535

_ERROR = "error"
_DATA = "data"


@dataclass(frozen=True, slots=True)
class ForwardAnnounced:
    """One stream of a pair is there; the other should follow."""

    forward_id: int


@dataclass(frozen=True, slots=True)
class ForwardOpened:
    """A pair is complete: connect to the port."""

    forward_id: int
    port: int


@dataclass(frozen=True, slots=True)
class ForwardReceived:
    """Bytes for the pod; they may come at once after `ForwardOpened`."""

    forward_id: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ForwardEnded:
    """The client has ended its direction; the pod's goes on."""

    forward_id: int


@dataclass(frozen=True, slots=True)
class ForwardReset:
    """The client has dropped this connection; the last event of a forward."""

    forward_id: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The client is gone or broken, and with it all forwards; the last event."""

    reason: str


Event: TypeAlias = (
    ForwardAnnounced
    | ForwardOpened
    | ForwardReceived
    | ForwardEnded
    | ForwardReset
    | Disconnected
)


@dataclass(slots=True)
class _Pair:
    """
    Attributes:
        port: As the first of the two streams said; the data stream's counts.
        ids: Stream ids by type.
        early_data: What came on the data stream before the error stream did.
    """

    forward_id: int
    port: int
    ids: dict[str, int] = field(default_factory=dict)


class PortForwardServer:
    """
    Any number of forwards over one SPDY connection; each `forward_id` is used once.

    No input makes it raise. What is sent on a forward that is gone is swallowed.
    """

    def __init__(self) -> None:
        self._connection = Connection(Role.SERVER)
        self._pairs: dict[int, _Pair] = {}
        self._forward_ids: dict[str, int] = {}
        self._streams: dict[int, tuple[_Pair, str]] = {}
        self._next_id = 0
        self._closed = False

    @property
    def forward_count(self) -> int:
        """How many forwards are open or announced."""
        return len(self._pairs)

    def data_to_send(self) -> bytes:
        """Return what must be written now, all of it and in order."""
        return self._connection.data_to_send()

    def receive_data(self, data: bytes) -> list[Event]:
        """Take bytes of the client."""
        return self._handle_events(self._connection.receive_data(data))

    def receive_eof(self) -> list[Event]:
        """Take the end of the client's bytes."""
        return self._handle_events(self._connection.receive_eof())
