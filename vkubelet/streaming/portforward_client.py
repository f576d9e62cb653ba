"""
The client's side of a port-forward over SPDY (also in a WebSocket tunnel), without I/O.

    client = PortForwardClient()                   # after the 101
    forward = client.open(8080)                    # one TCP connection to that port
    write(client.data_to_send())                   # after each call, all of it and in order
    events = client.receive_data(data)             # ForwardReady, ForwardReceived, ForwardEnded, …
    client.send_data(forward, b"…"); client.send_eof(forward); client.reset(forward)
    client.close()

The protocol doesn't tell when the far side has connected: `ForwardFailed` comes after
`ForwardReady` if nobody listens.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from vkubelet.streaming.errors import LocalProtocolError
from vkubelet.streaming.portforward import Disconnected, ForwardEnded, ForwardReceived
from vkubelet.streaming.spdy.connection import Connection, Role
from vkubelet.streaming.spdy.events import (
    ConnectionTerminated,
    DataReceived,
    Event as SpdyEvent,
    GoAwayReceived,
    StreamReplied,
    StreamReset,
)

MAX_ERROR_BYTES = 4 * 1024
"""Cap of what is kept of an error stream: a sentence."""

RESET_MESSAGE = "the connection was reset"
"""Of a `ForwardFailed` without a word of the server: the pod's end of an established connection."""

_UP, _DOWN, _ERROR = "up", "down", "error"


@dataclass(frozen=True, slots=True)
class ForwardReady:
    """Both streams have been accepted: data may be sent."""

    forward_id: int


@dataclass(frozen=True, slots=True)
class ForwardFailed:
    """The server reports an error, or has cut the connection; the last event of a forward."""

    forward_id: int
    message: str


ClientEvent: TypeAlias = (
    ForwardReady | ForwardReceived | ForwardEnded | ForwardFailed | Disconnected
)


@dataclass(slots=True)
class _Forward:
    """
    Two streams of ours.

    Attributes:
        error_id: The stream that brings an error.
        data_id: The stream that brings and takes data.
        to_accept: Those that the server hasn't accepted yet.
        to_end: What still flows, as far as its events were handled: the table is empty in the end.
        error: What has come on the error stream.
    """

    error_id: int
    data_id: int
    to_accept: set[int]
    to_end: set[str] = field(default_factory=lambda: {_UP, _DOWN, _ERROR})
    error: bytearray = field(default_factory=bytearray)


