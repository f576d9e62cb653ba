import contextlib
import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, strategies as st

from tests.fakes.virtual_time import run_virtual
from vkubelet.kube.errors import GoneError, StatusError
from vkubelet.kube.watching import MAX_LINE_BYTES, StreamError, parse_event, split_lines


async def feed(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def split(chunks: list[bytes]) -> list[bytes]:
    return [line async for line in split_lines(feed(chunks))]


@given(st.binary(), st.lists(st.integers(min_value=0, max_value=200)))
def test_any_split_of_the_bytes_gives_the_same_lines(data: bytes, cuts: list[int]) -> None:
    data += b"\n"
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    chunks = [data[start:end] for start, end in itertools.pairwise(bounds)]
    assert run_virtual(split(chunks)) == data.split(b"\n")[:-1]


@pytest.mark.parametrize(
    ("chunks", "complaint"),
    [
        ([b"a\nb"], "cut inside a line"),
        ([b"x" * (MAX_LINE_BYTES + 1)], "longer than"),
        ([b"a\n", b"x" * MAX_LINE_BYTES, b"x\n"], "longer than"),
    ],
)
async def test_streams_that_are_broken(chunks: list[bytes], complaint: str) -> None:
    with pytest.raises(StreamError, match=complaint):
        await split(chunks)


async def test_longest_line() -> None:
    assert await split([b"x" * MAX_LINE_BYTES, b"\n"]) == [b"x" * MAX_LINE_BYTES]


def test_events() -> None:
    event = parse_event(b'{"type": "ADDED", "object": {"a": 1}, "later": true}')
    assert (event.type, bytes(event.object)) == ("ADDED", b'{"a": 1}')
    with pytest.raises(GoneError):
        parse_event(b'{"type": "ERROR", "object": {"kind": "Status", "code": 410}}')
    with pytest.raises(StatusError):
        parse_event(b'{"type": "ERROR", "object": 1}')


@given(st.binary())
def test_any_line_is_an_event_or_an_error(line: bytes) -> None:
    with contextlib.suppress(StreamError, StatusError):
        parse_event(line)
