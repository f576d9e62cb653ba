"""
The server's side of an exec or attach over SPDY, without I/O: its streams, input and end.

The client opens one stream for each of error, stdin, stdout, stderr and resize that it wants, and
waits for each reply. The command may start at `StreamsReady`.
"""

import enum
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from vkubelet.streaming.channels import (
    PROTOCOL_V1,
    PROTOCOL_V2,
    PROTOCOL_V3,
    PROTOCOL_V4,
    CommandStatus,
    ResizeParser,
    serialize_status_for,
)
from vkubelet.streaming.errors import LocalProtocolError
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
from vkubelet.streaming.spdy.headers import find_header

SPDY_PROTOCOLS = (PROTOCOL_V4, PROTOCOL_V3, PROTOCOL_V2, PROTOCOL_V1)
"""What is served over SPDY, as a real kubelet does; v5 is for WebSockets."""

MAX_STREAMS = 16
"""Streams that an exec may hold open: five are useful."""

_PROTOCOLS_WITH_RESIZE = (PROTOCOL_V4, PROTOCOL_V3)


class StreamType(enum.StrEnum):
    """Values of the `streamtype` header."""

    ERROR = "error"
    STDIN = "stdin"
    STDOUT = "stdout"
    STDERR = "stderr"
    RESIZE = "resize"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Which streams were asked for; with a terminal there is no stderr of its own."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    def expected(self, protocol: str) -> frozenset[StreamType]:
        """Return the streams that the client will open."""
        wanted = {
            StreamType.ERROR: True,
            StreamType.STDIN: self.stdin,
            StreamType.STDOUT: self.stdout,
            StreamType.STDERR: self.stderr and not self.tty,
            StreamType.RESIZE: self.tty and protocol in _PROTOCOLS_WITH_RESIZE,
        }
        return frozenset(kind for kind, is_wanted in wanted.items() if is_wanted)


@dataclass(frozen=True, slots=True)
class StreamsReady:
    """All streams are there: the command may start."""


@dataclass(frozen=True, slots=True)
class StdinReceived:
    """Bytes for the command's stdin."""

    data: bytes


@dataclass(frozen=True, slots=True)
class StdinClosed:
    """The client has no more stdin."""


@dataclass(frozen=True, slots=True)
class Resized:
    """The client's terminal has another size."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The client is gone or broken; the last event."""

    reason: str


Event: TypeAlias = StreamsReady | StdinReceived | StdinClosed | Resized | Disconnected


class Phase(enum.Enum):
    """How far an exec has come."""

    OPENING = enum.auto()
    RUNNING = enum.auto()
    FINISHED = enum.auto()
    DISCONNECTED = enum.auto()


class CommandServer(Protocol):
    """One exec or attach, whatever its protocol."""

    @property
    def phase(self) -> Phase:
        """How far it has come."""

    @property
    def stdin_closed(self) -> bool:
        """Whether no stdin will come (any more)."""

    def start(self) -> list[Event]:
        """Begin, once the upgrade has been answered."""

    def data_to_send(self) -> bytes:
        """Return what must be written now, all of it and in order."""

    def receive_data(self, data: bytes) -> list[Event]:
        """Take bytes of the client."""

    def receive_eof(self) -> list[Event]:
        """Take the end of the client's bytes."""

    def send_output(self, stream: StreamType, data: bytes) -> None:
        """Send bytes of stdout or stderr; swallowed if the client doesn't want them or is gone."""

    def send_status(self, status: CommandStatus) -> None:
        """End the command: output is complete, here is the status."""

    def send_probe(self) -> None:
        """Send something for its effect on the connection alone."""

    def send_go_away(self) -> None:
        """Give up a command whose streams never came."""


