import base64
import contextlib
import itertools
import json

import pytest
from hypothesis import given, settings, strategies as st

from tests.vectors import WEBSOCKET_EXECS, load_vector
from vkubelet.streaming.channels import (
    BASE64_PROTOCOLS,
    PROTOCOL_BASE64_V1,
    PROTOCOL_BASE64_V4,
    PROTOCOL_V1,
    PROTOCOL_V2,
    PROTOCOL_V4,
    PROTOCOL_V5,
    Channel,
    CommandStatus,
    encode_channel,
    encode_close,
    parse_status,
    serialize_resize,
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
from vkubelet.streaming.remotecommand_websocket import WEBSOCKET_PROTOCOLS, WebSocketCommandServer
from vkubelet.streaming.websocket.connection import (
    CloseReceived,
    MessagePart,
    WebSocketConnection,
    WebSocketEvent,
)
from vkubelet.streaming.websocket.frames import Opcode, encode_frame

ALL = StreamOptions(stdin=True, stdout=True, stderr=True)
TTY = StreamOptions(stdin=True, stdout=True, stderr=True, tty=True)


class Client:
    """A client's side, on our own WebSocket."""

    def __init__(self, options: StreamOptions = ALL, protocol: str = PROTOCOL_V5) -> None:
        self.server = WebSocketCommandServer(options, protocol)
        self.is_base64 = protocol in BASE64_PROTOCOLS
        self.websocket = WebSocketConnection(client=True)
        assert self.server.start() == [StreamsReady()]

    def receive(self) -> list[tuple[int, bytes]]:
        """What the server sent, by channel; -1 and the code for its Close."""
        return self.decode(self.websocket.receive_data(self.server.data_to_send()))

    def decode(self, events: list[WebSocketEvent]) -> list[tuple[int, bytes]]:
        received = []
        for event in events:
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
        return self.send_raw(encode_channel(channel, data, is_base64=self.is_base64))

    def send_raw(self, message: bytes) -> list[Event]:
        self.websocket.send_message(message, text=self.is_base64)
        return self.flush()

    def flush(self) -> list[Event]:
        return self.server.receive_data(self.websocket.data_to_send())


@pytest.mark.parametrize(
    ("options", "channel"),
    [
        (ALL, 1),
        (StreamOptions(stderr=True), 2),
        (StreamOptions(stdin=True), 3),
        (StreamOptions(stdin=True, stderr=True, tty=True), 3),
    ],
)
@pytest.mark.parametrize("protocol", [PROTOCOL_V5, PROTOCOL_BASE64_V4])
def test_an_empty_message_says_connected(
    options: StreamOptions, channel: int, protocol: str
) -> None:
    client = Client(options, protocol)
    assert client.receive() == [(channel, b"")]
    assert client.server.phase is Phase.RUNNING


@pytest.mark.parametrize("protocol", WEBSOCKET_PROTOCOLS)
def test_output_status_and_close(protocol: str) -> None:
    client = Client(ALL, protocol)
    client.server.send_output(StreamType.STDOUT, b"out\xff\n")
    client.server.send_output(StreamType.STDERR, b"err\n")
    client.server.send_status(CommandStatus(7))
    received = client.receive()
    assert received[1:3] == [(1, b"out\xff\n"), (2, b"err\n")]
    assert received[3][0] == 3
    assert received[4] == (-1, b"1000")
    if protocol in (PROTOCOL_V5, PROTOCOL_V4, PROTOCOL_BASE64_V4):
        assert parse_status(received[3][1]) == CommandStatus(7)
    else:
        assert received[3][1].endswith(b"exit status 7")
    assert client.flush() == [Disconnected("the client closed the connection")]


@pytest.mark.parametrize("protocol", ["", PROTOCOL_V1, PROTOCOL_BASE64_V1])
def test_old_protocols_say_nothing_of_success(protocol: str) -> None:
    client = Client(ALL, protocol)
    client.server.send_status(CommandStatus(0))
    assert client.receive() == [(1, b""), (-1, b"1000")]


def test_v2_is_not_served_over_websockets() -> None:
    with pytest.raises(LocalProtocolError):
        WebSocketCommandServer(ALL, PROTOCOL_V2)


@pytest.mark.parametrize("protocol", WEBSOCKET_PROTOCOLS)
def test_stdin(protocol: str) -> None:
    client = Client(ALL, protocol)
    assert client.send(0, b"abc\xfe") == [StdinReceived(b"abc\xfe")]
    assert client.send(0, b"") == []
    assert client.send_raw(b"") == []
    assert not client.server.stdin_closed


def test_v5_half_close() -> None:
    client = Client()
    assert client.send_raw(encode_close(Channel.STDOUT)) == []
    assert client.send_raw(encode_close(Channel.STDIN)) == [StdinClosed()]
    assert client.server.stdin_closed
    assert client.send_raw(encode_close(Channel.STDIN)) == []
    assert client.send(0, b"too late") == []
    assert client.server.phase is Phase.RUNNING


@pytest.mark.parametrize("cut", range(1, 9))
def test_half_close_in_parts(cut: int) -> None:
    client = Client()
    events: list[Event] = []
    for _ in range(2):
        wire = encode_frame(Opcode.BINARY, b"", fin=False, mask_key=b"abcd")
        wire += encode_frame(Opcode.CONTINUATION, b"\xff\x00", mask_key=b"abcd")
        events = client.server.receive_data(wire[:cut]) + client.server.receive_data(wire[cut:])
        assert client.server.phase is Phase.RUNNING
    assert events == []
    assert client.server.stdin_closed


@pytest.mark.parametrize("message", [b"\xff", b"\xff\x00\x00", b"\xff\x05", b"\xff\xff"])
def test_bad_half_closes_break_the_connection(message: bytes) -> None:
    client = Client()
    (event,) = client.send_raw(message)
    assert isinstance(event, Disconnected)
    assert client.receive()[-1] == (-1, b"1002")


def test_only_v5_half_closes() -> None:
    client = Client(ALL, PROTOCOL_V4)
    assert client.send_raw(encode_close(Channel.STDIN)) == []
    assert not client.server.stdin_closed


def test_unasked_channels_are_ignored() -> None:
    client = Client(StreamOptions(stdout=True))
    assert client.server.stdin_closed
    for channel in (0, 1, 2, 3, 4, 5, 200):
        assert client.send(channel, b'{"Width":1,"Height":1}') == []
    client.server.send_output(StreamType.STDERR, b"swallowed")
    assert client.receive() == [(1, b"")]


def test_resize() -> None:
    client = Client(TTY)
    sizes = serialize_resize(101, 31) + serialize_resize(100, 30)
    assert client.send(4, sizes) == [Resized(101, 31), Resized(100, 30)]
    client.server.send_status(CommandStatus(0))
    client.send(4, sizes)


@pytest.mark.parametrize("message", [b"0###", b"0QQ", b"0QQ==Q"])
def test_bad_base64_breaks_the_connection(message: bytes) -> None:
    client = Client(ALL, PROTOCOL_BASE64_V4)
    (event,) = client.send_raw(message)
    assert isinstance(event, Disconnected)
    assert "base64" in event.reason


def test_a_message_may_be_long_and_come_in_parts() -> None:
    data = bytes(range(256)) * 4000
    for protocol in (PROTOCOL_V5, PROTOCOL_BASE64_V4):
        client = Client(ALL, protocol)
        client.websocket.send_message(encode_channel(0, data, is_base64=client.is_base64))
        wire = client.websocket.data_to_send()
        events: list[Event] = []
        for start in range(0, len(wire), 1001):
            events += client.server.receive_data(wire[start : start + 1001])
        assert b"".join(e.data for e in events if isinstance(e, StdinReceived)) == data


def test_the_clients_close_is_a_disconnect() -> None:
    client = Client()
    client.websocket.send_close()
    assert client.flush() == [Disconnected("the client closed the connection")]
    client.server.send_output(StreamType.STDOUT, b"nobody reads this")
    client.server.send_status(CommandStatus(0))
    assert client.receive() == [(1, b""), (-1, b"1000")]


def test_eof_and_rubbish() -> None:
    client = Client()
    assert client.server.receive_eof() == [Disconnected("the client closed the connection")]
    assert client.server.receive_eof() == []
    client = Client()
    (event,) = client.server.receive_data(b"\x82\x01x")
    assert event == Disconnected("frame isn't masked")


def test_probes_are_pings() -> None:
    client = Client()
    client.server.data_to_send()
    client.server.send_probe()
    assert client.server.data_to_send() == b"\x89\x00"
    client.server.send_status(CommandStatus(0))
    client.server.data_to_send()
    client.server.send_probe()
    assert client.server.data_to_send() == b""


def test_misuse() -> None:
    server = WebSocketCommandServer(ALL, PROTOCOL_V5)
    with pytest.raises(LocalProtocolError):
        server.send_output(StreamType.STDOUT, b"x")
    with pytest.raises(LocalProtocolError):
        server.send_status(CommandStatus(0))
    server.send_go_away()
    assert server.phase is Phase.FINISHED


@pytest.mark.parametrize("name", WEBSOCKET_EXECS)
def test_recorded_clients(name: str) -> None:
    vector = load_vector(name)
    query = vector.request_head.split(b" ")[1].decode().partition("?")[2]
    options = StreamOptions(
        stdin="input=1" in query,
        stdout="output=1" in query,
        stderr="error=1" in query,
        tty="tty=1" in query,
    )
    server = WebSocketCommandServer(options, PROTOCOL_V5)
    events = server.start()
    for from_client, data in vector.chunks:
        if from_client:
            events += server.receive_data(data)
    assert events[-1] == Disconnected("the client closed the connection")
    stdin = b"".join(event.data for event in events if isinstance(event, StdinReceived))
    if "stdin70k" in name:
        assert stdin == bytes(range(256)) * 274
        assert StdinClosed() in events
    if "tty" in name:
        assert stdin.endswith(b"exit 5\n")
        assert Resized(120, 40) in events


def test_what_we_send_is_what_was_recorded() -> None:
    recorded = WebSocketConnection(client=True).receive_data(
        load_vector("exec-short-ws-v5").server_bytes
    )
    client = Client(StreamOptions(stdout=True, stderr=True))
    client.server.send_output(StreamType.STDOUT, b"out\n")
    client.server.send_output(StreamType.STDERR, b"err\n")
    client.server.send_status(CommandStatus(3))
    ours, theirs = client.receive(), client.decode(recorded)
    assert ours[:3] == theirs[:3]
    assert json.loads(ours[3][1]) == json.loads(theirs[3][1])
    assert ours[4] == theirs[4]


@settings(max_examples=200)
@given(
    st.lists(st.one_of(st.binary(max_size=40), st.binary(max_size=20).map(lambda b: ("m", b)))),
    st.sampled_from(WEBSOCKET_PROTOCOLS),
)
def test_no_input_raises(pieces: list[bytes | tuple[str, bytes]], protocol: str) -> None:
    client = Client(TTY, protocol)
    disconnected = False
    for index, piece in enumerate(itertools.islice(pieces, 20)):
        data = (
            encode_frame(Opcode.BINARY, piece[1], mask_key=b"abcd")
            if isinstance(piece, tuple)
            else piece
        )
        events = client.server.receive_data(data)
        assert not (disconnected and events)
        disconnected = disconnected or any(isinstance(e, Disconnected) for e in events)
        if index == 6:
            with contextlib.suppress(LocalProtocolError):
                client.server.send_status(CommandStatus(0))
    client.server.receive_eof()
