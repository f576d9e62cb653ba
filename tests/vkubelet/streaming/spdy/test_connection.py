import contextlib
import struct
from collections.abc import Iterable

import pytest
from hypothesis import given, settings, strategies as st

from tests.vectors import SPDY_EXECS, load_vector
from vkubelet.streaming.errors import LocalProtocolError
from vkubelet.streaming.spdy import frames
from vkubelet.streaming.spdy.connection import (
    MAX_PENDING_PINGS,
    MAX_UNSENT_REPLY_BYTES,
    TRANSITIONS,
    Connection,
    Role,
    StreamInput,
    StreamState,
)
from vkubelet.streaming.spdy.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    GoAwayReceived,
    HeadersReceived,
    PingAcknowledged,
    StreamOpened,
    StreamReplied,
    StreamReset,
)
from vkubelet.streaming.spdy.frames import FrameDecoder, ResetCode, encode
from vkubelet.streaming.spdy.headers import HeaderCompressor

HEADERS = (("streamtype", "data"),)


class Pair:
    """A client and a server that talk to each other; both roles run the same tests."""

    def __init__(self, opener: Role) -> None:
        self.opener = Connection(opener)
        self.other = Connection(Role.SERVER if opener is Role.CLIENT else Role.CLIENT)

    def to_other(self) -> list[Event]:
        return self.other.receive_data(self.opener.data_to_send())

    def to_opener(self) -> list[Event]:
        return self.opener.receive_data(self.other.data_to_send())

    def open(self) -> int:
        stream_id = self.opener.open_stream(HEADERS)
        self.to_other()
        self.other.send_reply(stream_id)
        assert self.to_opener() == [StreamReplied(stream_id=stream_id, headers=(), fin=False)]
        return stream_id


@pytest.fixture(params=list(Role))
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param)


def merge(events: Iterable[Event]) -> list[Event]:
    """Join neighbouring data of a stream, as where it is cut is chance."""
    merged: list[Event] = []
    for event in events:
        last = merged[-1] if merged else None
        if (
            isinstance(event, DataReceived)
            and isinstance(last, DataReceived)
            and last.stream_id == event.stream_id
            and not last.fin
        ):
            merged[-1] = DataReceived(
                stream_id=event.stream_id, data=last.data + event.data, fin=event.fin
            )
        else:
            merged.append(event)
    return merged


def test_open_reply_data_and_half_close_both_ways(pair: Pair) -> None:
    stream_id = pair.opener.open_stream(HEADERS)
    assert pair.to_other() == [
        StreamOpened(stream_id=stream_id, headers=HEADERS, fin=False, unidirectional=False)
    ]
    pair.other.send_reply(stream_id, [("a", "b")])
    assert pair.to_opener() == [
        StreamReplied(stream_id=stream_id, headers=(("a", "b"),), fin=False)
    ]
    pair.opener.send_data(stream_id, b"ping")
    pair.opener.send_data(stream_id, b"", fin=True)
    assert pair.to_other() == [
        DataReceived(stream_id=stream_id, data=b"ping", fin=False),
        DataReceived(stream_id=stream_id, data=b"", fin=True),
    ]
    pair.other.send_data(stream_id, b"pong", fin=True)
    assert pair.to_opener() == [DataReceived(stream_id=stream_id, data=b"pong", fin=True)]
    assert not pair.opener.stream_ids
    assert not pair.other.stream_ids


def test_ids_have_the_roles_parity() -> None:
    client, server = Connection(Role.CLIENT), Connection(Role.SERVER)
    assert [client.open_stream(()) for _ in range(3)] == [1, 3, 5]
    assert [server.open_stream(()) for _ in range(3)] == [2, 4, 6]
    assert [client.send_ping(), client.send_ping()] == [1, 3]
    assert [server.send_ping(), server.send_ping()] == [2, 4]


