import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from aiohttp import web

from tests.vkubelet.kube.serving import connect, refuse, serve, serve_bytes, status
from vkubelet.kube.client import KubeClient, PatchType, WatchEvent
from vkubelet.kube.errors import (
    ForbiddenError,
    GoneError,
    NotFoundError,
    StatusError,
    TooManyRequestsError,
    UnreachableError,
)
from vkubelet.kube.objects import CONFIG_MAPS, LEASES, NODES, PODS, NamespacedName, decode_object

KEY = NamespacedName("ns", "p")
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "p"}}
MERGE = "application/merge-patch+json"


async def collect(client: KubeClient, **options: Any) -> list[WatchEvent]:
    async with aclosing(client.watch(PODS, **options)) as events:
        return [event async for event in events]


Call = Callable[[KubeClient], Awaitable[object]]


class Expected(NamedTuple):
    method: str
    path: str
    content_type: str
    body: object


CALLS: list[tuple[Call, Expected]] = [
    (lambda c: c.get(PODS, KEY), Expected("GET", "/api/v1/namespaces/ns/pods/p", "", None)),
    (
        lambda c: c.get(PODS, KEY, subresource="status"),
        Expected(
            "GET",
            "/api/v1/namespaces/ns/pods/p/status",
            "",
            None,
        ),
    ),
    (lambda c: c.get(NODES, NamespacedName("", "n")), Expected("GET", "/api/v1/nodes/n", "", None)),
    (
        lambda c: c.get(LEASES, KEY),
        Expected(
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/ns/leases/p",
            "",
            None,
        ),
    ),
    (
        lambda c: c.get(NODES, NamespacedName("", "a b?c#d%e")),
        Expected(
            "GET",
            "/api/v1/nodes/a%20b%3Fc%23d%25e",
            "",
            None,
        ),
    ),
    (
        lambda c: c.create(PODS, POD),
        Expected(
            "POST",
            "/api/v1/namespaces/ns/pods",
            "application/json",
            POD,
        ),
    ),
    (
        lambda c: c.create(
            PODS, {"kind": "Eviction"}, namespace="x", name="p", subresource="eviction"
        ),
        Expected(
            "POST",
            "/api/v1/namespaces/x/pods/p/eviction",
            "application/json",
            {"kind": "Eviction"},
        ),
    ),
    (
        lambda c: c.replace(PODS, POD, subresource="status"),
        Expected(
            "PUT",
            "/api/v1/namespaces/ns/pods/p/status",
            "application/json",
            POD,
        ),
    ),
    (
        lambda c: c.apply(PODS, POD, field_manager="vkubelet"),
        Expected(
            "PATCH",
            "/api/v1/namespaces/ns/pods/p?fieldManager=vkubelet",
            "application/apply-patch+yaml",
            POD,
        ),
    ),
    (
        lambda c: c.apply(PODS, POD, field_manager="vkubelet", force=True),
        Expected(
            "PATCH",
            "/api/v1/namespaces/ns/pods/p?fieldManager=vkubelet&force=true",
            "application/apply-patch+yaml",
            POD,
        ),
    ),
    (
        lambda c: c.patch(PODS, KEY, {"metadata": {}}, PatchType.MERGE, subresource="status"),
        Expected(
            "PATCH",
            "/api/v1/namespaces/ns/pods/p/status",
            MERGE,
            {"metadata": {}},
        ),
    ),
    (
        lambda c: c.patch(PODS, KEY, [{"op": "test"}], PatchType.JSON),
        Expected(
            "PATCH",
            "/api/v1/namespaces/ns/pods/p",
            "application/json-patch+json",
            [{"op": "test"}],
        ),
    ),
    (
        lambda c: c.patch(PODS, KEY, {}, PatchType.STRATEGIC),
        Expected(
            "PATCH",
            "/api/v1/namespaces/ns/pods/p",
            "application/strategic-merge-patch+json",
            {},
        ),
    ),
    (
        lambda c: c.delete(PODS, KEY),
        Expected(
            "DELETE",
            "/api/v1/namespaces/ns/pods/p",
            "application/json",
            {"apiVersion": "v1", "kind": "DeleteOptions"},
        ),
    ),
    (
        lambda c: c.delete(
            PODS,
            KEY,
            uid="u",
            resource_version="7",
            grace_period_seconds=0,
            propagation_policy="Background",
        ),
        Expected(
            "DELETE",
            "/api/v1/namespaces/ns/pods/p",
            "application/json",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "u", "resourceVersion": "7"},
                "gracePeriodSeconds": 0,
                "propagationPolicy": "Background",
            },
        ),
    ),
]


