"""
The client's side of an exec or attach over SPDY, without I/O.

    client = RemoteCommandClient(options)          # after the 101
    write(client.data_to_send())                   # after each call, all of it and in order
    events = client.receive_data(data)             # StreamsReady, OutputReceived…, CommandEnded
    client.send_stdin(b"…"); client.send_stdin_eof(); client.send_resize(80, 24)
    client.close()                                 # at the end, or to leave early
"""

from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from vkubelet.streaming.channels import (
    PROTOCOL_V4,
    PROTOCOLS_WITH_JSON_STATUS,
    CommandStatus,
    parse_status,
    serialize_resize,
)
from vkubelet.streaming.errors import LocalProtocolError
from vkubelet.streaming.remotecommand import (
    SPDY_PROTOCOLS,
    Disconnected,
    Phase,
    StreamOptions,
    StreamsReady,
    StreamType,
)
from vkubelet.streaming.spdy.connection import Connection, Role
from vkubelet.streaming.spdy.events import (
    ConnectionTerminated,
    DataReceived,
    Event as SpdyEvent,
    GoAwayReceived,
    StreamReplied,
    StreamReset,
)

MAX_STATUS_BYTES = 64 * 1024
"""Cap of what is kept of the error stream; a status takes some hundred bytes."""

_OUTPUTS = (StreamType.STDOUT, StreamType.STDERR)


@dataclass(frozen=True, slots=True)
class OutputReceived:
    """Bytes of the command's stdout or stderr."""

    stream: StreamType
    data: bytes


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """The status is known and all output has come; the last event."""

    status: CommandStatus


ClientEvent: TypeAlias = StreamsReady | OutputReceived | CommandEnded | Disconnected
"""What a client learns; `CommandEnded` or `Disconnected` is the last."""


