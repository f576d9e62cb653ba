"""
The server's side of a port-forward over SPDY, without I/O: pairs of streams and what flows.

For each connection the client opens two streams with the headers port, requestid and streamtype:
`error` first, which only we write to, then `data`. A text on an error stream makes kubectl end the
whole port-forward.
"""

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

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

MAX_REQUEST_ID_LENGTH = 64
"""Cap of a request id, a small number in practice: it's kept as long as its pair."""

_ERROR = "error"
_DATA = "data"


@dataclass(frozen=True, slots=True)
class ForwardAnnounced:
    """One stream of a pair is there, the other should follow; data may come from now on."""

    forward_id: int


@dataclass(frozen=True, slots=True)
class ForwardOpened:
    """A forward is complete: connect to the port."""

    forward_id: int
    port: int


@dataclass(frozen=True, slots=True)
class ForwardReceived:
    """Bytes of the peer."""

    forward_id: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ForwardEnded:
    """The peer has ended its direction; ours goes on."""

    forward_id: int


@dataclass(frozen=True, slots=True)
class ForwardReset:
    """The client has dropped this connection; the last event of a forward."""

    forward_id: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The peer is gone or broken, and with it all forwards; the last event."""

    reason: str


Event: TypeAlias = (
    ForwardAnnounced | ForwardOpened | ForwardReceived | ForwardEnded | ForwardReset | Disconnected
)
"""What a server learns."""


def parse_port(text: str | None) -> int | None:
    """Return a port number, None if it isn't one."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 5:
        return None
    port = int(text)
    return port if 0 < port <= MAX_PORT else None


class ForwardServer(Protocol):
    """
    The port-forwards of one connection, whatever its protocol.

    Attributes:
        half_closes: Whether one direction can end and the other go on.
    """

    half_closes: bool

    @property
    def forward_count(self) -> int:
        """How many forwards are open or announced."""

    @property
    def closed(self) -> bool:
        """Whether either side has said goodbye: no forward will come."""

    def start(self) -> list[Event]:
        """Begin, once the upgrade has been answered."""

    def data_to_send(self) -> bytes:
        """Return what must be written now, all of it and in order."""

    def receive_data(self, data: bytes) -> list[Event]:
        """Take bytes of the client."""

    def receive_eof(self) -> list[Event]:
        """Take the end of the client's bytes."""

    def send_data(self, forward_id: int, data: bytes) -> None:
        """Send bytes of the pod."""

    def send_eof(self, forward_id: int) -> None:
        """End the pod's direction."""

    def finish(self, forward_id: int) -> None:
        """End a forward well."""

    def abort(self, forward_id: int, message: str = "") -> None:
        """Drop a connection, with a text for the user only if it never came about."""

    def give_up(self, forward_id: int) -> None:
        """Drop a forward that is announced, but didn't open."""

    def close(self, reason: str) -> None:
        """Drop all connections, tell why, and say goodbye."""

    def send_probe(self) -> None:
        """Send something for its effect on the connection alone."""


@dataclass(slots=True)
class _Pair:
    """
    Two streams, or the first of them.

    Attributes:
        forward_id: Ours.
        request_id: The client's.
        ids: Stream ids by type.
    """

    forward_id: int
    request_id: str
    ids: dict[str, int] = field(default_factory=dict)


