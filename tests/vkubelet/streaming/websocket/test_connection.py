import pytest
from hypothesis import given, settings, strategies as st

from tests.vectors import TUNNELLED_FORWARD, WEBSOCKET_EXECS, load_vector
from vkubelet.streaming.errors import LocalProtocolError
from vkubelet.streaming.websocket.connection import (
    MAX_UNSENT_REPLY_BYTES,
    CloseCode,
    CloseReceived,
    MessagePart,
    PongReceived,
    WebSocketConnection,
    WebSocketEvent,
    WebSocketTerminated,
)
from vkubelet.streaming.websocket.frames import Opcode, encode_frame

KEY = b"abcd"


class Pair:
    def __init__(self, *, client_first: bool) -> None:
        self.first = WebSocketConnection(client=client_first)
        self.second = WebSocketConnection(client=not client_first)

    def to_second(self) -> list[WebSocketEvent]:
        return self.second.receive_data(self.first.data_to_send())

    def to_first(self) -> list[WebSocketEvent]:
        return self.first.receive_data(self.second.data_to_send())


@pytest.fixture(params=[True, False], ids=["client", "server"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(client_first=request.param)


def frame(opcode: Opcode, data: bytes = b"", *, fin: bool = True) -> bytes:
    return encode_frame(opcode, data, fin=fin, mask_key=KEY)


def collect(events: list[WebSocketEvent]) -> list[bytes]:
    messages: list[bytes] = []
    for event in events:
        if isinstance(event, MessagePart):
            if event.start:
                messages.append(b"")
            messages[-1] += event.data
    return messages


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("size", [0, 5, 126, 70_000])
def test_messages(pair: Pair, size: int, text: bool) -> None:
    pair.first.send_message(b"x" * size, text=text)
    assert pair.to_second() == [MessagePart(data=b"x" * size, start=True, end=True)]


def test_pings_are_answered(pair: Pair) -> None:
    pair.first.send_ping()
    assert pair.to_second() == []
    assert pair.to_first() == [PongReceived()]


def test_close_handshake(pair: Pair) -> None:
    pair.first.send_message(b"last")
    pair.first.send_close(reason="enough")
    assert pair.to_second()[-1] == CloseReceived(1000, "enough")
    assert pair.to_first() == [CloseReceived(1000, "")]
    assert not pair.first.sendable
    assert not pair.second.sendable
    assert pair.second.receive_data(b"whatever") == []
    assert pair.second.receive_eof() == [WebSocketTerminated(None)]
    assert pair.second.receive_eof() == []
    assert pair.second.terminated


def test_empty_close() -> None:
    server = WebSocketConnection()
    assert server.receive_data(frame(Opcode.CLOSE)) == [CloseReceived(CloseCode.NO_STATUS, "")]
    assert server.data_to_send() == b"\x88\x00"


def test_long_reasons_are_cut(pair: Pair) -> None:
    pair.first.send_close(CloseCode.PROTOCOL_ERROR, "ü" * 100)
    assert pair.to_second() == [CloseReceived(1002, "ü" * 61)]


def test_fragments_with_a_ping_between() -> None:
    server = WebSocketConnection()
    data = (
        frame(Opcode.BINARY, b"one ", fin=False)
        + frame(Opcode.PING, b"?")
        + frame(Opcode.CONTINUATION, b"two ", fin=False)
        + frame(Opcode.CONTINUATION, b"three")
        + frame(Opcode.TEXT, b"four")
    )
    assert collect(server.receive_data(data)) == [b"one two three", b"four"]
    assert server.data_to_send() == b"\x8a\x01?"


@pytest.mark.parametrize(
    "data",
    [
        frame(Opcode.CONTINUATION, b"x"),
        frame(Opcode.TEXT, b"x", fin=False) + frame(Opcode.TEXT, b"y"),
        frame(Opcode.CLOSE, b"x"),
        b"GET / HTTP/1.1\r\n",
    ],
)
def test_broken_peers_get_a_close(data: bytes) -> None:
    server = WebSocketConnection()
    events = server.receive_data(data)
    assert isinstance(events[-1], WebSocketTerminated)
    assert events[-1].error
    assert server.data_to_send() == b"\x88\x02\x03\xea"
    assert server.receive_data(frame(Opcode.TEXT)) == []
    assert server.receive_eof() == []


def test_a_flood_of_pings_is_cut_off() -> None:
    server = WebSocketConnection()
    events: list[WebSocketEvent] = []
    for _ in range(MAX_UNSENT_REPLY_BYTES // 127 + 1):
        events += server.receive_data(frame(Opcode.PING, bytes(125)))
    assert [type(event) for event in events] == [WebSocketTerminated]
    assert len(server.data_to_send()) <= MAX_UNSENT_REPLY_BYTES + 4


def test_misuse(pair: Pair) -> None:
    pair.first.send_close()
    with pytest.raises(LocalProtocolError):
        pair.first.send_message(b"")
    with pytest.raises(LocalProtocolError):
        pair.first.send_ping()
    with pytest.raises(LocalProtocolError):
        pair.first.send_close()
    assert pair.to_second() == [CloseReceived(1000, "")]


@pytest.mark.parametrize("name", [*WEBSOCKET_EXECS, TUNNELLED_FORWARD])
@pytest.mark.parametrize("step", [1, 3, 1000, 1 << 20])
def test_recorded_bytes_are_the_same_however_they_are_cut(name: str, step: int) -> None:
    data = load_vector(name).client_bytes
    whole = WebSocketConnection()
    cut = WebSocketConnection()
    wanted = whole.receive_data(data)
    assert wanted
    events: list[WebSocketEvent] = []
    for start in range(0, len(data), step):
        events += cut.receive_data(data[start : start + step])
    assert collect(events) == collect(wanted)
    assert not cut.terminated
    assert cut.data_to_send() == whole.data_to_send()


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=40), max_size=12), st.booleans())
def test_no_input_raises(pieces: list[bytes], client: bool) -> None:
    connection = WebSocketConnection(client=client)
    ended = False
    for piece in pieces:
        events = connection.receive_data(piece)
        assert not (ended and events)
        ended = ended or any(isinstance(e, WebSocketTerminated | CloseReceived) for e in events)
    connection.receive_eof()
    assert connection.terminated
