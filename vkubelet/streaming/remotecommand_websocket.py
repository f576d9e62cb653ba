"""The server's side of an exec or attach over a WebSocket, without I/O."""

from vkubelet.streaming.channels import (
    BASE64_PROTOCOLS,
    PROTOCOL_BASE64_V1,
    PROTOCOL_BASE64_V4,
    PROTOCOL_V1,
    PROTOCOL_V4,
    PROTOCOL_V5,
    Channel,
    ChannelDecoder,
    ChannelError,
    CommandStatus,
    ResizeParser,
    encode_channel,
    serialize_status_for,
)
from vkubelet.streaming.errors import LocalProtocolError
from vkubelet.streaming.remotecommand import (
    Disconnected,
    Event,
    Phase,
    Resized,
    StdinClosed,
    StdinReceived,
    StreamOptions,
    StreamsReady,
    StreamType,
)
from vkubelet.streaming.websocket.connection import (
    CloseCode,
    CloseReceived,
    MessagePart,
    WebSocketConnection,
    WebSocketEvent,
    WebSocketTerminated,
)

WEBSOCKET_PROTOCOLS = (
    PROTOCOL_V5,
    PROTOCOL_V4,
    PROTOCOL_BASE64_V4,
    PROTOCOL_V1,
    PROTOCOL_BASE64_V1,
    "",
)
"""What is served over WebSockets; the empty one is for clients that name none."""

_CHANNELS = {StreamType.STDOUT: Channel.STDOUT, StreamType.STDERR: Channel.STDERR}


class WebSocketCommandServer:
    """
    One exec or attach over one WebSocket.

    Attributes:
        phase: How far it has come.
    """

    def __init__(self, options: StreamOptions, protocol: str) -> None:
        if protocol not in WEBSOCKET_PROTOCOLS:
            raise LocalProtocolError(f"{protocol} isn't served over WebSockets")
        self.phase = Phase.OPENING
        self._options = options
        self._protocol = protocol
        self._is_base64 = protocol in BASE64_PROTOCOLS
        self._websocket = WebSocketConnection()
        self._decoder = ChannelDecoder(is_base64=self._is_base64)
        self._sizes = ResizeParser()
        self._closing = b""
        self._stdin_closed = not options.stdin
        self._outputs = {
            stream
            for stream, is_wanted in {
                StreamType.STDOUT: options.stdout,
                StreamType.STDERR: options.stderr and not options.tty,
            }.items()
            if is_wanted
        }

    @property
    def stdin_closed(self) -> bool:
        """Whether no stdin will come (any more); only v5 clients can end it."""
        return self._stdin_closed

    def start(self) -> list[Event]:
        """Begin: an empty message on the lowest writable channel tells clients that they are in."""
        self.phase = Phase.RUNNING
        channels = [int(_CHANNELS[stream]) for stream in self._outputs]
        self._send(min(channels, default=Channel.ERROR), b"")
        return [StreamsReady()]

    def data_to_send(self) -> bytes:
        """Return what must be written now, all of it and in order."""
        return self._websocket.data_to_send()

    def receive_data(self, data: bytes) -> list[Event]:
        """Take bytes of the client."""
        return self._handle_events(self._websocket.receive_data(data))

    def receive_eof(self) -> list[Event]:
        """Take the end of the client's bytes."""
        return self._handle_events(self._websocket.receive_eof())

    def send_output(self, stream: StreamType, data: bytes) -> None:
        """
        Send bytes of stdout or stderr; swallowed if the client didn't ask for them or is gone.

        Raises:
            LocalProtocolError: Before `start` or after `send_status`.
        """
        if self.phase is Phase.DISCONNECTED:
            return
        if self.phase is not Phase.RUNNING:
            raise LocalProtocolError(f"no output can be sent while {self.phase.name}")
        if stream in self._outputs and data:
            self._send(_CHANNELS[stream], data)

    def send_status(self, status: CommandStatus) -> None:
        """
        End the command: the status, then Close 1000; Go clients take all else for a failure.

        The peer answers with its own Close, or closes the connection.
        """
        if self.phase is Phase.DISCONNECTED:
            return
        if self.phase is not Phase.RUNNING:
            raise LocalProtocolError(f"no status can be sent while {self.phase.name}")
        self.phase = Phase.FINISHED
        data = serialize_status_for(self._protocol, status)
        if data:
            self._send(Channel.ERROR, data)
        self._websocket.send_close(CloseCode.NORMAL)

    def send_probe(self) -> None:
        """Send a ping for its effect on the connection alone."""
        if self._websocket.sendable:
            self._websocket.send_ping()

    def send_go_away(self) -> None:
        """Close what hasn't begun."""
        if self.phase is Phase.OPENING:
            self.phase = Phase.FINISHED
            self._websocket.send_close(CloseCode.GOING_AWAY)

    def _send(self, channel: int, data: bytes) -> None:
        message = encode_channel(channel, data, is_base64=self._is_base64)
        self._websocket.send_message(message, text=self._is_base64)

    def _handle_events(self, websocket_events: list[WebSocketEvent]) -> list[Event]:
        events: list[Event] = []
        for event in websocket_events:
            if self.phase is Phase.DISCONNECTED:
                break
            match event:
                case MessagePart():
                    events += self._handle_part(event)
                case CloseReceived():
                    events += self._disconnect("the client closed the connection")
                case WebSocketTerminated():
                    events += self._disconnect(event.error or "the client closed the connection")
                case _:
                    pass
        return events

    def _disconnect(self, reason: str) -> list[Event]:
        self.phase = Phase.DISCONNECTED
        return [Disconnected(reason)]

    def _break(self, reason: str) -> list[Event]:
        """End the connection for what the client did wrong."""
        if self._websocket.sendable:
            self._websocket.send_close(CloseCode.PROTOCOL_ERROR, reason)
        return self._disconnect(reason)

    def _handle_part(self, part: MessagePart) -> list[Event]:
        try:
            decoded = self._decoder.decode(part.data, start=part.start, end=part.end)
        except ChannelError as error:
            return self._break(str(error))
        match decoded:
            case (Channel.STDIN, data) if data and not self._stdin_closed:
                return [StdinReceived(data)]
            case (Channel.RESIZE, data) if self._options.tty:
                sizes = self._sizes.receive_data(data)
                return [Resized(width, height) for width, height in sizes]
            case (Channel.CLOSE, data) if self._protocol == PROTOCOL_V5:
                return self._handle_half_close(data, start=part.start, end=part.end)
            case _:
                return []  # Empty messages and what nobody wants.

    def _handle_half_close(self, data: bytes, *, start: bool, end: bool) -> list[Event]:
        """Take the parts of `FF <channel>`; only stdin's end means something."""
        closing = (b"" if start else self._closing) + data[:2]
        self._closing = b"" if end else closing
        if len(closing) > 1 or (end and not closing):
            return self._break("a half-close names one channel")
        if not end:
            return []
        if closing[0] > Channel.RESIZE:
            return self._break(f"there is no channel {closing[0]} to close")
        if closing[0] != Channel.STDIN or self._stdin_closed:
            return []
        self._stdin_closed = True
        return [StdinClosed()]
