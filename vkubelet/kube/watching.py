"""The stream of a watch: lines out of chunks, events out of lines."""

from collections.abc import AsyncIterable, AsyncIterator

import msgspec

from vkubelet.kube.statuses import build_status_error

MAX_LINE_BYTES = 16 * 1024 * 1024
"""An object is at most 1.5 MiB in etcd and some times that as JSON; a longer line is no event."""


class WatchEvent(msgspec.Struct, frozen=True):
    """An event of a watch: ADDED, MODIFIED, DELETED, BOOKMARK; ERROR is raised instead."""

    type: str
    object: msgspec.Raw


class StreamError(Exception):
    """The stream isn't that of a watch; the text says in what way."""


_decode_event = msgspec.json.Decoder(WatchEvent).decode


async def split_lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """
    Join chunks and split them into lines, without their ends.

    Raises:
        StreamError: If a line is too long or the last one isn't complete.
    """
    pending: list[bytes] = []
    size = 0
    async for chunk in chunks:
        head, *lines = chunk.split(b"\n")
        pending.append(head)
        size += len(head)
        if size > MAX_LINE_BYTES:
            raise StreamError(f"a line is longer than {MAX_LINE_BYTES} bytes")
        if not lines:
            continue
        yield b"".join(pending)
        *whole, tail = lines
        for line in whole:
            yield line
        pending, size = [tail], len(tail)
    if size:
        raise StreamError("the stream was cut inside a line")


def parse_event(line: bytes) -> WatchEvent:
    """
    Decode an event.

    Raises:
        StatusError: What an ERROR event tells of, often GoneError.
        StreamError: If it's no event.
    """
    try:
        event = _decode_event(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StreamError(f"a line is no watch event: {error}") from error
    if event.type == "ERROR":
        raise build_status_error(0, bytes(event.object))
    return event
