import json

import pytest
from hypothesis import given, strategies as st

from tests.vectors import load_vector
from vkubelet.streaming.channels import (
    MAX_RESIZE_BUFFER_BYTES,
    Channel,
    CommandStatus,
    ResizeParser,
    build_failure,
    decode_message,
    encode_close,
    encode_message,
    negotiate_protocol,
    parse_status,
    serialize_resize,
    serialize_status,
)


def test_messages() -> None:
    assert encode_message(Channel.STDOUT, b"out\n") == b"\x01out\n"
    assert decode_message(b"\x01out\n") == (Channel.STDOUT, b"out\n")
    assert decode_message(b"\x03") == (Channel.ERROR, b"")
    assert encode_close(Channel.STDIN) == b"\xff\x00"
    assert decode_message(b"\xff\x00") == (Channel.CLOSE, b"\x00")


@pytest.mark.parametrize("message", [b"", b"\x05x", b"\x80", b"0x"])
def test_unknown_messages(message: bytes) -> None:
    assert decode_message(message) is None


@pytest.mark.parametrize("code", [0, 1, 7, 126, 127, 137, 255])
def test_exit_codes_come_back(code: int) -> None:
    assert parse_status(serialize_status(CommandStatus(code))) == CommandStatus(code)


@pytest.mark.parametrize("code", [256, -1, 1000])
def test_codes_that_no_client_can_read_are_failures(code: int) -> None:
    status = parse_status(serialize_status(CommandStatus(code)))
    assert status.code is None
    assert str(code) in status.message


def test_failure_comes_back() -> None:
    failure = CommandStatus(None, 'container not found ("x")', 404)
    assert parse_status(serialize_status(failure)) == failure
    assert json.loads(serialize_status(failure))["reason"] == "NotFound"


def test_status_is_what_a_kubelet_writes() -> None:
    assert serialize_status(CommandStatus(0)) == b'{"metadata":{},"status":"Success"}'
    assert serialize_status(CommandStatus(3)) in load_vector("exec-short-ws-v5").server_bytes


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", CommandStatus(None, "the stream ended without an exit status")),
        (b"plain words\n", CommandStatus(None, "plain words")),
        (b"\xff", CommandStatus(None, "\ufffd")),
        (b"[]", CommandStatus(None, "unreadable exit status: []")),
        (b"{}", CommandStatus(None, "unreadable exit status: {}")),
        (b'{"status":"Failure"}', CommandStatus(None, "unknown error")),
        (b'{"status":"Failure","message":"m","code":1}', CommandStatus(None, "m")),
        (
            b'{"status":"Failure","reason":"NonZeroExitCode"}',
            CommandStatus(None, "exit status without an exit code"),
        ),
        (
            (
                b'{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":'
                b'"ExitCode","message":"256"}]}}'
            ),
            CommandStatus(None, "invalid exit code value '256'"),
        ),
    ],
)
def test_odd_statuses(data: bytes, status: CommandStatus) -> None:
    assert parse_status(data) == status


@given(st.binary())
def test_any_status_is_parsed(data: bytes) -> None:
    assert isinstance(parse_status(data), CommandStatus)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["status", "reason", "details", "causes", "message", "code"]), inner
        )
    ),
)


@given(json_values, st.sampled_from(["NonZeroExitCode", "x"]))
def test_any_failure_is_parsed(details: object, reason: str) -> None:
    status = {"status": "Failure", "reason": reason, "details": details, "code": details}
    assert parse_status(json.dumps(status).encode()).code is None or reason == "NonZeroExitCode"


def test_failed_request_is_a_status() -> None:
    status = build_failure(403, "no")
    assert (status["kind"], status["apiVersion"]) == ("Status", "v1")
    assert (status["code"], status["reason"], status["message"]) == (403, "Forbidden", "no")


SIZES = [(100, 30), (120, 40), (65535, 1)]


@given(st.data())
def test_sizes_in_any_split(data: st.DataObject) -> None:
    wire = b"".join(serialize_resize(*size) for size in SIZES)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=10)))
    parser = ResizeParser()
    got = []
    for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        got += parser.receive_data(wire[start:end])
    assert got == SIZES


def test_useless_sizes_are_ignored() -> None:
    parser = ResizeParser()
    wire = b'{"Width":0,"Height":0}{"Width":70000,"Height":1}{"Width":-1,"Height":1}[]{"a":1}'
    assert parser.receive_data(wire + b' {"Width":1,"Height":2}') == [(1, 2)]


@given(st.lists(st.binary(max_size=2048), max_size=8))
def test_size_rubbish_is_bounded(pieces: list[bytes]) -> None:
    parser = ResizeParser()
    for piece in pieces:
        parser.receive_data(piece)
        assert len(parser._buffer) <= MAX_RESIZE_BUFFER_BYTES


def test_nothing_follows_rubbish() -> None:
    parser = ResizeParser()
    assert parser.receive_data(b"x" * (MAX_RESIZE_BUFFER_BYTES + 1)) == []
    assert parser.receive_data(serialize_resize(1, 2)) == []


def test_the_clients_preference_wins() -> None:
    served = ("v4", "v3")
    assert negotiate_protocol(["v5", "v3", "v4"], served) == "v3"
    assert negotiate_protocol(["v5"], served) is None
