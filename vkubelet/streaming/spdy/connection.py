"""
A SPDY/3.1 connection without I/O: bytes to events, calls to bytes, for either role.

Flow control isn't part of it: Kubernetes' peers (moby/spdystream) have none.

    from the peer    receive_data(bytes), receive_eof() -> events
    to the peer      open_stream, send_… -> data_to_send() -> bytes, to be written all and in order
"""

import enum
from collections.abc import Iterable, Iterator

from vkubelet.streaming.errors import LocalProtocolError
from vkubelet.streaming.spdy import frames
from vkubelet.streaming.spdy.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    GoAwayReceived,
    HeadersReceived,
    PingAcknowledged,
    StreamOpened,
    StreamReplied,
    StreamReset,
)
from vkubelet.streaming.spdy.frames import FrameDecoder, FrameError, GoAwayCode, ResetCode
from vkubelet.streaming.spdy.headers import HeaderBlockError, HeaderCompressor, HeaderDecompressor

MAX_STREAMS = 1024
"""Open streams of the peer; a port-forward takes two a connection, an exec five in all."""

MAX_PENDING_PINGS = 64
"""Pings of ours that wait for their echo; more say that the peer doesn't answer."""

MAX_UNSENT_REPLY_BYTES = 1024 * 1024
"""Echoes and resets that the peer made us produce and that nobody has fetched."""


class Role(enum.Enum):
    """Our side; clients have odd stream and ping ids, servers even ones."""

    CLIENT = 1
    SERVER = 0


class StreamState(enum.Enum):
    """What may still flow on a stream; a stream that is closed leaves the table."""

    OPEN = enum.auto()
    HALF_CLOSED_LOCAL = enum.auto()
    HALF_CLOSED_REMOTE = enum.auto()
    CLOSED = enum.auto()


class StreamInput(enum.Enum):
    """What moves a stream to another state."""

    SEND_FIN = enum.auto()
    RECEIVE_FIN = enum.auto()
    RESET = enum.auto()


TRANSITIONS = {
    (StreamState.OPEN, StreamInput.SEND_FIN): StreamState.HALF_CLOSED_LOCAL,
    (StreamState.OPEN, StreamInput.RECEIVE_FIN): StreamState.HALF_CLOSED_REMOTE,
    (StreamState.OPEN, StreamInput.RESET): StreamState.CLOSED,
    (StreamState.HALF_CLOSED_LOCAL, StreamInput.RECEIVE_FIN): StreamState.CLOSED,
    (StreamState.HALF_CLOSED_LOCAL, StreamInput.RESET): StreamState.CLOSED,
    (StreamState.HALF_CLOSED_REMOTE, StreamInput.SEND_FIN): StreamState.CLOSED,
    (StreamState.HALF_CLOSED_REMOTE, StreamInput.RESET): StreamState.CLOSED,
}
"""Pairs that aren't here are mistakes: of ours, raised; of the peer's, ignored (as Go peers do)."""


class _Stream:
    __slots__ = ("local", "replied", "state")

    def __init__(self, state: StreamState, *, local: bool, replied: bool) -> None:
        self.state = state
        self.local = local
        self.replied = replied


