"""Answers to pipelined requests: bytes to answers, however the bytes are cut."""

import pytest
from hypothesis import given, strategies as st

from vkubelet.kube.answers import MAX_BODY_BYTES, Answer, AnswerParser, Broken, Event
from vkubelet.kube.dialing import MAX_HEAD_BYTES


def answer(
    status: int = 200, body: bytes = b"", *, retry_after: str = "", closes: bool = False
) -> Answer:
    return Answer(status=status, body=body, retry_after=retry_after, closes=closes)


def wire(status: str, *headers: str, body: bytes = b"", version: str = "1.1") -> bytes:
    return "\r\n".join([f"HTTP/{version} {status}", *headers, "", ""]).encode() + body


SIZED = wire("200 OK", "Content-Type: application/json", "Content-Length: 2", body=b"{}")
EMPTY = wire("201 Created", "content-length:0")
NOTHING = wire("204 No Content")
THROTTLED = wire("429 Too Many Requests", "Retry-After: 7", "Content-Length: 1", body=b"x")
CHUNKED = wire(
    "200 OK",
    "Transfer-Encoding: Chunked",
    body=b"3\r\nabc\r\n0a;name=value\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
)
INTERIM = wire("103 Early Hints", "Link: </x>") + wire("100 Continue")
CLOSING = wire("500 Oh no", "Connection: keep-alive, Close", "Content-Length: 1", body=b"!")
OLD = wire("200 OK", "Content-Length: 1", body=b"o", version="1.0")
OLD_KEPT = wire("200 OK", "Connection: Keep-Alive", "Content-Length: 1", body=b"o", version="1.0")
ENDLESS = wire("502 Bad Gateway", body=b"<html>")


def parse(*pieces: bytes) -> list[Event]:
    parser = AnswerParser()
    return [event for piece in pieces for event in parser.receive_data(piece)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (SIZED, answer(body=b"{}")),
        (EMPTY, answer(201)),
        (NOTHING, answer(204)),
        (THROTTLED, answer(429, b"x", retry_after="7")),
        (CHUNKED, answer(body=b"abc0123456789")),
        (INTERIM + SIZED, answer(body=b"{}")),
        (CLOSING, answer(500, b"!", closes=True)),
        (OLD, answer(body=b"o", closes=True)),
        (OLD_KEPT, answer(body=b"o")),
    ],
)
def test_one_answer(data: bytes, expected: Answer) -> None:
    assert parse(data) == [expected]
    assert parse(data[:-1]) == []
    assert parse(data[:-1], data[-1:]) == [expected]


def test_answers_come_in_order() -> None:
    assert parse(SIZED + THROTTLED + CHUNKED + NOTHING + INTERIM + EMPTY) == [
        answer(body=b"{}"),
        answer(429, b"x", retry_after="7"),
        answer(body=b"abc0123456789"),
        answer(204),
        answer(201),
    ]


def test_nothing_comes_after_an_answer_that_closes() -> None:
    parser = AnswerParser()
    assert len(parser.receive_data(SIZED + CLOSING + SIZED)) == 2
    assert parser.receive_data(SIZED) == []
    assert parser.receive_eof() == []


def test_body_that_lasts_to_the_end() -> None:
    parser = AnswerParser()
    assert parser.receive_data(ENDLESS) == []
    assert parser.receive_data(b"</html>") == []
    assert parser.receive_eof() == [answer(502, b"<html></html>", closes=True)]
    assert parser.receive_eof() == []


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 2", SIZED[:-1], CHUNKED[:-4], SIZED])
def test_end_before_an_answer(data: bytes) -> None:
    parser = AnswerParser()
    parser.receive_data(data)
    [end] = parser.receive_eof()
    assert end == Broken(reason="the connection was closed before the answer")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "isn't HTTP/1.1"),
        (wire("200 OK", version="2"), "isn't HTTP/1.1"),
        (b"\r\n\r\n", "isn't HTTP/1.1"),
        (wire("2x0 OK"), "isn't HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (MAX_HEAD_BYTES // 6), "head is too long"),
        (wire("101 Switching Protocols"), "switches protocols"),
        (wire("200 OK", "Content-Length: -1"), "Content-Length is -1"),
        (wire("200 OK", "Content-Length: 1, 1"), "Content-Length is 1, 1"),
        (wire("200 OK", "Content-Length: ²"), "Content-Length is "),
        (wire("200 OK", f"Content-Length: {MAX_BODY_BYTES + 1}"), "Content-Length is 10"),
        (wire("200 OK", "Transfer-Encoding: gzip, chunked"), "can't be told from the next"),
        (
            wire("200 OK", "Transfer-Encoding: chunked", "Content-Length: 1"),
            "can't be told from the next",
        ),
        (wire("200 OK", "Transfer-Encoding: chunked", body=b"\r\n"), "malformed"),
        (wire("200 OK", "Transfer-Encoding: chunked", body=b"0x1\r\na"), "malformed"),
        (wire("200 OK", "Transfer-Encoding: chunked", body=b"1\r\nabc"), "malformed"),
        (wire("200 OK", "Transfer-Encoding: chunked", body=b"1" * 5000), "malformed"),
        (wire("200 OK", "Transfer-Encoding: chunked", body=b"0\r\n" + b"a" * 5000), "malformed"),
        (wire("200 OK", "Transfer-Encoding: chunked", body=b"7fffffff\r\n"), "too large"),
        (wire("200 OK", body=b"x" * (MAX_BODY_BYTES + 1)), "too large"),
    ],
)
def test_broken(data: bytes, reason: str) -> None:
    parser = AnswerParser()
    first, last = parser.receive_data(SIZED + data)
    assert first == answer(body=b"{}")
    assert isinstance(last, Broken)
    assert reason in last.reason
    assert parser.receive_data(SIZED) == []
    assert parser.receive_eof() == []


def test_chunks_that_add_up_to_too_much() -> None:
    parser = AnswerParser()
    parser.receive_data(wire("200 OK", "Transfer-Encoding: chunked"))
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    events = [event for _ in range(17) for event in parser.receive_data(chunk)]
    assert events == [Broken(reason="the answer is too large")]


def test_another_limit() -> None:
    body = b"x" * (MAX_BODY_BYTES + 1)
    sized = wire("200 OK", f"Content-Length: {len(body)}", body=body)
    assert AnswerParser(len(body)).receive_data(sized) == [answer(body=body)]
    [broken] = AnswerParser(len(body) - 1).receive_data(sized)
    assert isinstance(broken, Broken)


WIRES = st.sampled_from([SIZED, EMPTY, NOTHING, THROTTLED, CHUNKED, INTERIM, OLD_KEPT])


@given(st.lists(WIRES, max_size=5), st.lists(st.integers(1, 60), max_size=40))
def test_any_split_gives_the_same_answers(wires: list[bytes], sizes: list[int]) -> None:
    data = b"".join(wires)
    pieces = []
    rest = data
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert parse(*pieces, rest) == parse(data)


@given(st.binary(max_size=200), st.integers(0, 200), WIRES)
def test_no_input_makes_it_raise(noise: bytes, position: int, data: bytes) -> None:
    parser = AnswerParser()
    events = parser.receive_data(data[:position] + noise + data[position:])
    events += parser.receive_eof()
    assert sum(isinstance(event, Broken) for event in events) <= 1
    assert parser.receive_data(data) == []
