import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import aiohttp
import pytest

from tests.vkubelet.server.harness import Harness, serve
from vkubelet.errors import RequestError, RetryError
from vkubelet.interface import LogOptions, LogStream, PodRef
from vkubelet.server.container_logs import parse_log_options

pytestmark = pytest.mark.virtual_time

PATH = "/containerLogs/ns/pod/c"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Harness, None]:
    async with serve(tmp_path) as harness:
        yield harness


def lines(*chunks: bytes) -> "LogRun":
    return LogRun(list(chunks))


class LogRun:
    """A log that yields chunks, then fails, stays silent, or ends."""

    def __init__(
        self, chunks: list[bytes], *, error: Exception | None = None, silent: bool = False
    ) -> None:
        self.chunks = chunks
        self.error = error
        self.silent = silent
        self.closed = asyncio.Event()

    async def __call__(
        self, _ref: PodRef, _container: str, _options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        try:
            for chunk in self.chunks:
                yield chunk
            if self.error is not None:
                raise self.error
            if self.silent:
                await asyncio.Event().wait()
        finally:
            self.closed.set()


async def test_log_is_streamed(node: Harness) -> None:
    node.provider.run_logs = lines(b"one\n", b"", b"\xff\x00two\n")
    async with node.http() as http, http.get(f"{PATH}?tailLines=5&timestamps=true") as response:
        assert response.status == 200
        assert response.content_type == "text/plain"
        assert response.headers["Transfer-Encoding"] == "chunked"
        assert await response.read() == b"one\n\xff\x00two\n"
    assert node.provider.log_requests == [
        (PodRef("ns", "pod", "uid-1"), "c", LogOptions(tail_lines=5, timestamps=True))
    ]


async def test_empty_log(node: Harness) -> None:
    node.provider.run_logs = lines()
    async with node.http() as http, http.get(PATH) as response:
        assert (response.status, await response.read()) == (200, b"")


async def test_connection_is_kept_for_the_next_log(node: Harness) -> None:
    node.provider.run_logs = lines(b"x")
    async with node.http() as http:
        for _ in range(3):
            async with http.get(PATH) as response:
                assert await response.read() == b"x"
        assert http.connector is not None
        assert len(http.connector._conns) == 1  # one connection


async def test_follow_of_a_silent_container_gets_its_headers_at_once(node: Harness) -> None:
    run = LogRun([b""], silent=True)
    node.provider.run_logs = run
    async with (
        node.http() as http,
        asyncio.timeout(5),
        http.get(f"{PATH}?follow=true") as response,
    ):
        assert response.status == 200
        await asyncio.sleep(1)
        assert len(node.server.streams) == 1
        assert not run.closed.is_set()
        response.close()
        await run.closed.wait()  # a client that leaves ends the far side, also while idle


@pytest.mark.parametrize("error", [RetryError("remote is gone"), ValueError("bug")])
async def test_failure_amid_the_log_cuts_the_body(node: Harness, error: Exception) -> None:
    node.provider.run_logs = LogRun([b"part\n"], error=error)
    async with node.http() as http, http.get(PATH) as response:
        assert response.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            RequestError(400, 'container "c" in pod "pod" is waiting to start: ContainerCreating'),
            400,
            'container "c" in pod "pod" is waiting to start: ContainerCreating',
        ),
        (RetryError("remote is away"), 500, "remote is away"),
    ],
)
async def test_failure_before_the_log_is_plain_text(
    node: Harness, error: Exception, code: int, text: str
) -> None:
    node.provider.run_logs = LogRun([], error=error)
    async with node.http() as http, http.get(f"{PATH}?follow=true") as response:
        assert (response.status, await response.text()) == (code, text)
        assert response.content_type == "text/plain"


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        ("/containerLogs/ns/other/c", 404, 'pod "other" does not exist\n'),
        ("/containerLogs/else/pod/c", 404, 'pod "pod" does not exist\n'),
        ("/containerLogs/ns/pod/x", 404, 'container "x" not found in pod "pod"\n'),
        (f"{PATH}?tailLines=x", 400, '{"message": "Unable to decode query."}'),
        (f"{PATH}?limitBytes=0", 422, '{"message": "Invalid request."}'),
    ],
)
async def test_refusals(node: Harness, path: str, code: int, text: str) -> None:
    async with node.http() as http, http.get(path) as response:
        assert (response.status, await response.text()) == (code, text)
    assert not node.provider.log_requests


