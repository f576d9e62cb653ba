"""The server's side of a port-forward whose SPDY bytes travel in WebSocket messages."""

from vkubelet.streaming.portforward import Disconnected, Event, PortForwardServer
from vkubelet.streaming.websocket.connection import (
    CloseCode,
    CloseReceived,
    MessagePart,
    WebSocketConnection,
    WebSocketEvent,
    WebSocketTerminated,
)


class TunnelledPortForwardServer(PortForwardServer):
    """
    A `PortForwardServer` behind a WebSocket: a message is a chunk of SPDY, cut anywhere.

    The client's Close is the end of its bytes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._websocket = WebSocketConnection()

    def data_to_send(self) -> bytes:
        """Return what must be written now, all of it and in order."""
        data = super().data_to_send()
        if self._websocket.sendable:
            if data:
                self._websocket.send_message(data)
            if self.closed:
                self._websocket.send_close(CloseCode.NORMAL)
        return self._websocket.data_to_send()

    def receive_data(self, data: bytes) -> list[Event]:
        """Take bytes of the client."""
        return self._handle_websocket(self._websocket.receive_data(data))

    def receive_eof(self) -> list[Event]:
        """Take the end of the client's bytes."""
        return self._handle_websocket(self._websocket.receive_eof())

    def _handle_websocket(self, websocket_events: list[WebSocketEvent]) -> list[Event]:
        events: list[Event] = []
        for event in websocket_events:
            match event:
                case MessagePart():
                    events += super().receive_data(event.data)
                case CloseReceived():
                    events += super().receive_eof()
                case WebSocketTerminated() if event.error is None:
                    events += super().receive_eof()
                case WebSocketTerminated():
                    if super().receive_eof():
                        events.append(Disconnected(f"WebSocket: {event.error}"))
                case _:
                    pass
        return events
