import pytest
from hypothesis import given, settings, strategies as st

from vkubelet.streaming.channels import (
    PROTOCOL_V1,
    PROTOCOL_V4,
    PROTOCOL_V5,
    CommandStatus,
    serialize_status,
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
from vkubelet.streaming.remotecommand_client import (
    ClientEvent,
    CommandEnded,
    OutputReceived,
    RemoteCommandClient,
)
from vkubelet.streaming.spdy.connection import Connection, Role
from vkubelet.streaming.spdy.events import StreamOpened

ALL = StreamOptions(stdin=True, stdout=True, stderr=True)
TTY = StreamOptions(stdin=True, stdout=True, tty=True)


class Both:
    """A client and a server that talk to each other."""

    def __init__(self, options: StreamOptions = ALL, protocol: str = PROTOCOL_V4) -> None:
        self.client = RemoteCommandClient(options, protocol)
        self.server = RemoteCommandServer(options, protocol)
        assert self.talk() == ([StreamsReady()], [StreamsReady()])

    def talk(self) -> tuple[list[Event], list[ClientEvent]]:
        seen: tuple[list[Event], list[ClientEvent]] = ([], [])
        while True:
            up = self.client.data_to_send()
            seen[0].extend(self.server.receive_data(up))
            down = self.server.data_to_send()
            seen[1].extend(self.client.receive_data(down))
            if not up and not down:
                return seen


class RawServer:
    """A server that does what a test says."""

    def __init__(self, client: RemoteCommandClient) -> None:
        self.client = client
        self.spdy = Connection(Role.SERVER)
        self.streams: dict[str, int] = {}

    def accept(self) -> None:
        while opened := [
            event
            for event in self.spdy.receive_data(self.client.data_to_send())
            if isinstance(event, StreamOpened)
        ]:
            for event in opened:
                self.streams[event.headers[0][1]] = event.stream_id
                self.spdy.send_reply(event.stream_id)
            self.flush()

    def flush(self) -> list[ClientEvent]:
        return self.client.receive_data(self.spdy.data_to_send())


@pytest.mark.parametrize("code", [0, 7])
def test_a_command(code: int) -> None:
    both = Both()
    both.client.send_stdin(b"in")
    both.client.send_stdin_eof()
    assert both.talk()[0] == [StdinReceived(b"in"), StdinClosed()]
    both.server.send_output(StreamType.STDERR, b"err")
    both.server.send_output(StreamType.STDOUT, b"out")
    both.server.send_status(CommandStatus(code))
    assert both.talk()[1] == [
        OutputReceived(StreamType.STDERR, b"err"),
        OutputReceived(StreamType.STDOUT, b"out"),
        CommandEnded(CommandStatus(code)),
    ]
    assert both.client.phase is Phase.FINISHED
    assert both.client.status == CommandStatus(code)
    both.client.send_stdin(b"swallowed")
    both.client.close()
    assert both.talk() == ([], [])


def test_streams_are_opened_in_order_and_one_by_one() -> None:
    server = RawServer(RemoteCommandClient(TTY))
    server.accept()
    assert list(server.streams) == ["error", "stdin", "stdout", "resize"]
    assert list(server.streams.values()) == [1, 3, 5, 7]


def test_resize() -> None:
    both = Both(TTY)
    both.client.send_resize(100, 30)
    assert both.talk()[0] == [Resized(100, 30)]
    both = Both()
    both.client.send_resize(100, 30)
    assert both.talk() == ([], [])


def test_old_protocols() -> None:
    both = Both(ALL, PROTOCOL_V1)
    both.server.send_status(CommandStatus(0))
    assert both.talk()[1] == [CommandEnded(CommandStatus(0))]
    both = Both(ALL, PROTOCOL_V1)
    both.server.send_status(CommandStatus(3))
    (event,) = both.talk()[1]
    assert isinstance(event, CommandEnded)
    assert event.status.code is None
    assert event.status.message.endswith("exit status 3")


def test_the_status_waits_for_the_output() -> None:
    server = RawServer(RemoteCommandClient(StreamOptions(stdout=True)))
    server.accept()
    server.spdy.send_data(server.streams["error"], serialize_status(CommandStatus(5)), fin=True)
    assert server.flush() == []
    assert server.client.status == CommandStatus(5)
    server.spdy.send_data(server.streams["stdout"], b"tail", fin=True)
    assert server.flush() == [
        OutputReceived(StreamType.STDOUT, b"tail"),
        CommandEnded(CommandStatus(5)),
    ]


@pytest.mark.parametrize("fin", [True, False])
def test_a_server_that_leaves_after_the_status(fin: bool) -> None:
    server = RawServer(RemoteCommandClient(StreamOptions(stdout=True)))
    server.accept()
    server.spdy.send_data(server.streams["error"], serialize_status(CommandStatus(5)), fin=fin)
    server.spdy.send_go_away()
    assert server.flush() == [CommandEnded(CommandStatus(5))]


def test_a_cut_connection_is_no_success() -> None:
    both = Both()
    assert both.client.receive_eof() == [Disconnected("the server closed the connection")]
    assert both.client.phase is Phase.DISCONNECTED
    both.client.close()


def test_an_empty_error_stream_is_no_success() -> None:
    server = RawServer(RemoteCommandClient(StreamOptions(stdout=True)))
    server.accept()
    for stream in ("stdout", "error"):
        server.spdy.send_data(server.streams[stream], b"", fin=True)
    (event,) = server.flush()
    assert isinstance(event, CommandEnded)
    assert event.status.code is None


def test_a_refused_stream() -> None:
    client = RemoteCommandClient(ALL)
    spdy = Connection(Role.SERVER)
    spdy.receive_data(client.data_to_send())
    spdy.reset_stream(1)
    assert client.receive_data(spdy.data_to_send()) == [
        Disconnected("the server refused the error stream")
    ]


def test_reset_streams() -> None:
    server = RawServer(RemoteCommandClient(ALL))
    server.accept()
    for stream in ("stdin", "stdout", "stderr"):
        server.spdy.reset_stream(server.streams[stream])
    assert server.flush() == []
    server.client.send_stdin(b"swallowed")
    server.client.send_stdin_eof()
    server.spdy.send_data(server.streams["error"], serialize_status(CommandStatus(0)), fin=True)
    assert server.flush() == [CommandEnded(CommandStatus(0))]


def test_leaving_early() -> None:
    both = Both()
    both.client.close()
    (event, *_) = both.talk()[0]
    assert isinstance(event, Disconnected | StdinClosed)
    assert both.server.phase is Phase.DISCONNECTED
    assert both.client.receive_eof() == []


def test_misuse() -> None:
    with pytest.raises(LocalProtocolError):
        RemoteCommandClient(ALL, PROTOCOL_V5)
    client = RemoteCommandClient(ALL)
    with pytest.raises(LocalProtocolError):
        client.send_stdin(b"x")


def test_pings() -> None:
    both = Both()
    for _ in range(200):
        both.client.send_ping()
        both.talk()
    assert both.client.phase is Phase.RUNNING


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=30), max_size=8), st.integers(0, 5))
def test_no_input_raises(pieces: list[bytes], accepted: int) -> None:
    client = RemoteCommandClient(TTY)
    spdy = Connection(Role.SERVER)
    for _ in range(accepted):
        for event in spdy.receive_data(client.data_to_send()):
            if isinstance(event, StreamOpened):
                spdy.send_reply(event.stream_id)
        client.receive_data(spdy.data_to_send())
    ended = False
    for piece in pieces:
        events = client.receive_data(piece)
        assert not (ended and events)
        ended = ended or any(isinstance(e, CommandEnded | Disconnected) for e in events)
    client.receive_eof()
    assert client.phase in (Phase.FINISHED, Phase.DISCONNECTED)
