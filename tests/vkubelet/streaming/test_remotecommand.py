import contextlib
import json

import pytest
from hypothesis import given, settings, strategies as st

from tests.vectors import SPDY_EXECS, load_vector
from vkubelet.streaming.channels import (
    PROTOCOL_V1,
    PROTOCOL_V2,
    PROTOCOL_V3,
    PROTOCOL_V4,
    PROTOCOL_V5,
    CommandStatus,
    serialize_resize,
)
from vkubelet.streaming.errors import LocalProtocolError
from vkubelet.streaming.remotecommand import (
    Disconnected,
    Event,
    Phase,
    RemoteCommandServer,
    Resized,
    StdinClosed,
    StdinReceived,
    StreamOptions,
    StreamsReady,
    StreamType,
)
from vkubelet.streaming.spdy import events as spdy
from vkubelet.streaming.spdy.connection import Connection, Role
from vkubelet.streaming.spdy.frames import ResetCode

ALL = StreamOptions(stdin=True, stdout=True, stderr=True)
TTY = StreamOptions(stdin=True, stdout=True, stderr=True, tty=True)


class Client:
    """The Go client's side, on our own client role."""

    def __init__(self, options: StreamOptions = ALL, protocol: str = PROTOCOL_V4) -> None:
        self.server = RemoteCommandServer(options, protocol)
        self.spdy = Connection(Role.CLIENT)
        self.ids: dict[str, int] = {}
        self.received: list[spdy.Event] = []

    def open(self, *streams: str) -> list[Event]:
        events: list[Event] = []
        for stream in streams:
            self.ids[stream] = self.spdy.open_stream([("streamtype", stream)])
            events += self.flush()
        return events

    def flush(self) -> list[Event]:
        events = self.server.receive_data(self.spdy.data_to_send())
        self.received += self.spdy.receive_data(self.server.data_to_send())
        return events

    def send(self, stream: str, data: bytes, *, fin: bool = False) -> list[Event]:
        self.spdy.send_data(self.ids[stream], data, fin=fin)
        return self.flush()

    def output(self, stream: str) -> tuple[bytes, bool]:
        parts = [
            event
            for event in self.received
            if isinstance(event, spdy.DataReceived) and event.stream_id == self.ids[stream]
        ]
        return b"".join(part.data for part in parts), any(part.fin for part in parts)


def test_ready_when_all_streams_are_there() -> None:
    client = Client()
    assert client.open("error", "stdin", "stdout") == []
    assert client.server.phase is Phase.OPENING
    assert client.open("stderr") == [StreamsReady()]
    assert all(isinstance(event, spdy.StreamReplied) for event in client.received)
    assert len(client.received) == 4


@pytest.mark.parametrize(
    ("options", "protocol", "expected"),
    [
        (ALL, PROTOCOL_V4, {"error", "stdin", "stdout", "stderr"}),
        (StreamOptions(stdout=True), PROTOCOL_V4, {"error", "stdout"}),
        (TTY, PROTOCOL_V4, {"error", "stdin", "stdout", "resize"}),
        (TTY, PROTOCOL_V3, {"error", "stdin", "stdout", "resize"}),
        (TTY, PROTOCOL_V2, {"error", "stdin", "stdout"}),
        (TTY, PROTOCOL_V1, {"error", "stdin", "stdout"}),
    ],
)
def test_expected_streams(options: StreamOptions, protocol: str, expected: set[str]) -> None:
    assert options.expected(protocol) == expected


def test_v5_is_not_served_over_spdy() -> None:
    with pytest.raises(LocalProtocolError):
        RemoteCommandServer(ALL, PROTOCOL_V5)