@pytest.mark.parametrize(("call", "expected"), CALLS)
async def test_requests(tmp_path: Path, call: Call, expected: Expected) -> None:
    seen: list[web.Request] = []
    bodies: list[bytes] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request)
        bodies.append(await request.read())
        return web.json_response({"kind": "Pod", "answer": True})

    async with serve(answer) as url, connect(tmp_path, url) as client:
        result = await call(client)
    [request] = seen
    assert (request.method, request.raw_path) == (expected.method, expected.path)
    assert request.headers["Authorization"] == "Bearer secret"
    assert request.headers["Accept"].startswith("application/json")
    assert request.headers["User-Agent"].startswith("vkubelet/")
    if expected.body is None:
        assert bodies == [b""]
    else:
        assert request.headers["Content-Type"] == expected.content_type
        assert json.loads(bodies[0]) == expected.body
    answered = {"kind": "Pod", "answer": True}
    assert result == (None if expected.method == "DELETE" else answered)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.get(PODS, NamespacedName("ns", "")),
        lambda c: c.delete(PODS, NamespacedName("ns", "")),
        lambda c: c.delete(PODS, NamespacedName("", "p")),
        lambda c: c.delete(NODES, NamespacedName("", "")),
        lambda c: c.replace(PODS, {}),
        lambda c: c.create(PODS, {"metadata": {"name": "p"}}),
        lambda c: c.create(PODS, POD, name="p"),
    ],
)
async def test_keys_that_would_mean_something_else(tmp_path: Path, call: Call) -> None:
    async with connect(tmp_path, "http://127.0.0.1:1") as client:
        with pytest.raises(ValueError, match=r"key|needs|together"):
            await call(client)


def page(names: list[str], more: str = "", **metadata: str) -> web.Response:
    return web.json_response(
        {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "42", "continue": more, **metadata},
            "items": [{"metadata": {"name": name}} for name in names],
        }
    )


async def test_list_reads_all_pages_and_completes_the_items(tmp_path: Path) -> None:
    queries = []

    async def answer(request: web.Request) -> web.Response:
        queries.append(dict(request.query))
        return page(["c"]) if "continue" in request.query else page(["a", "b"], "next+page/=")

    async with serve(answer) as url, connect(tmp_path, url) as client:
        items = await client.list(
            PODS, namespace="ns", label_selector="a in (b,c)", field_selector="spec.nodeName!="
        )
    assert [item["metadata"]["name"] for item in items] == ["a", "b", "c"]
    assert {(item["apiVersion"], item["kind"]) for item in items} == {("v1", "Pod")}
    common = {"labelSelector": "a in (b,c)", "fieldSelector": "spec.nodeName!=", "limit": "500"}
    assert queries == [common, {**common, "continue": "next+page/="}]


async def test_page_keeps_what_an_item_says_of_itself(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(
            {"metadata": {"resourceVersion": "1"}, "items": [{"kind": "Pod", "x": 1}, {"y": 2}]}
        )

    async with serve(answer) as url, connect(tmp_path, url) as client:
        result = await client.list_page(PODS, resource_version="0", limit=7)
    assert (result.resource_version, result.continue_token) == ("1", "")
    assert [bytes(item) for item in result.items] == [
        b'{"kind": "Pod", "x": 1}',
        b'{"apiVersion":"v1","kind":"Pod","y": 2}',
    ]


async def test_list_without_items(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": None})

    async with serve(answer) as url, connect(tmp_path, url) as client:
        assert await client.list(PODS) == []


async def test_expired_continue_token_restarts_the_list_once(tmp_path: Path) -> None:
    answers = iter([page(["old"], "t1"), refuse(410, "Expired"), page(["a"], "t2"), page(["b"])])

    async def answer(_: web.Request) -> web.Response:
        return next(answers)

    async with serve(answer) as url, connect(tmp_path, url) as client:
        items = await client.list(PODS)
    assert [item["metadata"]["name"] for item in items] == ["a", "b"]


async def test_continue_token_that_keeps_expiring(tmp_path: Path) -> None:
    count = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal count
        count += 1
        return refuse(410, "Expired") if "continue" in request.query else page(["a"], "t")

    async with serve(answer) as url, connect(tmp_path, url) as client:
        with pytest.raises(GoneError):
            await client.list(PODS)
    assert count == 4


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"<html>login</html>",
        b'{"items": []}',
        b'{"metadata": {}, "items": {}}',
        b'{"metadata": {}, "items": [1]}',
        b'{"metadata": {"resourceVersion": "1"}, "items": [',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
async def test_answers_that_are_no_list(tmp_path: Path, body: bytes) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body)

    async with serve(answer) as url, connect(tmp_path, url) as client:
        with pytest.raises(UnreachableError, match=r"home API server .*isn't what"):
            await client.list(PODS)
        if body != b'{"items": []}' and not body.startswith(b"{"):
            with pytest.raises(UnreachableError, match=r"home API server .*isn't what"):
                await client.get(PODS, KEY)


async def stream(request: web.Request, *chunks: bytes) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for chunk in chunks:
        await response.write(chunk)
        # Lets the client see this chunk by itself.
        await asyncio.sleep(0)
    await response.write_eof()
    return response


async def test_watch(tmp_path: Path) -> None:
    queries = []
    lines = (
        b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n'
        b'{"type":"MODIFIED","object":{"metadata":{"name":"b"}}}\n'
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}\n'
    )

    async def answer(request: web.Request) -> web.StreamResponse:
        queries.append(dict(request.query))
        return await stream(request, lines[:10], lines[10:60], lines[60:])

    async with serve(answer) as url, connect(tmp_path, url) as client:
        events = await collect(client, resource_version="5", namespace="ns", timeout_seconds=9)
        await collect(client, send_initial_events=True, label_selector="a=b")
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "BOOKMARK"]
    assert decode_object(events[1].object) == {"metadata": {"name": "b"}}
    common = {"watch": "true", "allowWatchBookmarks": "true"}
    assert queries == [
        {**common, "resourceVersion": "5", "timeoutSeconds": "9"},
        {
            **common,
            "labelSelector": "a=b",
            "timeoutSeconds": "300",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
        },
    ]


