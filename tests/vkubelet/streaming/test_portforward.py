import pytest
from hypothesis import given, settings, strategies as st

from tests.vectors import SPDY_FORWARDS, load_vector
from vkubelet.streaming.portforward import (
    MAX_REQUEST_ID_LENGTH,
    Disconnected,
    Event,
    ForwardAnnounced,
    ForwardEnded,
    ForwardOpened,
    ForwardReceived,
    ForwardReset,
    PortForwardServer,
    parse_port,
)
from vkubelet.streaming.spdy import events as spdy
from vkubelet.streaming.spdy.connection import MAX_STREAMS, Connection, Role
from vkubelet.streaming.spdy.frames import ResetCode


class Client:
    """The Go client's side, on our own connection."""

    def __init__(self) -> None:
        self.server = PortForwardServer()
        self.spdy = Connection(Role.CLIENT)
        self.received: list[spdy.Event] = []

    def flush(self) -> list[Event]:
        events = self.server.receive_data(self.spdy.data_to_send())
        self.received += self.spdy.receive_data(self.server.data_to_send())
        return events

    def open(
        self, kind: str, port: str = "80", request: str | None = "0", *, fin: bool = False
    ) -> tuple[int, list[Event]]:
        headers = [("streamType", kind), ("port", port)]
        if request is not None:
            headers.append(("requestID", request))
        stream_id = self.spdy.open_stream(headers, fin=fin)
        return stream_id, self.flush()

    def open_pair(self, request: str = "0") -> tuple[int, int]:
        error_id, _ = self.open("error", request=request)
        self.spdy.send_data(error_id, b"", fin=True)
        data_id, events = self.open("data", request=request)
        assert isinstance(events[-1], ForwardOpened)
        return error_id, data_id

    def output(self, stream_id: int) -> tuple[bytes, bool]:
        parts = [
            event
            for event in self.received
            if isinstance(event, spdy.DataReceived) and event.stream_id == stream_id
        ]
        return b"".join(part.data for part in parts), any(part.fin for part in parts)


def test_a_pair_opens() -> None:
    client = Client()
    assert client.open("error")[1] == [ForwardAnnounced(0)]
    assert client.open("data")[1] == [ForwardOpened(0, 80)]
    assert [type(event) for event in client.received] == [spdy.StreamReplied] * 2
    assert client.server.forward_count == 1


def test_data_may_open_first_and_speak_first() -> None:
    client = Client()
    data_id, events = client.open("data", "81")
    assert events == [ForwardAnnounced(0)]
    client.spdy.send_data(data_id, b"early", fin=True)
    assert client.flush() == [ForwardReceived(0, b"early"), ForwardEnded(0)]
    assert client.open("error", "81")[1] == [ForwardOpened(0, 81)]


def test_data_stream_with_fin() -> None:
    client = Client()
    client.open("error")
    assert client.open("data", fin=True)[1] == [ForwardOpened(0, 80), ForwardEnded(0)]


def test_old_clients_have_no_request_id() -> None:
    client = Client()
    for number in range(2):
        assert client.open("error", request=None)[1] == [ForwardAnnounced(number)]
        assert client.open("data", request=None)[1] == [ForwardOpened(number, 80)]


def test_both_ways_and_a_good_end() -> None:
    client = Client()
    error_id, data_id = client.open_pair()
    client.spdy.send_data(data_id, b"question")
    assert client.flush() == [ForwardReceived(0, b"question")]
    client.server.send_data(0, b"answer")
    client.server.send_eof(0)
    client.flush()
    assert client.output(data_id) == (b"answer", True)
    assert client.output(error_id) == (b"", False)
    client.spdy.send_data(data_id, b"more", fin=True)
    assert client.flush() == [ForwardReceived(0, b"more"), ForwardEnded(0)]
    client.server.finish(0)
    client.flush()
    assert client.output(error_id) == (b"", True)
    assert client.server.forward_count == 0
    assert not client.spdy.stream_ids


def test_a_failure_is_told_on_the_error_stream() -> None:
    client = Client()
    error_id, data_id = client.open_pair()
    client.server.abort(0, "nobody listens")
    client.flush()
    assert client.output(error_id) == (b"nobody listens", True)
    assert spdy.StreamReset(stream_id=data_id, code=ResetCode.CANCEL) in client.received
    client.server.send_data(0, b"swallowed")
    client.server.abort(0, "swallowed")
    client.server.finish(0)
    assert client.server.data_to_send() == b""