def test_fin_may_ride_on_any_frame(pair: Pair) -> None:
    stream_id = pair.opener.open_stream(HEADERS, fin=True)
    assert isinstance(pair.to_other()[0], StreamOpened)
    pair.other.send_reply(stream_id, fin=True)
    assert pair.to_opener() == [StreamReplied(stream_id=stream_id, headers=(), fin=True)]
    assert not pair.opener.stream_ids | pair.other.stream_ids
    stream_id = pair.open()
    pair.opener.send_headers(stream_id, [("x", "y")], fin=True)
    assert pair.to_other() == [
        HeadersReceived(stream_id=stream_id, headers=(("x", "y"),), fin=True)
    ]


def test_unidirectional_stream(pair: Pair) -> None:
    stream_id = pair.opener.open_stream(HEADERS, unidirectional=True)
    pair.opener.send_data(stream_id, b"x", fin=True)
    opened, data = pair.to_other()
    assert isinstance(opened, StreamOpened)
    assert opened.unidirectional
    assert data == DataReceived(stream_id=stream_id, data=b"x", fin=True)
    assert not pair.other.stream_ids


def test_large_data_is_cut_into_frames() -> None:
    client = Connection(Role.CLIENT)
    stream_id = client.open_stream(())
    client.data_to_send()
    client.send_data(stream_id, bytes(70_000), fin=True)
    sizes: dict[bool, int] = {}
    decoded = [
        frame
        for frame in FrameDecoder().decode(client.data_to_send())
        if isinstance(frame, frames.Data)
    ]
    for frame in decoded:
        sizes[frame.fin] = sizes.get(frame.fin, 0) + len(frame.data)
    assert [len(frame.data) for frame in decoded] == [32768, 32768, 4464]
    assert [frame.fin for frame in decoded] == [False, False, True]


def test_reset(pair: Pair) -> None:
    stream_id = pair.open()
    pair.opener.reset_stream(stream_id)
    assert pair.to_other() == [StreamReset(stream_id=stream_id, code=ResetCode.CANCEL)]
    assert not pair.opener.stream_ids | pair.other.stream_ids
    with pytest.raises(LocalProtocolError):
        pair.other.send_data(stream_id, b"x")


def test_ping_is_answered_by_itself(pair: Pair) -> None:
    ping_id = pair.opener.send_ping()
    assert pair.to_other() == []
    assert pair.to_opener() == [PingAcknowledged(ping_id=ping_id)]
    pair.other.receive_data(encode(frames.Ping(ping_id=ping_id)))
    assert pair.to_opener() == []  # a second echo is nobody's


def test_go_away(pair: Pair) -> None:
    stream_id = pair.open()
    pair.other.send_go_away()
    assert pair.to_opener() == [GoAwayReceived(last_stream_id=stream_id, code=0)]
    pair.opener.open_stream(HEADERS)
    assert pair.to_other() == []  # a stream after GOAWAY is ignored
    with pytest.raises(LocalProtocolError):
        pair.other.open_stream(HEADERS)
    with pytest.raises(LocalProtocolError):
        pair.other.send_go_away()


def test_eof_ends_everything_once(pair: Pair) -> None:
    stream_id = pair.open()
    assert pair.other.receive_eof() == [ConnectionTerminated(error=None)]
    assert pair.other.receive_eof() == []
    assert pair.other.receive_data(b"\x80") == []
    assert pair.other.terminated
    assert not pair.other.stream_ids
    with pytest.raises(LocalProtocolError):
        pair.other.send_data(stream_id, b"x")
    with pytest.raises(LocalProtocolError):
        pair.other.send_ping()


def test_data_before_the_reply_is_dropped(pair: Pair) -> None:
    stream_id = pair.opener.open_stream(HEADERS)
    early = frames.Data(stream_id=stream_id, data=b"early")
    assert pair.opener.receive_data(encode(early)) == []


def test_data_for_nobody_is_dropped(pair: Pair) -> None:
    for stream_id in (0, 1, 2, 99):
        assert pair.other.receive_data(encode(frames.Data(stream_id=stream_id, data=b"x"))) == []
    assert pair.other.data_to_send() == b""


def test_data_after_fin_and_empty_data_are_dropped(pair: Pair) -> None:
    stream_id = pair.open()
    assert pair.other.receive_data(encode(frames.Data(stream_id=stream_id, data=b""))) == []
    fin = encode(frames.Data(stream_id=stream_id, data=b"", fin=True))
    assert len(pair.other.receive_data(fin)) == 1
    late = encode(frames.Data(stream_id=stream_id, data=b"late")) + fin
    assert pair.other.receive_data(late) == []
    assert pair.other.data_to_send() == b""
    pair.other.send_data(stream_id, b"still writable")


