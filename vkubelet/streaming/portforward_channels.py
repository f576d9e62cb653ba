"""
The server's side of a port-forward over WebSocket channels, the older form, without I/O.

Ports are named in the URL. The i-th has channel 2i for data and 2i+1 for an error; each begins with
the port as two bytes, little endian. There is one connection a port and no half-close.
"""

import struct
from collections.abc import Sequence

from vkubelet.streaming.channels import (
    PROTOCOL_BASE64_V4,
    PROTOCOL_V4,
    ChannelDecoder,
    ChannelError,
    encode_channel,
)
from vkubelet.streaming.errors import LocalProtocolError
from vkubelet.streaming.portforward import (
    Disconnected,
    Event,
    ForwardAnnounced,
    ForwardOpened,
    ForwardReceived,
)
from vkubelet.streaming.websocket.connection import (
    CloseCode,
    CloseReceived,
    MessagePart,
    WebSocketConnection,
    WebSocketEvent,
    WebSocketTerminated,
)

CHANNEL_FORWARD_PROTOCOLS = (PROTOCOL_V4, PROTOCOL_BASE64_V4, "")
"""What is served; Python clients also offer v5, which isn't for port-forwards."""

MAX_PORTS = 128
"""Two channels each, of one byte."""

MAX_BASE64_PORTS = 5
"""The base64 form has ten channels: a digit."""


class ChannelForwardServer:
    """
    One forward a port over one WebSocket; a `forward_id` is the port's place in the URL.

    When the last forward has ended, the WebSocket is closed.

    Attributes:
        half_closes: The pod's end is the connection's.
    """

    half_closes = False

    def __init__(self, ports: Sequence[int], protocol: str) -> None:
        self._is_base64 = protocol == PROTOCOL_BASE64_V4
        if protocol not in CHANNEL_FORWARD_PROTOCOLS:
            raise LocalProtocolError(f"{protocol} isn't served over WebSockets")
        if not 0 < len(ports) <= (MAX_BASE64_PORTS if self._is_base64 else MAX_PORTS):
            raise LocalProtocolError(f"{len(ports)} ports have no channels")
        self._ports = tuple(ports)
        self._open = set(range(len(ports)))
        self._websocket = WebSocketConnection()
        self._decoder = ChannelDecoder(is_base64=self._is_base64)
        self._disconnected = False

    @property
    def forward_count(self) -> int:
        """How many forwards are open."""
        return len(self._open)

    @property
    def closed(self) -> bool:
        """Whether either side has said goodbye, or nothing is open any more."""
        return not self._open

    def start(self) -> list[Event]:
        """Begin: tell which channels are for which port."""
        events: list[Event] = []
        for forward_id, port in enumerate(self._ports):
            head = struct.pack("<H", port)
            self._send(2 * forward_id, head)
            self._send(2 * forward_id + 1, head)
            events += [ForwardAnnounced(forward_id), ForwardOpened(forward_id, port)]
        return events

    def data_to_send(self) -> bytes:
        """Return what must be written now, all of it and in order."""
        return self._websocket.data_to_send()

    def receive_data(self, data: bytes) -> list[Event]:
        """Take bytes of the client."""
        return self._handle_events(self._websocket.receive_data(data))

    def receive_eof(self) -> list[Event]:
        """Take the end of the client's bytes."""
        return self._handle_events(self._websocket.receive_eof())

    def send_data(self, forward_id: int, data: bytes) -> None:
        """Send bytes of the pod."""
        if forward_id in self._open and data:
            self._send(2 * forward_id, data)

    def send_eof(self, forward_id: int) -> None:
        """Drop the connection: this form can't end one direction, and nothing else comes."""
        self.abort(forward_id)

    def finish(self, forward_id: int) -> None:
        """End a forward well."""
        self.abort(forward_id)

    def abort(self, forward_id: int, message: str = "") -> None:
        """Drop a connection, with a text for the user only if it never came about."""
        if forward_id not in self._open:
            return
        if message:
            self._send(2 * forward_id + 1, message.encode())
        self._open.discard(forward_id)
        if not self._open and self._websocket.sendable:
            self._websocket.send_close(CloseCode.NORMAL)

    def give_up(self, forward_id: int) -> None:
        """Do nothing: forwards are open from the beginning."""

    def close(self, reason: str) -> None:
        """Drop all connections, tell why, and say goodbye."""
        for forward_id in tuple(self._open):
            self.abort(forward_id, reason)

    def send_probe(self) -> None:
        """Send a ping for its effect on the connection alone."""
        if self._websocket.sendable:
            self._websocket.send_ping()

    def _send(self, channel: int, data: bytes) -> None:
        if self._websocket.sendable:
            message = encode_channel(channel, data, is_base64=self._is_base64)
            self._websocket.send_message(message, text=self._is_base64)

    def _handle_events(self, websocket_events: list[WebSocketEvent]) -> list[Event]:
        events: list[Event] = []
        for event in websocket_events:
            if self._disconnected:
                break
            match event:
                case MessagePart():
                    events += self._handle_part(event)
                case CloseReceived():
                    events.append(self._disconnect("the client closed the connection"))
                case WebSocketTerminated():
                    reason = event.error or "the client closed the connection"
                    events.append(self._disconnect(reason))
                case _:
                    pass
        return events

    def _disconnect(self, reason: str) -> Disconnected:
        self._disconnected = True
        self._open.clear()
        return Disconnected(reason)

    def _handle_part(self, part: MessagePart) -> list[Event]:
        try:
            decoded = self._decoder.decode(part.data, start=part.start, end=part.end)
        except ChannelError as error:
            if self._websocket.sendable:
                self._websocket.send_close(CloseCode.PROTOCOL_ERROR, str(error))
            return [self._disconnect(str(error))]
        if decoded is None:
            return []
        channel, data = decoded
        forward_id, is_error = divmod(channel, 2)
        if is_error or forward_id not in self._open or not data:
            return []  # What nobody listens to.
        return [ForwardReceived(forward_id, data)]