async def test_watch_that_ends_at_once(tmp_path: Path) -> None:
    async with serve(stream) as url, connect(tmp_path, url) as client:
        assert await collect(client) == []


async def test_watch_error_event(tmp_path: Path) -> None:
    event = {"type": "ERROR", "object": status(410, "Expired", "too old")}

    async def answer(request: web.Request) -> web.StreamResponse:
        return await stream(request, json.dumps(event).encode() + b"\n")

    async with serve(answer) as url, connect(tmp_path, url) as client:
        with pytest.raises(GoneError, match="too old"):
            await collect(client)


async def test_watch_refused(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return refuse(410, "Expired")

    async with serve(answer) as url, connect(tmp_path, url) as client:
        with pytest.raises(GoneError):
            await collect(client)


@pytest.mark.parametrize(
    ("chunks", "complaint"),
    [
        ([b'{"type":"ADDED","object":{}}\n{"type":"AD'], "cut inside a line"),
        ([b"<html>\n"], "no watch event"),
        ([b'{"type":"ADDED"}\n'], "no watch event"),
        ([b"\n"], "no watch event"),
        ([b"x" * (1024 * 1024)] * 17, "longer than"),
    ],
)
async def test_watch_streams_that_are_broken(
    tmp_path: Path, chunks: list[bytes], complaint: str
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await stream(request, *chunks)

    async with serve(answer) as url, connect(tmp_path, url) as client:
        with pytest.raises(UnreachableError, match=complaint):
            await collect(client)


async def test_watch_connection_that_breaks(tmp_path: Path) -> None:
    line = b'{"type":"ADDED","object":{}}\n'
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1d\r\n" + line + b"\r\n"
    async with serve_bytes(answer) as url, connect(tmp_path, url) as client:
        events = client.watch(PODS)
        assert (await anext(events)).type == "ADDED"
        with pytest.raises(UnreachableError, match="cut short"):
            await anext(events)


async def test_watch_of_a_megabyte_line(tmp_path: Path) -> None:
    line = json.dumps({"type": "ADDED", "object": {"data": "x" * 3_000_000}}).encode() + b"\n"

    async def answer(request: web.Request) -> web.StreamResponse:
        return await stream(request, line)

    async with serve(answer) as url, connect(tmp_path, url) as client:
        [event] = await collect(client)
    assert len(event.object) > 3_000_000


async def test_watch_that_is_left_closes_its_connection(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED","object":{}}\n')
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return response

    app = web.Application()
    app.router.add_get("/api/v1/pods", answer)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with connect(tmp_path, url) as client:
        async with aclosing(client.watch(PODS)) as events:
            async for _ in events:
                break
        async with asyncio.timeout(5):
            await left.wait()
    await runner.cleanup()


async def test_get_bytes(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=request.raw_path)

    async with serve(answer) as url, connect(tmp_path, url + "/prefix/") as client:
        assert await client.get_bytes("/livez", {"verbose": "1"}) == b"/prefix/livez?verbose=1"
        assert client.server == url + "/prefix"


async def test_stream(tmp_path: Path) -> None:
    paths = []

    async def answer(request: web.Request) -> web.StreamResponse:
        paths.append(request.raw_path)
        return await stream(request, b"one\n", b"two\n")

    async with (
        serve(answer) as url,
        connect(tmp_path, url) as client,
        client.stream("/log", [("follow", "true"), ("a", "b c")]) as response,
    ):
        assert await response.read() == b"one\ntwo\n"
    assert paths == ["/log?follow=true&a=b+c"]


async def test_stream_refused(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return refuse(404, "NotFound", message="container not there")

    async with serve(answer) as url, connect(tmp_path, url) as client:
        with pytest.raises(NotFoundError, match="container not there"):
            async with client.stream("/log"):
                pytest.fail("must not be entered")


async def test_stream_that_is_reset(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello"
    async with (
        serve_bytes(answer, then_reset=True) as url,
        connect(tmp_path, url) as client,
    ):
        with pytest.raises(UnreachableError, match=r"home API server .*GET /log"):
            async with client.stream("/log", [("command", "secret")]) as response:
                await response.read()


async def test_stream_errors_of_the_other_side_stay(tmp_path: Path) -> None:
    async with serve(stream) as url, connect(tmp_path, url) as client:
        with pytest.raises(aiohttp.ClientConnectionResetError):
            async with client.stream("/log"):
                raise aiohttp.ClientConnectionResetError("the reader of the log went away")


@pytest.mark.parametrize("path", ["/log", "/pods"])
async def test_redirects_are_refused(tmp_path: Path, path: str) -> None:
    requests = []

    async def answer(request: web.Request) -> web.Response:
        requests.append(request.path)
        raise web.HTTPFound("/elsewhere")

    async with serve(answer) as url, connect(tmp_path, url) as client:
        with pytest.raises(StatusError, match=r"302.*redirects"):
            async with client.stream(path):
                pass
        with pytest.raises(StatusError, match=r"302.*redirects"):
            await client.get_bytes(path)
    assert requests == [path, path]


async def test_websocket(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v4", "v5"), max_msg_size=0)
        await socket.prepare(request)
        await socket.send_str(request.headers.get("Sec-WebSocket-Extensions", "none"))
        async for message in socket:
            await socket.send_bytes(message.data)
        return socket

    big = bytes(5 * 1024 * 1024)  # more than aiohttp takes by default
    async with serve(answer) as url, connect(tmp_path, url) as client:
        async with client.connect_websocket(
            "/exec", [("command", "a b"), ("command", "c")], protocols=["v5", "v4"]
        ) as socket:
            assert socket.protocol == "v5"
            assert await socket.receive_str() == "none"
            await socket.send_bytes(big)
            assert await socket.receive_bytes() == big
        assert socket.closed
        async with client.connect_websocket("/exec", [], protocols=["v4"]) as socket:
            await socket.receive()
            with pytest.raises(KeyError):
                async with client.connect_websocket("/exec", [], protocols=["v4"]):
                    raise KeyError("what the body raises comes out as it is")


async def test_websocket_refused(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return refuse(403, "Forbidden", message="no exec for you", details={"kind": "pods"})

    async with serve(answer) as url, connect(tmp_path, url) as client:
        with pytest.raises(ForbiddenError, match="no exec for you") as caught:
            async with client.connect_websocket("/exec", [], protocols=["v5"]):
                pytest.fail("must not be entered")
    assert caught.value.status["details"] == {"kind": "pods"}


async def test_websocket_answers_that_are_none(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/no-upgrade":
            return web.Response(text="hello")
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        return socket

    async with serve(answer) as url, connect(tmp_path, url) as client:
        with pytest.raises(UnreachableError, match="Invalid response status"):
            async with client.connect_websocket("/no-upgrade", [], protocols=["v5"]):
                pass
        with pytest.raises(UnreachableError, match="speaks none of v5, v4"):
            async with client.connect_websocket("/other", [], protocols=["v5", "v4"]):
                pass


async def test_websocket_that_dies(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v5",))
        await socket.prepare(request)
        assert request.transport is not None
        request.transport.abort()
        return socket

    async with (
        serve(answer) as url,
        connect(tmp_path, url) as client,
        client.connect_websocket("/exec", [], protocols=["v5"]) as socket,
    ):
        message = await socket.receive()
    assert message.type in {aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR}


async def test_eviction_that_a_budget_refuses(tmp_path: Path) -> None:
    count = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal count
        count += 1
        return refuse(429, "TooManyRequests", headers={"Retry-After": "0"})

    async with serve(answer) as url, connect(tmp_path, url) as client:
        with pytest.raises(TooManyRequestsError):
            await client.create(PODS, {}, namespace="ns", name="p", subresource="eviction")
        assert count == 1
        with pytest.raises(TooManyRequestsError):
            await client.create(CONFIG_MAPS, {}, namespace="ns")
        assert count == 12
