import pytest
from hypothesis import given, settings, strategies as st

from tests.vectors import TUNNELLED_FORWARD, load_vector
from vkubelet.streaming.portforward import (
    Disconnected,
    Event,
    ForwardAnnounced,
    ForwardEnded,
    ForwardOpened,
    ForwardReceived,
)
from vkubelet.streaming.portforward_client import ClientEvent, ForwardReady, PortForwardClient
from vkubelet.streaming.portforward_tunnel import TunnelledPortForwardServer
from vkubelet.streaming.websocket.connection import (
    CloseReceived,
    MessagePart,
    WebSocketConnection,
)


class Client:
    """A tunnelling client; its messages are cut small."""

    def __init__(self) -> None:
        self.server = TunnelledPortForwardServer()
        self.websocket = WebSocketConnection(client=True)
        self.forwards = PortForwardClient()
        self.closes: list[int] = []

    def talk(self, step: int = 5) -> tuple[list[Event], list[ClientEvent]]:
        seen: tuple[list[Event], list[ClientEvent]] = ([], [])
        while True:
            data = self.forwards.data_to_send()
            for start in range(0, len(data), step):
                self.websocket.send_message(data[start : start + step])
            up = self.websocket.data_to_send()
            seen[0].extend(self.server.receive_data(up))
            down = self.server.data_to_send()
            for event in self.websocket.receive_data(down):
                match event:
                    case MessagePart():
                        seen[1].extend(self.forwards.receive_data(event.data))
                    case CloseReceived():
                        self.closes.append(event.code)
                    case _:
                        raise AssertionError(event)
            if not up and not down:
                return seen


@pytest.mark.parametrize("step", [1, 5, 1000])
def test_a_forward(step: int) -> None:
    client = Client()
    client.forwards.open(80)
    assert client.talk(step) == (
        [ForwardAnnounced(0), ForwardOpened(0, 80)],
        [ForwardReady(0)],
    )
    client.forwards.send_data(0, b"question")
    assert b"".join(e.data for e in client.talk(step)[0] if isinstance(e, ForwardReceived)) == (
        b"question"
    )
    client.server.send_data(0, b"answer" * 10_000)
    client.server.send_eof(0)
    assert client.talk(step)[1] == [
        ForwardReceived(0, b"answer" * 5461 + b"an"),
        ForwardReceived(0, b"swer" + b"answer" * 4538),
        ForwardEnded(0),
    ]


def test_our_close_is_a_close_of_the_websocket() -> None:
    client = Client()
    client.server.close("the node is shutting down")
    client.talk()
    assert client.closes == [1000]
    assert client.server.closed


def test_the_clients_goodbyes() -> None:
    client = Client()
    client.websocket.send_close()
    assert client.talk()[0] == [Disconnected("the client closed the connection")]
    client = Client()
    client.forwards.close()
    assert client.talk()[0] == [Disconnected("the client sent GOAWAY")]
    assert client.closes == [1000]
    client = Client()
    assert client.server.receive_eof() == [Disconnected("the client closed the connection")]


def test_rubbish() -> None:
    client = Client()
    client.websocket.send_message(b"\x80\x02rubbish")
    assert client.talk()[0] == [Disconnected("SPDY version 2, not 3")]
    assert client.closes == [1000]
    client = Client()
    assert client.server.receive_data(b"\xff\xff") == [
        Disconnected("WebSocket: reserved bits are set, and no extension was agreed on")
    ]


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_recorded_client(step: int) -> None:
    vector = load_vector(TUNNELLED_FORWARD)
    server = TunnelledPortForwardServer()
    events = []
    for start in range(0, len(vector.client_bytes), step):
        events += server.receive_data(vector.client_bytes[start : start + step])
    received = [event.data for event in events if isinstance(event, ForwardReceived)]
    assert b"".join(received) == b"hello0hello1"
    assert sum(isinstance(event, ForwardOpened) for event in events) == 2
    assert isinstance(events[-1], Disconnected)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=40)), max_size=10))
def test_no_input_raises(pieces: list[tuple[bool, bytes]]) -> None:
    client = Client()
    client.forwards.open(80)
    client.talk()
    for framed, piece in pieces:
        if framed:
            client.websocket.send_message(piece)
            piece = client.websocket.data_to_send()  # noqa: PLW2901 - framed
        client.server.receive_data(piece)
        client.server.data_to_send()
    client.server.receive_eof()
    assert client.server.closed