class RemoteCommandClient:
    """
    One exec or attach over one SPDY connection.

    Attributes:
        phase: OPENING until `StreamsReady`, FINISHED with `CommandEnded`, else DISCONNECTED.
        status: The exit status, once it has come; output may still follow.
    """

    def __init__(self, options: StreamOptions, protocol: str = PROTOCOL_V4) -> None:
        """
        Open the first stream.

        Args:
            options: What was asked for in the URL.
            protocol: The server's answer; one of `SPDY_PROTOCOLS`.
        """
        if protocol not in SPDY_PROTOCOLS:
            raise LocalProtocolError(f"{protocol} isn't spoken over SPDY")
        self.phase = Phase.OPENING
        self.status: CommandStatus | None = None
        self._protocol = protocol
        self._connection = Connection(Role.CLIENT)
        expected = options.expected(protocol)
        self._to_open = deque(stream for stream in StreamType if stream in expected)
        self._outputs_left = {stream for stream in _OUTPUTS if stream in expected}
        self._ids: dict[StreamType, int] = {}
        self._types: dict[int, StreamType] = {}
        self._status_data = bytearray()
        self._open_next()

    def data_to_send(self) -> bytes:
        """Return what must be written now, all of it and in order."""
        return self._connection.data_to_send()

    def receive_data(self, data: bytes) -> list[ClientEvent]:
        """Take bytes of the server."""
        return self._handle_events(self._connection.receive_data(data))

    def receive_eof(self) -> list[ClientEvent]:
        """Take the end of the server's bytes."""
        return self._handle_events(self._connection.receive_eof())

    def send_stdin(self, data: bytes) -> None:
        """
        Send bytes of stdin; swallowed once the server wants no more.

        Raises:
            LocalProtocolError: Before `StreamsReady`.
        """
        self._send(StreamType.STDIN, data)

    def send_stdin_eof(self) -> None:
        """End stdin (half-close)."""
        self._send(StreamType.STDIN, b"", fin=True)

    def send_resize(self, width: int, height: int) -> None:
        """Tell the terminal's size; swallowed without a terminal."""
        self._send(StreamType.RESIZE, serialize_resize(width, height))

    def send_ping(self) -> None:
        """Send a ping for its effect on the connection alone; none when many are unanswered."""
        if self._connection.can_ping:
            self._connection.send_ping()

    def close(self) -> None:
        """Reset what is open and say goodbye: the far side ends the command or detaches."""
        if self.phase is Phase.DISCONNECTED or self._connection.terminated:
            return
        self.phase = Phase.DISCONNECTED
        for stream_id in sorted(self._connection.stream_ids):
            self._connection.reset_stream(stream_id)
        self._connection.send_go_away()

    def _send(self, stream: StreamType, data: bytes, *, fin: bool = False) -> None:
        if self.phase is Phase.OPENING:
            raise LocalProtocolError("nothing can be sent before the streams are open")
        stream_id = self._ids.get(stream)
        if self.phase is Phase.RUNNING and stream_id is not None:
            self._connection.send_data(stream_id, data, fin=fin)
            if fin:
                del self._ids[stream]

    def _open_next(self) -> None:
        """Open streams one after the other, as Go clients do: error first."""
        stream = self._to_open.popleft()
        stream_id = self._connection.open_stream([("streamtype", stream)])
        self._ids[stream] = stream_id
        self._types[stream_id] = stream

    def _handle_events(self, spdy_events: list[SpdyEvent]) -> list[ClientEvent]:
        events: list[ClientEvent] = []
        for event in spdy_events:
            if self.phase in (Phase.FINISHED, Phase.DISCONNECTED):
                break
            match event:
                case StreamReplied():
                    events += self._handle_reply(event)
                case DataReceived():
                    events += self._handle_data(event.stream_id, event.data, fin=event.fin)
                case StreamReset():
                    events += self._handle_reset(event.stream_id)
                case GoAwayReceived():
                    events += self._finish("the server sent GOAWAY before the exit status")
                case ConnectionTerminated():
                    events += self._finish(event.error or "the server closed the connection")
                case _:
                    pass  # Servers open no streams; echoes and headers mean nothing here.
        return events

    def _handle_reply(self, event: StreamReplied) -> list[ClientEvent]:
        events: list[ClientEvent] = []
        if self._connection.terminated:
            return events  # What came later with the same bytes has ended it.
        if self._to_open:
            self._open_next()
        elif self.phase is Phase.OPENING and event.stream_id == max(self._types):
            self.phase = Phase.RUNNING
            events.append(StreamsReady())
        if event.fin:
            events += self._handle_data(event.stream_id, b"", fin=True)
        return events

    def _handle_data(self, stream_id: int, data: bytes, *, fin: bool) -> list[ClientEvent]:
        events: list[ClientEvent] = []
        stream = self._types.get(stream_id)
        match stream:
            case StreamType.STDOUT | StreamType.STDERR if data:
                events.append(OutputReceived(stream, data))
            case StreamType.ERROR:
                self._status_data += data[: MAX_STATUS_BYTES - len(self._status_data)]
            case _:
                pass  # Servers have nothing to say on the other streams.
        if fin and stream is not None:
            events += self._close(stream)
        return events

    def _handle_reset(self, stream_id: int) -> list[ClientEvent]:
        stream = self._types[stream_id]
        self._ids.pop(stream, None)
        if self.phase is Phase.OPENING:
            self.phase = Phase.DISCONNECTED
            return [Disconnected(f"the server refused the {stream} stream")]
        return self._close(stream)

    def _close(self, stream: StreamType) -> list[ClientEvent]:
        """Note that the server has ended a stream; the last one ends the command."""
        if stream is StreamType.ERROR:
            self.status = self._read_status()
        self._outputs_left.discard(stream)
        if self.status is None or self._outputs_left or self.phase is not Phase.RUNNING:
            return []
        return self._end(self.status)

    def _finish(self, reason: str) -> list[ClientEvent]:
        """Take what is there when nothing more comes; without a status the end is unknown."""
        if self.status is not None:
            return self._end(self.status)
        if self._status_data:
            return self._end(self._read_status())
        self.phase = Phase.DISCONNECTED
        return [Disconnected(reason)]

    def _end(self, status: CommandStatus) -> list[ClientEvent]:
        self.status = status
        self.phase = Phase.FINISHED
        return [CommandEnded(status)]

    def _read_status(self) -> CommandStatus:
        data = bytes(self._status_data)
        if self._protocol in PROTOCOLS_WITH_JSON_STATUS:
            return parse_status(data)
        text = data.decode("utf-8", "replace").strip()
        return CommandStatus(None, text) if text else CommandStatus(0)
