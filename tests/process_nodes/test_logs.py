import asyncio
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cluster.process_nodes.logs import ContainerLog
from vkubelet.interface import LogOptions, LogStream

TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ")


def read(log: ContainerLog, **options: Any) -> AsyncGenerator[bytes, None]:
    return log.read(LogOptions(**options))


async def read_all(log: ContainerLog, **options: Any) -> bytes:
    return b"".join([chunk async for chunk in read(log, **options)])


@pytest.fixture
def log() -> ContainerLog:
    log = ContainerLog()
    log.write(LogStream.STDOUT, b"one\ntw")
    log.write(LogStream.STDERR, b"error\n")
    log.write(LogStream.STDOUT, b"o\nthree")
    return log


async def test_lines_count_when_they_are_complete(log: ContainerLog) -> None:
    assert await read_all(log) == b"one\nerror\ntwo\n"
    log.end()
    assert await read_all(log) == b"one\nerror\ntwo\nthree"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"stream": LogStream.STDERR}, b"error\n"),
        ({"stream": LogStream.STDOUT}, b"one\ntwo\nthree"),
        ({"tail_lines": 2}, b"two\nthree"),
        ({"tail_lines": 0}, b""),
        ({"tail_lines": 9}, b"one\nerror\ntwo\nthree"),
        ({"limit_bytes": 6}, b"one\ner"),
        ({"limit_bytes": 2, "stream": LogStream.STDERR}, b"er"),
        ({"since_seconds": 60}, b"one\nerror\ntwo\nthree"),
        ({"since_time": datetime.now(UTC) + timedelta(hours=1)}, b""),
        ({"since_time": datetime.now(UTC) - timedelta(hours=1)}, b"one\nerror\ntwo\nthree"),
        ({"follow": True, "tail_lines": 1}, b"three"),
    ],
)
async def test_options(log: ContainerLog, options: dict[str, Any], expected: bytes) -> None:
    log.end()
    assert await read_all(log, **options) == expected


async def test_since_is_inclusive() -> None:
    log = ContainerLog()
    log.write(LogStream.STDOUT, b"line\n")
    text = await read_all(log, timestamps=True)
    since = datetime.fromisoformat(text[:26].decode() + "+00:00")
    assert await read_all(log, since_time=since) == b"line\n"
    assert await read_all(log, since_time=since + timedelta(microseconds=1)) == b""


async def test_timestamps_begin_each_line(log: ContainerLog) -> None:
    log.write(LogStream.STDOUT, b"\n" + b"x" * 40_000 + b"\n")
    text = await read_all(log, timestamps=True)
    assert len(TIME.findall(text)) == 5
    assert TIME.sub(b"", text) == b"one\nerror\ntwo\nthree\n" + b"x" * 40_000 + b"\n"
    assert text.endswith(b"\n")
    assert abs(time.time() - datetime.fromisoformat(text[:19].decode() + "Z").timestamp()) < 60


async def test_timestamps_count_for_the_limit(log: ContainerLog) -> None:
    assert len(await read_all(log, timestamps=True, limit_bytes=40)) == 40


async def test_long_text_without_newline_is_kept_in_parts() -> None:
    log = ContainerLog()
    log.write(LogStream.STDOUT, b"y" * 40_000)
    assert await read_all(log) == b"y" * 32_768
    log.end()
    assert await read_all(log) == b"y" * 40_000


async def test_follow_sends_an_empty_chunk_then_what_comes() -> None:
    log = ContainerLog()
    async with aclosing(read(log, follow=True)) as chunks, asyncio.timeout(5):
        assert await anext(chunks) == b""
        log.write(LogStream.STDOUT, b"first\n")
        assert await anext(chunks) == b"first\n"
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(anext(chunks))
            await asyncio.sleep(0)
            assert not waiting.done()
            log.write(LogStream.STDERR, b"second\nrest")
        assert waiting.result() == b"second\n"
        log.end()
        assert [chunk async for chunk in chunks] == [b"rest"]


async def test_the_oldest_lines_go_when_the_log_is_full() -> None:
    log = ContainerLog(limit_bytes=1_100)
    async with aclosing(read(log, follow=True)) as chunks:
        await anext(chunks)
        for number in range(100):
            log.write(LogStream.STDOUT, b"%09d\n" % number)
        assert await anext(chunks) == b"".join(b"%09d\n" % number for number in range(90, 100))
