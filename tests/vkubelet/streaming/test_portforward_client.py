import pytest
from hypothesis import given, settings, strategies as st

from vkubelet.streaming.errors import LocalProtocolError
from vkubelet.streaming.portforward import (
    Disconnected,
    Event,
    ForwardAnnounced,
    ForwardEnded,
    ForwardOpened,
    ForwardReceived,
    ForwardReset,
    PortForwardServer,
)
from vkubelet.streaming.portforward_client import (
    ClientEvent,
    ForwardFailed,
    ForwardReady,
    PortForwardClient,
)
from vkubelet.streaming.spdy.connection import Connection, Role


class Both:
    """A client and a server that talk to each other."""

    def __init__(self) -> None:
        self.client = PortForwardClient()
        self.server = PortForwardServer()

    def talk(self) -> tuple[list[Event], list[ClientEvent]]:
        seen: tuple[list[Event], list[ClientEvent]] = ([], [])
        while True:
            up = self.client.data_to_send()
            seen[0].extend(self.server.receive_data(up))
            down = self.server.data_to_send()
            seen[1].extend(self.client.receive_data(down))
            if not up and not down:
                return seen

    def open(self, port: int = 80) -> int:
        forward_id = self.client.open(port)
        assert self.talk() == (
            [ForwardAnnounced(forward_id), ForwardOpened(forward_id, port)],
            [ForwardReady(forward_id)],
        )
        return forward_id


def test_both_ways_and_the_end() -> None:
    both = Both()
    one, two = both.open(80), both.open(81)
    both.client.send_data(one, b"question")
    both.client.send_eof(one)
    assert both.talk()[0] == [ForwardReceived(one, b"question"), ForwardEnded(one)]
    both.server.send_data(one, b"answer")
    both.server.finish(one)
    assert both.talk()[1] == [ForwardReceived(one, b"answer"), ForwardEnded(one)]
    assert both.client.forward_ids == {two}
    both.client.reset(one)
    assert both.talk() == ([], [])


def test_the_pod_ends_first() -> None:
    both = Both()
    forward_id = both.open()
    both.server.send_eof(forward_id)
    assert both.talk()[1] == [ForwardEnded(forward_id)]
    both.client.send_data(forward_id, b"x")
    both.client.send_eof(forward_id)
    assert both.talk()[0] == [ForwardReceived(forward_id, b"x"), ForwardEnded(forward_id)]
    both.server.finish(forward_id)
    assert both.talk() == ([], [])
    assert not both.client.forward_ids


def test_a_reset_of_ours() -> None:
    both = Both()
    forward_id = both.open()
    both.client.reset(forward_id)
    assert both.talk() == ([ForwardReset(forward_id)], [])
    assert not both.client.forward_ids
    both.client.send_data(forward_id, b"swallowed")
    assert both.talk() == ([], [])


@pytest.mark.parametrize(
    ("message", "told"), [("nobody listens", "nobody listens"), ("", "the connection was reset")]
)
def test_failures(message: str, told: str) -> None:
    both = Both()
    forward_id = both.open()
    both.server.abort(forward_id, message)
    assert both.talk()[1] == [ForwardFailed(forward_id, told)]
    assert not both.client.forward_ids
    both.client.send_data(forward_id, b"swallowed")


def test_an_error_without_an_end() -> None:
    client = PortForwardClient()
    server = Connection(Role.SERVER)
    forward_id = client.open(80)
    server.receive_data(client.data_to_send())
    for stream_id in (1, 3):
        server.send_reply(stream_id)
    server.send_data(1, b"refused\n")
    server.send_data(3, b"", fin=True)
    assert client.receive_data(server.data_to_send()) == [
        ForwardReady(forward_id),
        ForwardFailed(forward_id, "refused"),
    ]


def test_data_waits_for_the_replies() -> None:
    client = PortForwardClient()
    forward_id = client.open(80)
    with pytest.raises(LocalProtocolError):
        client.send_data(forward_id, b"x")


def test_nothing_is_sent_after_our_end() -> None:
    both = Both()
    forward_id = both.open()
    both.client.send_eof(forward_id)
    with pytest.raises(LocalProtocolError):
        both.client.send_data(forward_id, b"x")


def test_close() -> None:
    both = Both()
    both.open()
    both.client.close()
    both.client.close()
    assert both.talk()[0] == [ForwardReset(0), Disconnected("the client sent GOAWAY")]
    assert both.client.closed
    with pytest.raises(LocalProtocolError):
        both.client.open(80)
    both.client.send_ping()
    assert both.client.receive_eof() == []


def test_the_servers_end() -> None:
    both = Both()
    forward_id = both.open()
    both.server.close("the node is shutting down")
    assert both.talk()[1] == [
        ForwardFailed(forward_id, "the node is shutting down"),
        Disconnected("the server sent GOAWAY"),
    ]
    assert both.client.closed
    both = Both()
    both.open()
    assert both.client.receive_eof() == [Disconnected("the server closed the connection")]
    both.client.close()


def test_pings_are_echoed() -> None:
    both = Both()
    for _ in range(200):
        both.client.send_ping()
        both.talk()
    assert not both.client.closed


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=30), max_size=8), st.integers(0, 3))
def test_no_input_raises(pieces: list[bytes], opened: int) -> None:
    both = Both()
    for _ in range(opened):
        both.client.open(80)
    both.server.receive_data(both.client.data_to_send())
    both.client.receive_data(both.server.data_to_send()[: 20 * opened])
    for piece in pieces:
        both.client.receive_data(piece)
    both.client.receive_eof()
    assert both.client.closed