def test_the_clients_reset_ends_a_forward_and_the_others_go_on() -> None:
    client = Client()
    error_id, data_id = client.open_pair("a")
    _, other_id = client.open_pair("b")
    client.spdy.reset_stream(data_id)
    assert client.flush() == [ForwardReset(0)]
    assert client.output(error_id) == (b"", True)  # Go clients wait for it
    client.spdy.send_data(other_id, b"still here")
    assert client.flush() == [ForwardReceived(1, b"still here")]
    assert client.server.forward_count == 1


def test_a_reset_error_stream_changes_nothing() -> None:
    client = Client()
    error_id, _ = client.open("error")
    data_id, _ = client.open("data")
    client.spdy.reset_stream(error_id)
    assert client.flush() == []
    client.server.abort(0, "nobody reads this")
    client.flush()
    assert spdy.StreamReset(stream_id=data_id, code=ResetCode.CANCEL) in client.received


@pytest.mark.parametrize(
    ("kind", "port", "request_id"),
    [
        ("error", "0", "1"),
        ("error", "65536", "1"),
        ("error", "http", "1"),
        ("error", "", "1"),
        ("error", "-1", "1"),
        ("stdin", "80", "1"),
        ("error", "80", "x" * (MAX_REQUEST_ID_LENGTH + 1)),
        ("error", "80", "0"),
    ],
)
def test_bad_streams_are_reset(kind: str, port: str, request_id: str) -> None:
    client = Client()
    client.open("error")
    stream_id, events = client.open(kind, port, request_id)
    assert events == []
    assert client.received[-1] == spdy.StreamReset(
        stream_id=stream_id, code=ResetCode.PROTOCOL_ERROR
    )
    assert client.server.forward_count == 1


@pytest.mark.parametrize("kind", ["error", "data"])
def test_half_a_pair_is_given_up(kind: str) -> None:
    client = Client()
    stream_id, _ = client.open(kind)
    client.server.give_up(0)
    client.flush()
    if kind == "error":
        assert client.output(stream_id) == (b"request 0: timed out waiting for streams", True)
    else:
        assert client.received[-1] == spdy.StreamReset(stream_id=stream_id, code=5)
    assert client.server.forward_count == 0
    assert client.open("error" if kind == "data" else "data")[1] == [ForwardAnnounced(1)]


def test_a_whole_pair_is_not_given_up() -> None:
    client = Client()
    client.open_pair()
    client.server.give_up(0)
    client.server.give_up(7)
    assert client.server.forward_count == 1


def test_many_short_connections_leave_nothing() -> None:
    client = Client()
    for number in range(2_000):
        _, data_id = client.open_pair(str(number))
        client.server.finish(number)
        client.flush()
        client.spdy.reset_stream(data_id) if client.spdy.is_open(data_id) else None
        client.flush()
        client.received.clear()
    assert client.server.forward_count == 0
    assert not client.spdy.stream_ids
    server = vars(client.server)
    assert not server["_pairs"]
    assert not server["_requests"]
    assert not server["_streams"]
    assert not server["_connection"].stream_ids