def test_lower_or_used_id_is_reset() -> None:
    server, compressor = Connection(Role.SERVER), HeaderCompressor()

    def syn(stream_id: int) -> bytes:
        return encode(frames.SynStream(stream_id=stream_id, block=compressor.compress(())))

    assert len(server.receive_data(syn(5))) == 1
    assert server.receive_data(syn(3)) == []
    assert server.receive_data(syn(4)) == []  # the server's own to use
    rst = frames.RstStream(stream_id=3, code=ResetCode.PROTOCOL_ERROR)
    assert server.data_to_send().startswith(encode(rst))
    assert server.receive_data(syn(5)) == [StreamReset(stream_id=5, code=1)]
    assert len(server.receive_data(syn(7))) == 1  # the header stream is still in step


def test_too_many_streams_are_refused() -> None:
    client, server = Connection(Role.CLIENT), Connection(Role.SERVER, max_streams=2)
    ids = [client.open_stream(HEADERS) for _ in range(3)]
    assert len(server.receive_data(client.data_to_send())) == 2
    events = client.receive_data(server.data_to_send())
    assert events == [StreamReset(stream_id=ids[2], code=ResetCode.REFUSED_STREAM)]


def test_unfetched_replies_are_capped() -> None:
    server = Connection(Role.SERVER)
    pings = encode(frames.Ping(ping_id=1)) * 10_000
    events: list[Event] = []
    for _ in range(MAX_UNSENT_REPLY_BYTES // len(pings) + 1):
        events += server.receive_data(pings)
    assert events == [ConnectionTerminated(error="peer asks for answers faster than it takes them")]
    assert len(server.data_to_send()) < MAX_UNSENT_REPLY_BYTES + 100


def test_unanswered_pings_are_capped() -> None:
    client = Connection(Role.CLIENT)
    for _ in range(MAX_PENDING_PINGS):
        assert client.can_ping
        client.send_ping()
    assert not client.can_ping
    with pytest.raises(LocalProtocolError):
        client.send_ping()


@pytest.mark.parametrize(
    "wire",
    [
        bytes.fromhex("80020001 00000000"),
        bytes.fromhex("80030006 00000001 00"),
        encode(frames.SynStream(stream_id=1, block=b"rubbish")),
        encode(frames.SynReply(stream_id=1, block=b"rubbish")),
        encode(frames.HeadersFrame(stream_id=1, block=b"rubbish")),
        encode(frames.SynStream(stream_id=0, block=HeaderCompressor().compress(()))),
    ],
)
def test_a_broken_peer_gets_go_away_and_ends(pair: Pair, wire: bytes) -> None:
    pair.open()
    event = pair.other.receive_data(wire)[-1]
    assert isinstance(event, ConnectionTerminated)
    assert event.error
    (go_away,) = FrameDecoder().decode(pair.other.data_to_send())
    assert isinstance(go_away, frames.GoAway)
    assert go_away.code == frames.GoAwayCode.PROTOCOL_ERROR
    assert pair.other.receive_data(wire) == []


def test_frames_without_meaning_are_ignored(pair: Pair) -> None:
    wire = bytes.fromhex(
        "80030004 0000000c 00000001 01000004 00000064 80030009 00000008 00000003 00010000"
        "80030005 00000000 8003000a 00000003 010203 80030003 00000008 00000063 00000005"
    )
    assert pair.other.receive_data(wire) == []
    assert pair.other.data_to_send() == b""


def test_misuse_raises_and_changes_nothing(pair: Pair) -> None:
    stream_id = pair.opener.open_stream(HEADERS)
    pair.to_other()
    with pytest.raises(LocalProtocolError, match="replied"):
        pair.other.send_data(stream_id, b"x")
    with pytest.raises(LocalProtocolError, match="no reply"):
        pair.opener.send_reply(stream_id)
    with pytest.raises(LocalProtocolError, match="isn't open"):
        pair.opener.send_data(77, b"x")
    pair.other.send_reply(stream_id)
    with pytest.raises(LocalProtocolError, match="no reply"):
        pair.other.send_reply(stream_id)
    pair.other.send_data(stream_id, b"x", fin=True)
    with pytest.raises(LocalProtocolError, match="closed"):
        pair.other.send_data(stream_id, b"y")
    assert len(pair.to_opener()) == 2


def test_every_state_is_left_by_reset_and_fins() -> None:
    open_states = {state for state, _ in TRANSITIONS}
    assert open_states == set(StreamState) - {StreamState.CLOSED}
    for state in open_states:
        assert TRANSITIONS[state, StreamInput.RESET] is StreamState.CLOSED


@pytest.mark.parametrize("name", SPDY_EXECS)
@settings(max_examples=10)
@given(data=st.data())
def test_recorded_clients_in_any_split(name: str, data: st.DataObject) -> None:
    wire = load_vector(name).client_bytes
    whole = Connection(Role.SERVER).receive_data(wire)
    first = whole[0]
    assert isinstance(first, StreamOpened)
    assert first.headers == (("streamtype", "error"),)
    assert not any(isinstance(event, ConnectionTerminated) for event in whole)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=30)))
    server = Connection(Role.SERVER)
    events: list[Event] = []
    for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        events += server.receive_data(wire[start:end])
    assert merge(events) == merge(whole)