class Connection:
    """
    One side of a SPDY connection.

    No input makes it raise: a broken peer gets a GOAWAY, `ConnectionTerminated` ends the events.
    Our own misuse raises `LocalProtocolError` and changes nothing.
    """

    def __init__(self, role: Role, *, max_streams: int = MAX_STREAMS) -> None:
        self._role = role
        self._max_streams = max_streams
        self._decoder = FrameDecoder()
        self._compressor = HeaderCompressor()
        self._decompressor = HeaderDecompressor()
        self._streams: dict[int, _Stream] = {}
        self._next_stream_id = 1 if role is Role.CLIENT else 2
        self._next_ping_id = self._next_stream_id
        self._last_peer_stream_id = 0
        self._pings: set[int] = set()
        self._output: list[bytes] = []
        self._unsent_reply_bytes = 0
        self._terminated = False
        self._go_away_sent = False

    @property
    def terminated(self) -> bool:
        """Whether `ConnectionTerminated` has been reported."""
        return self._terminated

    @property
    def stream_ids(self) -> frozenset[int]:
        """Ids of the streams that are open, wholly or half."""
        return frozenset(self._streams)

    def is_open(self, stream_id: int) -> bool:
        """Return whether a stream is open, wholly or half."""
        return stream_id in self._streams

    def is_writable(self, stream_id: int) -> bool:
        """Return whether our side of a stream is open; a reply may still be missing."""
        stream = self._streams.get(stream_id)
        return stream is not None and (stream.state, StreamInput.SEND_FIN) in TRANSITIONS

    @property
    def can_ping(self) -> bool:
        """Whether `send_ping` is possible: few pings are unanswered, and there is a peer."""
        return not self._terminated and len(self._pings) < MAX_PENDING_PINGS

    def data_to_send(self) -> bytes:
        """Return what must be written now, all of it and in order: headers are compressed."""
        data = b"".join(self._output)
        self._output.clear()
        self._unsent_reply_bytes = 0
        return data

    # The peer's side.

    def receive_data(self, data: bytes) -> list[Event]:
        """Take bytes of the peer; bytes after the end are ignored."""
        events: list[Event] = []
        if self._terminated:
            return events
        try:
            for frame in self._decoder.decode(data):
                events += self._handle_frame(frame)
                if self._unsent_reply_bytes > MAX_UNSENT_REPLY_BYTES:
                    raise FrameError("peer asks for answers faster than it takes them")  # noqa: TRY301 - one way out
        except (FrameError, HeaderBlockError) as error:
            if not self._go_away_sent:
                self._send_go_away(GoAwayCode.PROTOCOL_ERROR)
            events.append(self._terminate(str(error)))
        return events

    def receive_eof(self) -> list[Event]:
        """Take the end of the peer's bytes: every open stream is void."""
        return [] if self._terminated else [self._terminate(None)]

    def _terminate(self, error: str | None) -> ConnectionTerminated:
        self._terminated = True
        self._streams.clear()
        self._decoder = FrameDecoder()
        return ConnectionTerminated(error=error)

    def _handle_frame(self, frame: frames.Frame) -> Iterable[Event]:  # noqa: PLR0911 - one a type
        match frame:
            case frames.Data():
                return self._handle_data(frame)
            case frames.SynStream():
                return self._handle_syn_stream(frame)
            case frames.SynReply():
                return self._handle_syn_reply(frame)
            case frames.HeadersFrame():
                return self._handle_headers(frame)
            case frames.RstStream():
                return self._handle_rst_stream(frame)
            case frames.Ping():
                return self._handle_ping(frame)
            case frames.GoAway():
                return (GoAwayReceived(last_stream_id=frame.last_stream_id, code=frame.code),)
            case frames.Settings() | frames.WindowUpdate() | frames.Unknown():
                return ()

    def _handle_data(self, frame: frames.Data) -> Iterator[Event]:
        """Drop data for unknown, unanswered or half-closed streams, as Go peers do."""
        stream = self._streams.get(frame.stream_id)
        if stream is None or (stream.local and not stream.replied):
            return
        fin = frame.fin
        if (stream.state, StreamInput.RECEIVE_FIN) not in TRANSITIONS:
            return
        if fin:
            self._move(frame.stream_id, StreamInput.RECEIVE_FIN)
        if frame.data or fin:
            yield DataReceived(stream_id=frame.stream_id, data=frame.data, fin=fin)

    def _handle_syn_stream(self, frame: frames.SynStream) -> Iterator[Event]:
        headers = self._decompressor.decompress(frame.block)
        stream_id = frame.stream_id
        if not stream_id:
            raise FrameError("SYN_STREAM for stream 0")
        from_client = bool(stream_id % 2)
        if from_client is (self._role is Role.CLIENT) or stream_id <= self._last_peer_stream_id:
            # Section 2.3.2: an id that isn't the peer's to use, or used before, is a stream error.
            if self._streams.pop(stream_id, None) is not None:
                yield StreamReset(stream_id=stream_id, code=ResetCode.PROTOCOL_ERROR)
            self._answer(frames.RstStream(stream_id=stream_id, code=ResetCode.PROTOCOL_ERROR))
            return
        self._last_peer_stream_id = stream_id
        if self._go_away_sent:  # Section 2.6.6: streams after GOAWAY are ignored.
            return
        if sum(not stream.local for stream in self._streams.values()) >= self._max_streams:
            self._answer(frames.RstStream(stream_id=stream_id, code=ResetCode.REFUSED_STREAM))
            return
        state = StreamState.HALF_CLOSED_LOCAL if frame.unidirectional else StreamState.OPEN
        self._streams[stream_id] = _Stream(state, local=False, replied=frame.unidirectional)
        if frame.fin:
            self._move(stream_id, StreamInput.RECEIVE_FIN)
        yield StreamOpened(
            stream_id=stream_id,
            headers=headers,
            fin=frame.fin,
            unidirectional=frame.unidirectional,
        )

    def _handle_syn_reply(self, frame: frames.SynReply) -> Iterator[Event]:
        headers = self._decompressor.decompress(frame.block)
        stream = self._streams.get(frame.stream_id)
        if stream is None or not stream.local or stream.replied:
            return
        stream.replied = True
        if frame.fin:
            self._move(frame.stream_id, StreamInput.RECEIVE_FIN)
        yield StreamReplied(stream_id=frame.stream_id, headers=headers, fin=frame.fin)

    def _handle_headers(self, frame: frames.HeadersFrame) -> Iterator[Event]:
        headers = self._decompressor.decompress(frame.block)
        stream = self._streams.get(frame.stream_id)
        if stream is None or (stream.state, StreamInput.RECEIVE_FIN) not in TRANSITIONS:
            return
        if frame.fin:
            self._move(frame.stream_id, StreamInput.RECEIVE_FIN)
        yield HeadersReceived(stream_id=frame.stream_id, headers=headers, fin=frame.fin)

    def _handle_rst_stream(self, frame: frames.RstStream) -> Iterator[Event]:
        if frame.stream_id in self._streams:
            self._move(frame.stream_id, StreamInput.RESET)
            yield StreamReset(stream_id=frame.stream_id, code=frame.code)

    def _handle_ping(self, frame: frames.Ping) -> Iterator[Event]:
        if frame.ping_id % 2 != self._role.value:
            self._answer(frame)
        elif frame.ping_id in self._pings:
            self._pings.remove(frame.ping_id)
            yield PingAcknowledged(ping_id=frame.ping_id)

    def _answer(self, frame: frames.Ping | frames.RstStream) -> None:
        data = frames.encode(frame)
        self._unsent_reply_bytes += len(data)
        self._output.append(data)

    def _move(self, stream_id: int, move: StreamInput) -> None:
        stream = self._streams[stream_id]
        stream.state = TRANSITIONS[stream.state, move]
        if stream.state is StreamState.CLOSED:
            del self._streams[stream_id]

    # Our side.

    def open_stream(
        self, headers: Iterable[tuple[str, str]], *, fin: bool = False, unidirectional: bool = False
    ) -> int:
        """Open a stream and return its id; servers may want to reply before data comes."""
        self._check_sendable()
        if self._go_away_sent:
            raise LocalProtocolError("no stream can be opened after GOAWAY")
        if self._next_stream_id > frames.MAX_STREAM_ID:
            raise LocalProtocolError("stream ids are used up")
        block = self._compressor.compress(headers)
        stream_id = self._next_stream_id
        self._next_stream_id += 2
        state = StreamState.HALF_CLOSED_REMOTE if unidirectional else StreamState.OPEN
        self._streams[stream_id] = _Stream(state, local=True, replied=unidirectional)
        frame = frames.SynStream(
            stream_id=stream_id, fin=fin, unidirectional=unidirectional, block=block
        )
        self._output.append(frames.encode(frame))
        if fin:
            self._move(stream_id, StreamInput.SEND_FIN)
        return stream_id

    def send_reply(
        self, stream_id: int, headers: Iterable[tuple[str, str]] = (), *, fin: bool = False
    ) -> None:
        """Accept a stream of the peer: Go clients wait for it, and drop data that comes before."""
        stream = self._sendable_stream(stream_id)
        if stream.local or stream.replied:
            raise LocalProtocolError(f"stream {stream_id} takes no reply")
        block = self._compressor.compress(headers)
        stream.replied = True
        self._output.append(
            frames.encode(frames.SynReply(stream_id=stream_id, fin=fin, block=block))
        )
        if fin:
            self._move(stream_id, StreamInput.SEND_FIN)

    def send_headers(
        self, stream_id: int, headers: Iterable[tuple[str, str]], *, fin: bool = False
    ) -> None:
        """Send more headers on an open stream; Go peers ignore them."""
        self._writable_stream(stream_id)
        block = self._compressor.compress(headers)
        self._output.append(
            frames.encode(frames.HeadersFrame(stream_id=stream_id, fin=fin, block=block))
        )
        if fin:
            self._move(stream_id, StreamInput.SEND_FIN)

    def send_data(self, stream_id: int, data: bytes, *, fin: bool = False) -> None:
        """Send bytes in frames of at most `MAX_DATA_FRAME_BYTES`; `fin` half-closes the stream."""
        self._writable_stream(stream_id)
        if not data and not fin:
            return
        step = frames.MAX_DATA_FRAME_BYTES
        for start in range(0, max(len(data), 1), step):
            last = start + step >= len(data)
            part = data[start : start + step]
            self._output.append(
                frames.encode(frames.Data(stream_id=stream_id, data=part, fin=fin and last))
            )
        if fin:
            self._move(stream_id, StreamInput.SEND_FIN)

    def reset_stream(self, stream_id: int, code: ResetCode = ResetCode.CANCEL) -> None:
        """End a stream at once, in both directions."""
        self._sendable_stream(stream_id)
        self._move(stream_id, StreamInput.RESET)
        self._output.append(frames.encode(frames.RstStream(stream_id=stream_id, code=code)))

    def send_ping(self) -> int:
        """Ask the peer for an echo and return its id."""
        self._check_sendable()
        if not self.can_ping:
            raise LocalProtocolError(f"{MAX_PENDING_PINGS} pings are unanswered")
        ping_id = self._next_ping_id
        self._next_ping_id = (self._next_ping_id + 2) & 0xFFFFFFFF or 2
        self._pings.add(ping_id)
        self._output.append(frames.encode(frames.Ping(ping_id=ping_id)))
        return ping_id

    def send_go_away(self, code: GoAwayCode = GoAwayCode.OK) -> None:
        """Say that we accept no more streams. Go peers read nothing after it: send it last."""
        self._check_sendable()
        if self._go_away_sent:
            raise LocalProtocolError("GOAWAY has been sent")
        self._send_go_away(code)

    def _send_go_away(self, code: GoAwayCode) -> None:
        self._go_away_sent = True
        frame = frames.GoAway(last_stream_id=self._last_peer_stream_id, code=code)
        self._output.append(frames.encode(frame))

    def _check_sendable(self) -> None:
        if self._terminated:
            raise LocalProtocolError("the connection has ended")

    def _sendable_stream(self, stream_id: int) -> _Stream:
        self._check_sendable()
        stream = self._streams.get(stream_id)
        if stream is None:
            raise LocalProtocolError(f"stream {stream_id} isn't open")
        return stream

    def _writable_stream(self, stream_id: int) -> None:
        stream = self._sendable_stream(stream_id)
        if (stream.state, StreamInput.SEND_FIN) not in TRANSITIONS:
            raise LocalProtocolError(f"our side of stream {stream_id} is closed")
        if not stream.local and not stream.replied:
            raise LocalProtocolError(f"stream {stream_id} hasn't been replied to")