class RemoteCommandServer:
    """
    One exec or attach over one SPDY connection.

    Attributes:
        phase: How far it has come.
    """

    def __init__(self, options: StreamOptions, protocol: str) -> None:
        if protocol not in SPDY_PROTOCOLS:
            raise LocalProtocolError(f"{protocol} isn't served over SPDY")
        self.phase = Phase.OPENING
        self._protocol = protocol
        self._expected = options.expected(protocol)
        self._connection = Connection(Role.SERVER, max_streams=MAX_STREAMS)
        self._ids: dict[StreamType, int] = {}
        self._types: dict[int, StreamType] = {}
        self._sizes = ResizeParser()
        self._stdin_closed = StreamType.STDIN not in self._expected

    @property
    def stdin_closed(self) -> bool:
        """Whether no stdin will come (any more)."""
        return self._stdin_closed

    def start(self) -> list[Event]:
        """Begin; the client opens its streams."""
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

    def send_output(self, stream: StreamType, data: bytes) -> None:
        """
        Send bytes of stdout or stderr; swallowed if the client didn't ask for them or is gone.

        Raises:
            LocalProtocolError: Before `StreamsReady` or after `send_status`.
        """
        if self.phase is Phase.DISCONNECTED:
            return
        if self.phase is not Phase.RUNNING:
            raise LocalProtocolError(f"no output can be sent while {self.phase.name}")
        stream_id = self._ids.get(stream)
        if stream_id is not None:
            self._connection.send_data(stream_id, data)

    def send_status(self, status: CommandStatus) -> None:
        """
        End the exec: half-close the output, send the status, close the rest, say goodbye.

        GOAWAY comes last, as Go peers read nothing after it. Without a status they see success.
        The peer closes the connection; whoever closes it first loses output.
        """
        if self.phase is Phase.DISCONNECTED:
            return
        if self.phase is not Phase.RUNNING:
            raise LocalProtocolError(f"no status can be sent while {self.phase.name}")
        self.phase = Phase.FINISHED
        self._half_close(StreamType.STDOUT)
        self._half_close(StreamType.STDERR)
        self._half_close(StreamType.ERROR, serialize_status_for(self._protocol, status))
        self._half_close(StreamType.STDIN)
        self._half_close(StreamType.RESIZE)
        self._connection.send_go_away()

    def send_probe(self) -> None:
        """Send a ping for its effect on the connection alone; none when many are unanswered."""
        if self.phase is not Phase.DISCONNECTED and self._connection.can_ping:
            self._connection.send_ping()

    def send_go_away(self) -> None:
        """Give up an exec whose streams never came."""
        if self.phase is Phase.OPENING:
            self.phase = Phase.FINISHED
            self._connection.send_go_away()

    def _half_close(self, stream: StreamType, data: bytes = b"") -> None:
        stream_id = self._ids.get(stream)
        if stream_id is not None:
            self._connection.send_data(stream_id, data, fin=True)

    def _handle_events(self, spdy_events: list[SpdyEvent]) -> list[Event]:
        events: list[Event] = []
        for event in spdy_events:
            if self.phase is Phase.DISCONNECTED:
                break
            match event:
                case StreamOpened():
                    events += self._handle_opened(event)
                case DataReceived():
                    events += self._handle_data(event)
                case StreamReset():
                    events += self._handle_reset(event.stream_id)
                case GoAwayReceived():
                    events += self._disconnect("the client sent GOAWAY")
                case ConnectionTerminated():
                    reason = event.error or "the client closed the connection"
                    self.phase = Phase.DISCONNECTED
                    events.append(Disconnected(reason))
                case _:
                    pass  # Replies and echoes answer what we never send; headers mean nothing here.
        return events

    def _disconnect(self, reason: str) -> list[Event]:
        """Note that the client gave up; after our own goodbye it's the normal end."""
        if self.phase is Phase.FINISHED:
            return []
        self.phase = Phase.DISCONNECTED
        return [Disconnected(reason)]

    def _handle_opened(self, event: StreamOpened) -> list[Event]:
        if not self._connection.is_open(event.stream_id):
            return []  # What came later with the same bytes has ended it.
        if self.phase is not Phase.OPENING:
            self._connection.reset_stream(event.stream_id, ResetCode.REFUSED_STREAM)
            return []
        kind = find_header(event.headers, "streamtype")
        if kind in self._ids or event.unidirectional:
            self._connection.reset_stream(event.stream_id, ResetCode.PROTOCOL_ERROR)
            return []
        # At once and empty: the client opens the next stream only after this.
        self._connection.send_reply(event.stream_id)
        if kind not in self._expected:
            return []  # What is unknown, or wasn't asked for, is accepted and unused.
        stream = StreamType(kind)
        self._ids[stream] = event.stream_id
        self._types[event.stream_id] = stream
        events: list[Event] = []
        if len(self._ids) == len(self._expected):
            self.phase = Phase.RUNNING
            events.append(StreamsReady())
        if event.fin and stream is StreamType.STDIN:
            events += self._close_stdin()
        return events

    def _handle_data(self, event: DataReceived) -> list[Event]:
        events: list[Event] = []
        match self._types.get(event.stream_id):
            case StreamType.STDIN:
                if event.data:
                    events.append(StdinReceived(event.data))
                if event.fin:
                    events += self._close_stdin()
            case StreamType.RESIZE:
                sizes = self._sizes.receive_data(event.data)
                events += [Resized(width, height) for width, height in sizes]
            case _:
                pass  # Clients have nothing to say on the other streams.
        return events

    def _handle_reset(self, stream_id: int) -> list[Event]:
        stream = self._types.pop(stream_id, None)
        if stream is None:
            return []
        del self._ids[stream]
        if stream is StreamType.STDIN and self.phase is Phase.RUNNING:
            return self._close_stdin()
        if stream is StreamType.ERROR or self.phase is Phase.OPENING:
            return self._disconnect(f"the client reset the {stream} stream")
        return []

    def _close_stdin(self) -> list[Event]:
        if self._stdin_closed:
            return []
        self._stdin_closed = True
        return [StdinClosed()]