class PortForwardServer:
    """
    Any number of forwards over one SPDY connection; each `forward_id` is used once.

    No input makes it raise. What is sent on a forward that is gone is swallowed.

    Attributes:
        half_closes: Each direction ends on its own.
    """

    half_closes = True

    def __init__(self) -> None:
        self._connection = Connection(Role.SERVER)
        self._pairs: dict[int, _Pair] = {}
        self._requests: dict[str, _Pair] = {}
        self._streams: dict[int, tuple[_Pair, str]] = {}
        self._next_id = 0
        self._closed = False
        self._disconnected = False

    @property
    def forward_count(self) -> int:
        """How many forwards are open or announced."""
        return len(self._pairs)

    @property
    def closed(self) -> bool:
        """Whether either side has said goodbye."""
        return self._closed

    def start(self) -> list[Event]:
        """Begin; nothing happens before the client opens streams."""
        return []

    def data_to_send(self) -> bytes:
        """Return what must be written now, all of it and in order."""
        return self._connection.data_to_send()

    def receive_data(self, data: bytes) -> list[Event]:
        """Take bytes of the client."""
        return self._handle_events(self._connection.receive_data(data))

    def receive_eof(self) -> list[Event]:
        """Take the end of the client's bytes."""
        return self._handle_events(self._connection.receive_eof())

    # Our side.

    def send_data(self, forward_id: int, data: bytes) -> None:
        """Send bytes of the pod."""
        self._send(forward_id, _DATA, data)

    def send_eof(self, forward_id: int) -> None:
        """End the pod's direction; the client's goes on."""
        self._send(forward_id, _DATA, b"", fin=True)

    def finish(self, forward_id: int) -> None:
        """End a forward well: the pod has ended its direction, and takes no more of the client."""
        self.send_eof(forward_id)
        self.abort(forward_id)

    def abort(self, forward_id: int, message: str = "") -> None:
        """
        Drop a connection, with a text for the user only if it never came about.

        An empty end of the error stream leaves the client's other forwards alone.
        """
        self._send(forward_id, _ERROR, message.encode(), fin=True)
        pair = self._pairs.get(forward_id)
        if pair is not None:
            data_id = pair.ids.get(_DATA)
            if data_id is not None and self._connection.is_open(data_id):
                self._connection.reset_stream(data_id)
            self._forget(pair)

    def give_up(self, forward_id: int) -> None:
        """Drop a forward that is announced, but whose second stream didn't come."""
        pair = self._pairs.get(forward_id)
        if pair is not None and len(pair.ids) == 1:
            self.abort(forward_id, f"request {pair.request_id}: timed out waiting for streams")

    def close(self, reason: str) -> None:
        """Drop all connections, tell why, and say goodbye."""
        if self._closed:
            return
        for forward_id in tuple(self._pairs):
            self.abort(forward_id, reason)
        self._closed = True
        if not self._connection.terminated:
            self._connection.send_go_away()

    def send_probe(self) -> None:
        """Send a ping for its effect on the connection alone; none when many are unanswered."""
        if not self._closed and self._connection.can_ping:
            self._connection.send_ping()

    def _send(self, forward_id: int, kind: str, data: bytes, *, fin: bool = False) -> None:
        pair = self._pairs.get(forward_id)
        stream_id = pair.ids.get(kind) if pair is not None else None
        if stream_id is not None and self._connection.is_writable(stream_id):
            self._connection.send_data(stream_id, data, fin=fin)

    # The client's side.

    def _handle_events(self, spdy_events: list[SpdyEvent]) -> list[Event]:
        events: list[Event] = []
        for event in spdy_events:
            if self._disconnected:
                break
            match event:
                case StreamOpened():
                    events += self._handle_opened(event)
                case DataReceived():
                    events += self._handle_data(event)
                case StreamReset():
                    events += self._handle_reset(event.stream_id)
                case GoAwayReceived() if not self._closed:
                    events.append(self._disconnect("the client sent GOAWAY"))
                case ConnectionTerminated():
                    reason = event.error or "the client closed the connection"
                    events.append(self._disconnect(reason))
                case _:
                    pass  # Replies and echoes answer what we never send; headers mean nothing here.
        return events

    def _disconnect(self, reason: str) -> Disconnected:
        self._closed = True
        self._disconnected = True
        self._pairs.clear()
        self._requests.clear()
        self._streams.clear()
        return Disconnected(reason)

    def _handle_opened(self, event: StreamOpened) -> list[Event]:
        stream_id = event.stream_id
        if not self._connection.is_open(stream_id):
            return []  # What came later with the same bytes has ended it.
        if event.unidirectional:
            self._connection.reset_stream(stream_id, ResetCode.REFUSED_STREAM)
            return []
        kind = find_header(event.headers, "streamtype")
        port = parse_port(find_header(event.headers, "port"))
        request_id = _find_request_id(event.headers, stream_id, kind)
        pair = self._requests.get(request_id)
        if (
            kind not in (_ERROR, _DATA)
            or port is None
            or len(request_id) > MAX_REQUEST_ID_LENGTH
            or (pair is not None and kind in pair.ids)
        ):
            self._connection.reset_stream(stream_id, ResetCode.PROTOCOL_ERROR)
            return []
        # At once and empty: the client opens the next stream only after this.
        self._connection.send_reply(stream_id)
        events: list[Event] = []
        if pair is None:
            pair = self._add_pair(request_id)
            events.append(ForwardAnnounced(pair.forward_id))
        else:
            events.append(ForwardOpened(pair.forward_id, port))
        pair.ids[kind] = stream_id
        self._streams[stream_id] = (pair, kind)
        if event.fin and kind == _DATA:
            events.append(ForwardEnded(pair.forward_id))
        return events

    def _add_pair(self, request_id: str) -> _Pair:
        pair = _Pair(self._next_id, request_id)
        self._next_id += 1
        self._pairs[pair.forward_id] = pair
        self._requests[request_id] = pair
        return pair

    def _handle_data(self, event: DataReceived) -> list[Event]:
        pair, kind = self._streams.get(event.stream_id, (None, ""))
        if pair is None or kind != _DATA:
            return []  # Clients have nothing to say on error streams but their end.
        events: list[Event] = []
        if event.data:
            events.append(ForwardReceived(pair.forward_id, event.data))
        if event.fin:
            events.append(ForwardEnded(pair.forward_id))
        return events

    def _handle_reset(self, stream_id: int) -> list[Event]:
        """Forget a forward whose data stream is reset; Go clients await the other stream's end."""
        pair, kind = self._streams.get(stream_id, (None, ""))
        if pair is None or kind != _DATA:
            return []
        self.abort(pair.forward_id)
        return [ForwardReset(pair.forward_id)]

    def _forget(self, pair: _Pair) -> None:
        del self._pairs[pair.forward_id]
        del self._requests[pair.request_id]
        for stream_id in pair.ids.values():
            self._streams.pop(stream_id, None)


def _find_request_id(headers: Headers, stream_id: int, kind: str | None) -> str:
    """Return the id by which streams are paired; clients without one open data after error."""
    request_id = find_header(headers, "requestid")
    if request_id:
        return request_id
    return f"#{stream_id - 2 if kind == _DATA else stream_id}"