_actions = st.one_of(
    st.tuples(st.just("receive"), st.binary(max_size=80)),
    st.tuples(
        st.just("receive"),
        st.builds(
            lambda kind, flags, body: (
                struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body
            ),
            st.integers(0, 12),
            st.integers(0, 3),
            st.binary(max_size=24),
        ),
    ),
    st.tuples(
        st.just("receive"),
        st.builds(
            lambda stream_id, fin, body: encode(
                frames.Data(stream_id=stream_id, data=body, fin=fin)
            ),
            st.integers(0, 6),
            st.booleans(),
            st.binary(max_size=24),
        ),
    ),
    st.tuples(st.just("syn"), st.integers(0, 6)),
    st.tuples(st.just("open"), st.booleans()),
    st.tuples(st.just("reply"), st.integers(0, 6)),
    st.tuples(st.just("data"), st.integers(0, 6)),
    st.tuples(st.just("fin"), st.integers(0, 6)),
    st.tuples(st.just("reset"), st.integers(0, 6)),
    st.tuples(st.just("ping"), st.none()),
    st.tuples(st.just("go_away"), st.none()),
    st.tuples(st.just("eof"), st.none()),
)


@settings(max_examples=300)
@given(st.sampled_from(Role), st.lists(_actions, max_size=40))
def test_no_input_raises_in_any_state(  # noqa: C901 - one case an action
    role: Role, actions: list[tuple[str, object]]
) -> None:
    connection = Connection(role, max_streams=3)
    compressor = HeaderCompressor()
    terminated = False
    for action, argument in actions:
        events: list[Event] = []
        number = argument if isinstance(argument, int) else 0
        with contextlib.suppress(LocalProtocolError):
            match action:
                case "receive":
                    assert isinstance(argument, bytes)
                    events = connection.receive_data(argument)
                case "syn":
                    block = compressor.compress(HEADERS)
                    frame = frames.SynStream(stream_id=number, block=block)
                    events = connection.receive_data(encode(frame))
                case "open":
                    connection.open_stream(HEADERS, fin=bool(argument))
                case "reply":
                    connection.send_reply(number)
                case "data":
                    connection.send_data(number, b"x")
                case "fin":
                    connection.send_data(number, b"", fin=True)
                case "reset":
                    connection.reset_stream(number)
                case "ping":
                    connection.send_ping()
                case "go_away":
                    connection.send_go_away()
                case _:
                    events = connection.receive_eof()
        assert not (terminated and events)
        terminated = terminated or any(isinstance(e, ConnectionTerminated) for e in events)
        assert terminated == connection.terminated
        peers = [i for i in connection.stream_ids if i % 2 != role.value]
        assert len(peers) <= 3