def test_output_status_and_goodbye_in_order() -> None:
    client = Client()
    client.open("error", "stdin", "stdout", "stderr")
    client.received.clear()
    client.server.send_output(StreamType.STDOUT, b"out\n")
    client.server.send_output(StreamType.STDERR, b"err\n")
    client.server.send_status(CommandStatus(7))
    client.flush()
    ids = client.ids
    status = client.output("error")[0]
    assert client.received == [
        spdy.DataReceived(stream_id=ids["stdout"], data=b"out\n", fin=False),
        spdy.DataReceived(stream_id=ids["stderr"], data=b"err\n", fin=False),
        spdy.DataReceived(stream_id=ids["stdout"], data=b"", fin=True),
        spdy.DataReceived(stream_id=ids["stderr"], data=b"", fin=True),
        spdy.DataReceived(stream_id=ids["error"], data=status, fin=True),
        spdy.DataReceived(stream_id=ids["stdin"], data=b"", fin=True),
        spdy.GoAwayReceived(last_stream_id=7, code=0),
    ]
    assert json.loads(status)["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


@pytest.mark.parametrize("protocol", [PROTOCOL_V1, PROTOCOL_V2, PROTOCOL_V3])
@pytest.mark.parametrize(
    ("status", "text"),
    [
        (CommandStatus(0), b""),
        (CommandStatus(3), b"command terminated with non-zero exit code: exit status 3"),
        (CommandStatus(None, "no such container"), b"no such container"),
    ],
)
def test_old_protocols_get_plain_text(protocol: str, status: CommandStatus, text: bytes) -> None:
    client = Client(StreamOptions(stdout=True), protocol)
    client.open("error", "stdout")
    client.server.send_status(status)
    client.flush()
    assert client.output("error") == (text, True)


def test_stdin_and_its_end() -> None:
    client = Client()
    client.open("error", "stdin", "stdout", "stderr")
    assert client.send("stdin", b"abc") == [StdinReceived(b"abc")]
    assert client.send("stdin", b"d", fin=True) == [StdinReceived(b"d"), StdinClosed()]
    assert client.server.stdin_closed


def test_stdin_ends_before_the_start() -> None:
    client = Client()
    client.open("error", "stdin")
    assert client.send("stdin", b"x", fin=True) == [StdinReceived(b"x"), StdinClosed()]
    assert client.open("stdout", "stderr") == [StreamsReady()]


def test_resize_before_the_start_and_after_the_end() -> None:
    client = Client(TTY)
    assert client.open("error", "stdin", "resize") == []
    assert client.send("resize", serialize_resize(80, 24)) == [Resized(80, 24)]
    client.open("stdout")
    both = serialize_resize(81, 25) + serialize_resize(80, 24)
    assert client.send("resize", both) == [Resized(81, 25), Resized(80, 24)]
    client.server.send_status(CommandStatus(0))
    client.spdy.send_data(client.ids["resize"], serialize_resize(1, 1))
    client.server.receive_data(client.spdy.data_to_send())


def test_unknown_and_unasked_streams_are_accepted_and_unused() -> None:
    client = Client(StreamOptions(stdout=True))
    assert client.open("error", "fancy", "stderr", "stdout") == [StreamsReady()]
    assert client.send("stderr", b"x") == []
    client.server.send_output(StreamType.STDERR, b"swallowed")
    client.flush()
    assert client.output("stderr") == (b"", False)


def test_duplicate_stream_is_reset() -> None:
    client = Client()
    client.open("error", "error")
    assert client.received[-1] == spdy.StreamReset(stream_id=3, code=ResetCode.PROTOCOL_ERROR)
    assert client.open("stdin", "stdout", "stderr") == [StreamsReady()]


def test_late_stream_is_refused() -> None:
    client = Client(StreamOptions(stdout=True))
    client.open("error", "stdout", "stdin")
    assert client.received[-1] == spdy.StreamReset(stream_id=5, code=ResetCode.REFUSED_STREAM)


def test_go_away_of_the_client_is_a_disconnect() -> None:
    client = Client()
    client.open("error", "stdin", "stdout", "stderr")
    client.spdy.send_go_away()
    assert client.flush() == [Disconnected("the client sent GOAWAY")]
    client.server.send_output(StreamType.STDOUT, b"nobody reads this")
    client.server.send_status(CommandStatus(0))
    assert client.server.data_to_send() == b""


@pytest.mark.parametrize("stream", ["error", "stdin", "stdout", "stderr"])
def test_reset_streams(stream: str) -> None:
    client = Client()
    client.open("error", "stdin", "stdout", "stderr")
    client.spdy.reset_stream(client.ids[stream])
    events = client.flush()
    match stream:
        case "error":
            assert events == [Disconnected("the client reset the error stream")]
        case "stdin":
            assert events == [StdinClosed()]
        case _:
            assert events == []
            client.server.send_output(StreamType(stream), b"swallowed")
            client.server.send_status(CommandStatus(0))


def test_reset_before_the_start_is_a_disconnect() -> None:
    client = Client()
    client.open("error", "stdin")
    client.spdy.reset_stream(client.ids["stdin"])
    assert client.flush() == [Disconnected("the client reset the stdin stream")]


def test_eof_and_rubbish() -> None:
    client = Client()
    client.open("error")
    assert client.server.receive_eof() == [Disconnected("the client closed the connection")]
    assert client.server.receive_eof() == []
    client = Client()
    (event,) = client.server.receive_data(b"\x80\x02rubbish")
    assert event == Disconnected("SPDY version 2, not 3")


def test_after_our_end_a_clients_farewell_is_nothing_special() -> None:
    client = Client()
    client.open("error", "stdin", "stdout", "stderr")
    client.server.send_status(CommandStatus(0))
    for stream_id in client.ids.values():
        client.spdy.reset_stream(stream_id)
    client.spdy.send_go_away()
    assert client.server.receive_data(client.spdy.data_to_send()) == []
    assert client.server.receive_eof() == [Disconnected("the client closed the connection")]


def test_probes() -> None:
    client = Client()
    client.open("error", "stdin", "stdout", "stderr")
    for _ in range(100):
        client.server.send_probe()
    client.flush()  # the client echoes them
    assert client.flush() == []
    client.server.receive_eof()
    client.server.send_probe()
    assert client.server.data_to_send() == b""


def test_misuse() -> None:
    client = Client()
    with pytest.raises(LocalProtocolError):
        client.server.send_output(StreamType.STDOUT, b"x")
    with pytest.raises(LocalProtocolError):
        client.server.send_status(CommandStatus(0))
    client.open("error", "stdin", "stdout", "stderr")
    client.server.send_status(CommandStatus(0))
    with pytest.raises(LocalProtocolError):
        client.server.send_output(StreamType.STDOUT, b"x")


def options_of(name: str) -> StreamOptions:
    query = load_vector(name).request_head.split(b" ")[1].decode().partition("?")[2]
    return StreamOptions(
        stdin="input=1" in query,
        stdout="output=1" in query,
        stderr="error=1" in query,
        tty="tty=1" in query,
    )


@pytest.mark.parametrize("name", SPDY_EXECS)
def test_recorded_clients(name: str) -> None:
    vector = load_vector(name)
    assert b"X-Stream-Protocol-Version: v4.channel.k8s.io" in vector.request_head
    server = RemoteCommandServer(options_of(name), PROTOCOL_V4)
    client = Connection(Role.CLIENT)
    events: list[Event] = []
    for from_client, data in vector.chunks:
        if from_client:
            events += server.receive_data(data)
        else:
            client.receive_data(data)  # what the recorder's server said is SPDY too
    assert events.count(StreamsReady()) == 1
    stdin = b"".join(event.data for event in events if isinstance(event, StdinReceived))
    if "stdin70k" in name:
        assert stdin == bytes(range(256)) * 274
        assert StdinClosed() in events
    if "tty" in name:
        assert stdin.endswith(b"exit 5\n")
        assert Resized(100, 30) in events
        assert Resized(120, 40) in events
    assert not client.terminated


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(0, 5))
def test_no_input_raises(pieces: list[bytes], opened: int) -> None:
    client = Client(TTY)
    client.open(*["error", "stdin", "stdout", "resize", "x"][:opened])
    disconnected = False
    for index, piece in enumerate(pieces):
        events = client.server.receive_data(piece)
        assert not (disconnected and events)
        disconnected = disconnected or any(isinstance(e, Disconnected) for e in events)
        if index == 6:
            with contextlib.suppress(LocalProtocolError):
                client.server.send_status(CommandStatus(0))
    client.server.receive_eof()