async def test_slow_reader_holds_up_the_provider(node: Harness) -> None:
    sent = 0

    async def run(
        _ref: PodRef, _container: str, _options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        nonlocal sent
        for _ in range(512):
            sent += 65536
            yield bytes(65536)

    node.provider.run_logs = run
    async with node.http() as http, http.get(PATH) as response:
        await asyncio.sleep(5)
        assert sent < 32 << 20
        assert len(await response.read()) == 32 << 20


async def test_stopping_server_ends_follows(node: Harness) -> None:
    run = LogRun([b"x"], silent=True)
    node.provider.run_logs = run
    async with node.http() as http, http.get(f"{PATH}?follow=true") as response:
        assert await response.content.readexactly(1) == b"x"
        node.server.streams.interrupt_all("the node is shutting down")
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    assert run.closed.is_set()


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ({}, LogOptions()),
        ({"follow": "true", "previous": "1"}, LogOptions(follow=True, previous=True)),
        ({"follow": "", "timestamps": "yes"}, LogOptions(follow=True, timestamps=True)),
        ({"follow": "False", "previous": "0"}, LogOptions()),
        ({"tailLines": "0"}, LogOptions(tail_lines=0)),
        ({"tail": "7", "tailLines": "x"}, LogOptions(tail_lines=7)),
        ({"tail": "all", "tailLines": "3"}, LogOptions()),
        ({"sinceSeconds": "1"}, LogOptions(since_seconds=1)),
        ({"limitBytes": "1"}, LogOptions(limit_bytes=1)),
        ({"stream": "All", "tailLines": "2"}, LogOptions(tail_lines=2)),
        ({"stream": "Stderr"}, LogOptions(stream=LogStream.STDERR)),
        ({"sinceTime": ""}, LogOptions()),
        (
            {"sinceTime": "2026-11-30T12:00:00Z"},
            LogOptions(since_time=datetime(2026, 11, 30, 12, tzinfo=UTC)),
        ),
        (
            {"sinceTime": "2026-11-30T12:00:00.123456789+01:00"},
            LogOptions(
                since_time=datetime(
                    2026, 11, 30, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=1))
                )
            ),
        ),
    ],
)
async def test_options(query: dict[str, str], options: LogOptions) -> None:
    assert parse_log_options({name: [value] for name, value in query.items()}) == options


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"tailLines": ""}, 400),
        ({"tailLines": "1.5"}, 400),
        ({"tailLines": "٣"}, 400),
        ({"tailLines": "9" * 30}, 400),
        ({"limitBytes": "1k"}, 400),
        ({"sinceTime": "yesterday"}, 400),
        ({"sinceTime": "2026-11-30T12:00:00"}, 400),
        ({"sinceTime": "2026-13-30T12:00:00Z"}, 400),
        ({"tailLines": "-1"}, 422),
        ({"sinceSeconds": "0"}, 422),
        ({"limitBytes": "0"}, 422),
        ({"sinceSeconds": "1", "sinceTime": "2026-11-30T12:00:00Z"}, 422),
        ({"stream": "stdout"}, 422),
        ({"stream": "Stdout", "tailLines": "1"}, 422),
    ],
)
async def test_bad_options(query: dict[str, str], code: int) -> None:
    with pytest.raises(RequestError) as caught:
        parse_log_options({name: [value] for name, value in query.items()})
    assert caught.value.code == code