class PortForwardClient:
    """Any number of connections to ports of one pod, over one SPDY connection."""

    def __init__(self) -> None:
        self._connection = Connection(Role.CLIENT)
        self._forwards: dict[int, _Forward] = {}
        self._ids: dict[int, int] = {}
        self._next_id = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether no forward can be opened (any more)."""
        return self._closed

    @property
    def forward_ids(self) -> frozenset[int]:
        """The forwards that haven't ended in both directions."""
        return frozenset(self._forwards)

    def data_to_send(self) -> bytes:
        """Return what must be written now, all of it and in order."""
        return self._connection.data_to_send()

    def receive_data(self, data: bytes) -> list[ClientEvent]:
        """Take bytes of the server."""
        return self._handle_events(self._connection.receive_data(data))

    def receive_eof(self) -> list[ClientEvent]:
        """Take the end of the server's bytes."""
        return self._handle_events(self._connection.receive_eof())

    def open(self, port: int) -> int:
        """
        Ask for a connection to a port of the pod and return its id; data after `ForwardReady`.

        Raises:
            LocalProtocolError: After the connection has ended.
        """
        if self._closed:
            raise LocalProtocolError("the port-forward has ended")
        forward_id = self._next_id
        self._next_id += 1
        headers = [("port", str(port)), ("requestid", str(forward_id))]
        error_id = self._connection.open_stream([("streamtype", "error"), *headers])
        data_id = self._connection.open_stream([("streamtype", "data"), *headers])
        self._forwards[forward_id] = _Forward(error_id, data_id, {error_id, data_id})
        self._ids[error_id] = self._ids[data_id] = forward_id
        return forward_id

    def send_data(self, forward_id: int, data: bytes) -> None:
        """
        Send bytes to the pod; swallowed once the forward is gone.

        Raises:
            LocalProtocolError: Before `ForwardReady` or after `send_eof`.
        """
        self._send(forward_id, data)

    def send_eof(self, forward_id: int) -> None:
        """End our direction; the pod's goes on."""
        self._send(forward_id, b"", fin=True)

    def reset(self, forward_id: int) -> None:
        """Drop a connection at once; nothing if it's gone."""
        forward = self._forwards.get(forward_id)
        if forward is not None and not self._connection.terminated:
            for stream_id in (forward.data_id, forward.error_id):
                if self._connection.is_open(stream_id):
                    self._connection.reset_stream(stream_id)
            self._forget(forward_id)

    def send_ping(self) -> None:
        """Send a ping for its effect on the connection alone; none when many are unanswered."""
        if self._connection.can_ping and not self._closed:
            self._connection.send_ping()

    def close(self) -> None:
        """Drop all connections and say goodbye."""
        if self._closed:
            return
        for forward_id in tuple(self._forwards):
            self.reset(forward_id)
        self._closed = True
        if not self._connection.terminated:
            self._connection.send_go_away()

    def _send(self, forward_id: int, data: bytes, *, fin: bool = False) -> None:
        forward = self._forwards.get(forward_id)
        if forward is None:
            return
        if forward.to_accept:
            raise LocalProtocolError(f"forward {forward_id} isn't ready")
        if _UP not in forward.to_end:
            raise LocalProtocolError(f"our side of forward {forward_id} has ended")
        if self._connection.is_writable(forward.data_id):
            self._connection.send_data(forward.data_id, data, fin=fin)
        if fin:
            self._end(forward_id, forward, _UP)

    def _handle_events(self, spdy_events: list[SpdyEvent]) -> list[ClientEvent]:
        events: list[ClientEvent] = []
        for event in spdy_events:
            match event:
                case GoAwayReceived() if not self._closed:
                    events.append(self._disconnect("the server sent GOAWAY"))
                case ConnectionTerminated() if not self._closed:
                    reason = event.error or "the server closed the connection"
                    events.append(self._disconnect(reason))
                case StreamReplied() | DataReceived() | StreamReset():
                    events += self._handle_stream(event)
                case _:
                    pass  # Servers open no streams; echoes and headers mean nothing here.
        return events

    def _disconnect(self, reason: str) -> Disconnected:
        self._closed = True
        self._forwards.clear()
        self._ids.clear()
        return Disconnected(reason)

    def _handle_stream(
        self, event: StreamReplied | DataReceived | StreamReset
    ) -> list[ClientEvent]:
        forward_id = self._ids.get(event.stream_id)
        if forward_id is None:
            return []
        forward = self._forwards[forward_id]
        is_error = event.stream_id == forward.error_id
        events: list[ClientEvent] = []
        match event:
            case StreamReplied():
                events += self._handle_reply(forward_id, forward, event.stream_id)
            case DataReceived() if is_error:
                forward.error += event.data[: MAX_ERROR_BYTES - len(forward.error)]
            case DataReceived() if event.data:
                events.append(ForwardReceived(forward_id, event.data))
            case _:
                pass
        if isinstance(event, StreamReset) or event.fin:
            if forward.error or (isinstance(event, StreamReset) and not is_error):
                events.append(ForwardFailed(forward_id, _describe(forward)))
                self.reset(forward_id)
                return events
            if not is_error:
                events.append(ForwardEnded(forward_id))
            self._end(forward_id, forward, _ERROR if is_error else _DOWN)
        return events

    def _handle_reply(
        self, forward_id: int, forward: _Forward, stream_id: int
    ) -> list[ClientEvent]:
        forward.to_accept.discard(stream_id)
        if stream_id == forward.error_id and self._connection.is_writable(stream_id):
            self._connection.send_data(stream_id, b"", fin=True)  # we never write on it
        return [] if forward.to_accept else [ForwardReady(forward_id)]

    def _end(self, forward_id: int, forward: _Forward, what: str) -> None:
        forward.to_end.discard(what)
        if not forward.to_end:
            self._forget(forward_id)

    def _forget(self, forward_id: int) -> None:
        forward = self._forwards.pop(forward_id, None)
        if forward is not None:
            del self._ids[forward.error_id], self._ids[forward.data_id]


def _describe(forward: _Forward) -> str:
    text = forward.error.decode("utf-8", "replace").strip()
    return text or RESET_MESSAGE
