import base64

import pytest
from hypothesis import given, settings, strategies as st

from vkubelet.streaming.channels import (
    PROTOCOL_BASE64_V4,
    PROTOCOL_V4,
    PROTOCOL_V5,
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
from vkubelet.streaming.portforward_channels import (
    CHANNEL_FORWARD_PROTOCOLS,
    ChannelForwardServer,
)
from vkubelet.streaming.websocket.connection import (
    CloseReceived,
    MessagePart,
    WebSocketConnection,
)

PORTS = (80, 0x1234)


class Client:
    def __init__(self, protocol: str = PROTOCOL_V4) -> None:
        self.is_base64 = protocol == PROTOCOL_BASE64_V4
        self.server = ChannelForwardServer(PORTS, protocol)
        self.websocket = WebSocketConnection(client=True)
        self.events = self.server.start()

    def receive(self) -> list[tuple[int, bytes]]:
        received = []
        for event in self.websocket.receive_data(self.server.data_to_send()):
            match event:
                case MessagePart() if self.is_base64:
                    received.append((event.data[0] - 48, base64.b64decode(event.data[1:])))
                case MessagePart():
                    received.append((event.data[0], event.data[1:]))
                case CloseReceived():
                    received.append((-1, str(event.code).encode()))
                case _:
                    raise AssertionError(event)
        return received

    def send(self, channel: int, data: bytes) -> list[Event]:
        message = encode_channel(channel, data, is_base64=self.is_base64)
        self.websocket.send_message(message, text=self.is_base64)
        return self.flush()

    def flush(self) -> list[Event]:
        return self.server.receive_data(self.websocket.data_to_send())


@pytest.mark.parametrize("protocol", CHANNEL_FORWARD_PROTOCOLS)
def test_ports_are_told_and_data_flows(protocol: str) -> None:
    client = Client(protocol)
    assert client.events == [
        ForwardAnnounced(0),
        ForwardOpened(0, 80),
        ForwardAnnounced(1),
        ForwardOpened(1, 0x1234),
    ]
    head = [(0, b"\x50\x00"), (1, b"\x50\x00"), (2, b"\x34\x12"), (3, b"\x34\x12")]
    assert client.receive() == head
    assert client.send(2, b"question\xff") == [ForwardReceived(1, b"question\xff")]
    client.server.send_data(1, b"answer\xff")
    assert client.receive() == [(2, b"answer\xff")]


def test_unused_channels_are_ignored() -> None:
    client = Client()
    for channel in (1, 3, 4, 5, 255):
        assert client.send(channel, b"x") == []
    assert client.send(0, b"") == []


def test_the_last_end_closes() -> None:
    client = Client()
    client.receive()
    client.server.abort(0, "nobody listens")
    assert client.receive() == [(1, b"nobody listens")]
    assert client.server.forward_count == 1
    client.server.send_data(0, b"swallowed")
    client.server.abort(0, "swallowed")
    client.server.give_up(1)
    assert client.receive() == []
    client.server.send_eof(1)
    client.server.finish(1)
    assert client.receive() == [(-1, b"1000")]
    assert client.server.closed
    assert client.flush() == [Disconnected("the client closed the connection")]


def test_close() -> None:
    client = Client()
    client.receive()
    client.server.close("the node is shutting down")
    why = b"the node is shutting down"
    assert client.receive() == [(1, why), (3, why), (-1, b"1000")]
    client.server.send_probe()
    assert client.receive() == []


def test_the_clients_end() -> None:
    client = Client()
    client.websocket.send_close()
    assert client.flush() == [Disconnected("the client closed the connection")]
    assert client.server.closed
    assert client.server.receive_eof() == []
    client = Client()
    assert client.server.receive_eof() == [Disconnected("the client closed the connection")]
    client = Client()
    client.server.data_to_send()
    client.server.send_probe()
    assert client.server.data_to_send() == b"\x89\x00"


def test_bad_base64() -> None:
    client = Client(PROTOCOL_BASE64_V4)
    client.websocket.send_message(b"0?", text=True)
    (event,) = client.flush()
    assert isinstance(event, Disconnected)
    assert client.receive()[-1] == (-1, b"1002")


@pytest.mark.parametrize(
    ("count", "protocol"),
    [(0, PROTOCOL_V4), (129, PROTOCOL_V4), (6, PROTOCOL_BASE64_V4), (1, PROTOCOL_V5)],
)
def test_misuse(count: int, protocol: str) -> None:
    with pytest.raises(LocalProtocolError):
        ChannelForwardServer([80] * count, protocol)


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=40), max_size=10), st.sampled_from(CHANNEL_FORWARD_PROTOCOLS))
def test_no_input_raises(pieces: list[bytes], protocol: str) -> None:
    client = Client(protocol)
    disconnected = False
    for piece in pieces:
        events = client.server.receive_data(piece)
        assert not (disconnected and events)
        disconnected = disconnected or any(isinstance(e, Disconnected) for e in events)
    client.server.receive_eof()
    assert client.server.closed
