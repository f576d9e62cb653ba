"""Logs through a fake remote API server: options, chunks, refusals, cuts."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta, timezone

import pytest
from aiohttp import web

from provider.streams.logs import build_log_query
from provider.streams.relay import RemoteStreams
from tests.fakes.api_server import ApiCall, FakeApiServer, Hook
from vkubelet.errors import RequestError
from vkubelet.interface import LogOptions, LogStream
from vkubelet.kube.objects import NamespacedName

KEY = NamespacedName("shop-home", "web")


def logs(remote: RemoteStreams, options: LogOptions | None = None) -> AsyncIterator[bytes]:
    return remote.logs(KEY, "main", options or LogOptions(), home_namespace="shop")


def body_of(*chunks: bytes, cut: bool = False, hang: asyncio.Event | None = None) -> Hook:
    async def answer(call: ApiCall) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(call.request)
        for chunk in chunks:
            await response.write(chunk)
        if hang is not None:
            try:
                await asyncio.Event().wait()
            finally:
                hang.set()
        if cut and call.request.transport is not None:
            call.request.transport.abort()
        return response

    return answer


@pytest.mark.parametrize(
    ("options", "query"),
    [
        (LogOptions(), {}),
        (
            LogOptions(follow=True, previous=True, timestamps=True),
            {"follow": "true", "previous": "true", "timestamps": "true"},
        ),
        (
            LogOptions(tail_lines=0, since_seconds=5, limit_bytes=9),
            {"tailLines": "0", "sinceSeconds": "5", "limitBytes": "9"},
        ),
        (
            LogOptions(
                since_time=datetime(2026, 5, 1, 14, 0, 3, 999, tzinfo=timezone(timedelta(hours=2)))
            ),
            {"sinceTime": "2026-05-01T12:00:03Z"},
        ),
        (
            LogOptions(since_time=datetime(2026, 5, 1, tzinfo=UTC), stream=LogStream.STDERR),
            {"sinceTime": "2026-05-01T00:00:00Z", "stream": "Stderr"},
        ),
    ],
)
def test_query(options: LogOptions, query: dict[str, str]) -> None:
    assert dict(build_log_query("c", options)) == {"container": "c", **query}


async def test_whole_log(server: FakeApiServer, remote: RemoteStreams) -> None:
    server.handle("get pods/log", body_of(b"one\ntw", b"o\xff\n"))
    assert b"".join([chunk async for chunk in logs(remote)]) == b"one\ntwo\xff\n"
    (call,) = server.calls("get pods/log")
    assert call.path == "/api/v1/namespaces/shop-home/pods/web/log"
    assert call.query == {"container": "main"}


async def test_empty_log(server: FakeApiServer, remote: RemoteStreams) -> None:
    server.handle("get pods/log", body_of())
    assert [chunk async for chunk in logs(remote)] == []


async def test_followed_chunks_come_at_once(server: FakeApiServer, remote: RemoteStreams) -> None:
    ended = asyncio.Event()
    server.handle("get pods/log", body_of(b"half a li", hang=ended))
    follow = logs(remote, LogOptions(follow=True))
    assert isinstance(follow, AsyncGenerator)
    async with aclosing(follow):
        assert await anext(follow) == b""
        assert await anext(follow) == b"half a li"
    await ended.wait()


@pytest.mark.virtual_time
async def test_silent_follow_goes_on(server: FakeApiServer, remote: RemoteStreams) -> None:
    server.handle("get pods/log", body_of(hang=asyncio.Event()))
    chunks: list[bytes] = []

    async def read() -> None:
        chunks.extend([chunk async for chunk in logs(remote, LogOptions(follow=True))])

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read())
        await asyncio.sleep(24 * 3600)
        assert not reading.done()
        reading.cancel()


async def test_follow_ends_when_the_remote_cluster_goes(
    server: FakeApiServer, remote: RemoteStreams, caplog: pytest.LogCaptureFixture
) -> None:
    server.handle("get pods/log", body_of(b"one\n", cut=True))
    chunks = [chunk async for chunk in logs(remote, LogOptions(follow=True))]
    assert chunks == [b"", b"one\n"]
    assert "shop-home/web: log of main was cut off" in caplog.text


async def test_cut_log_fails(server: FakeApiServer, remote: RemoteStreams) -> None:
    server.handle("get pods/log", body_of(b"one\n", cut=True))
    chunks = logs(remote)
    assert await anext(chunks) == b"one\n"
    with pytest.raises(RequestError, match="cut the log off") as caught:
        await anext(chunks)
    assert caught.value.code == 500


@pytest.mark.parametrize(
    ("status", "text", "answer"),
    [
        (
            400,
            'container "main" in pod "web" is waiting to start: ContainerCreating',
            (400, 'container "main" in pod "web" is waiting to start: ContainerCreating'),
        ),
        (
            400,
            'previous terminated container "main" in pod "web_shop-home(1)" not found',
            (400, 'previous terminated container "main" in pod "web_shop(1)" not found'),
        ),
        (404, 'pods "web" not found', (404, 'pods "web" not found')),
        (422, "sinceSeconds: Invalid value: -1", (400, "sinceSeconds: Invalid value: -1")),
        (
            403,
            'cannot get "pods/log" in the namespace "shop-home"',
            (403, 'the remote cluster refuses: cannot get "pods/log" in the namespace "shop"'),
        ),
        (
            401,
            "Unauthorized",
            (500, "the remote cluster doesn't accept the credentials of vkubelet"),
        ),
        (
            500,
            "Internal error occurred: dial /containerLogs/shop-home/web/main refused",
            (500, "the remote cluster fails: dial /containerLogs/shop/web/main refused"),
        ),
        (
            503,
            "not-shop-home, shop-homely",
            (500, "the remote cluster fails: not-shop-home, shop-homely"),
        ),
    ],
)
async def test_refusals(
    server: FakeApiServer, remote: RemoteStreams, status: int, text: str, answer: tuple[int, str]
) -> None:
    server.fail_next("get pods/log", status, message=text)
    with pytest.raises(RequestError) as caught:
        await anext(logs(remote, LogOptions(follow=True)))
    assert (caught.value.code, caught.value.message) == answer


async def test_unreachable(server: FakeApiServer, remote: RemoteStreams) -> None:
    await server.stop()
    with pytest.raises(RequestError, match="the remote cluster can't be reached") as caught:
        await anext(logs(remote))
    assert caught.value.code == 500
    assert "127.0.0.1" not in caught.value.message