def test_many_at_once_up_to_the_cap() -> None:
    client = Client()
    for number in range(MAX_STREAMS // 2):
        client.open_pair(str(number))
    stream_id, events = client.open("error", request="one more")
    assert events == []
    assert client.received[-1] == spdy.StreamReset(
        stream_id=stream_id, code=ResetCode.REFUSED_STREAM
    )


def test_close_tells_why_and_says_goodbye() -> None:
    client = Client()
    error_id, _ = client.open_pair()
    client.server.close("the node is shutting down")
    assert client.server.closed
    client.flush()
    assert client.output(error_id) == (b"the node is shutting down", True)
    assert client.received[-1] == spdy.GoAwayReceived(last_stream_id=3, code=0)
    client.server.close("again")
    client.server.send_probe()
    assert client.server.data_to_send() == b""
    client.spdy.open_stream([("streamtype", "error")])
    assert client.flush() == []
    assert client.server.receive_eof() == [Disconnected("the client closed the connection")]


def test_the_clients_end() -> None:
    client = Client()
    client.open_pair()
    client.spdy.send_go_away()
    assert client.flush() == [Disconnected("the client sent GOAWAY")]
    assert client.server.forward_count == 0
    client.server.send_data(0, b"swallowed")
    client.server.close("swallowed")
    assert client.server.data_to_send() == b""
    assert client.server.receive_eof() == []
    client = Client()
    assert client.server.receive_eof() == [Disconnected("the client closed the connection")]
    assert client.server.receive_eof() == []


def test_a_stream_that_is_reset_with_the_same_bytes() -> None:
    client = Client()
    stream_id = client.spdy.open_stream([("streamtype", "error"), ("port", "80")])
    client.spdy.reset_stream(stream_id)
    assert client.flush() == []
    client.spdy.open_stream([("streamtype", "error"), ("port", "80")])
    (event,) = client.server.receive_data(client.spdy.data_to_send() + b"\x80\x63rubbish")
    assert isinstance(event, Disconnected)


@pytest.mark.parametrize(
    ("text", "port"), [("1", 1), ("65535", 65535), (None, None), ("٣", None), ("080", 80)]
)
def test_ports(text: str | None, port: int | None) -> None:
    assert parse_port(text) == port


@pytest.mark.parametrize("name", SPDY_FORWARDS)
@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_recorded_clients(name: str, step: int) -> None:
    vector = load_vector(name)
    assert b"X-Stream-Protocol-Version: portforward.k8s.io" in vector.request_head
    server = PortForwardServer()
    events: list[Event] = []
    for from_client, data in vector.chunks:
        for start in range(0, len(data) if from_client else 0, step):
            new = server.receive_data(data[start : start + step])
            events += new
            for event in new:
                if isinstance(event, ForwardEnded):
                    server.send_data(event.forward_id, b"got")
                    server.finish(event.forward_id)
    received = [e.data for e in events if isinstance(e, ForwardReceived)]
    assert sorted(b"".join(received).split(b"hello")) == [b"", b"0", b"1"]
    assert sum(isinstance(event, ForwardOpened) for event in events) == 2
    assert isinstance(events[-1], Disconnected)
    client = Connection(Role.CLIENT)
    client.open_stream([])
    assert client.receive_data(server.data_to_send())
    assert not client.terminated


HEADER = st.tuples(
    st.sampled_from(["error", "data", "x"]), st.sampled_from(["80", "0"]), st.sampled_from("01")
)
STEP = st.one_of(
    HEADER,
    st.tuples(st.just("send"), st.integers(0, 8), st.binary(max_size=9), st.booleans()),
    st.tuples(st.just("reset"), st.integers(0, 8)),
    st.tuples(st.just("ours"), st.integers(0, 4), st.sampled_from(["finish", "abort", "give_up"])),
    st.binary(max_size=20),
)


def take_step(client: Client, step: object) -> bytes:
    """Do something on either side, and return what the client has to send."""
    match step:
        case bytes():
            return step
        case ("send", int(index), bytes(piece), bool(fin)):
            if client.spdy.is_writable(2 * index + 1):
                client.spdy.send_data(2 * index + 1, piece, fin=fin)
        case ("reset", int(index)):
            if client.spdy.is_open(2 * index + 1):
                client.spdy.reset_stream(2 * index + 1)
        case ("ours", int(index), str(call)):
            getattr(client.server, call)(index)
        case (str(kind), str(port), str(request)):
            client.spdy.open_stream([("streamtype", kind), ("port", port), ("requestid", request)])
        case _:
            raise AssertionError(step)
    return client.spdy.data_to_send()


def check_order(events: list[Event]) -> None:
    """Everything that happens to a forward happens between its announcement and its end."""
    announced: set[int] = set()
    for event in events[:-1]:
        match event:
            case ForwardAnnounced():
                announced.add(event.forward_id)
            case ForwardReset():
                announced.remove(event.forward_id)
            case Disconnected():
                raise AssertionError("not the last event")
            case _:
                assert event.forward_id in announced
    assert isinstance(events[-1], Disconnected)


@settings(max_examples=300)
@given(st.lists(STEP, max_size=25), st.integers(1, 4))
def test_no_input_raises(steps: list[object], group: int) -> None:
    """Steps of the client travel in groups, as TCP would have it."""
    client = Client()
    events: list[Event] = []
    data = b""
    for number, step in enumerate(steps):
        data += take_step(client, step)
        if number % group == 0:
            events += client.server.receive_data(data)
            data = b""
    events += client.server.receive_eof()
    check_order(events)
