import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web
from prometheus_client import REGISTRY

from tests.vkubelet.kube.certificates import Authority, server_context
from tests.vkubelet.kube.serving import (
    connect,
    refuse,
    replace_file,
    serve,
    serve_bytes,
    write_kubeconfig,
)
from vkubelet.kube.access import load_kubeconfig
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import (
    KubeError,
    ServerError,
    ServerTimeoutError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from vkubelet.kube.objects import CONFIG_MAPS, PODS
from vkubelet.kube.transport import MAX_THROTTLED_RETRIES, PING_SECONDS


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_nobody_serves(tmp_path: Path) -> None:
    server = f"http://127.0.0.1:{unused_port()}"
    async with connect(tmp_path, server) as client:
        with pytest.raises(UnreachableError) as caught:
            await client.list(PODS, label_selector="a=b")
    assert str(caught.value) == (
        f"home API server {server}: GET /api/v1/pods: can't connect: "
        f"Connect call failed ('127.0.0.1', {server.rpartition(':')[2]})"
    )


@pytest.mark.virtual_time
async def test_slow_answers(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if request.path == "/slow-body":
            await response.prepare(request)
            await response.write(b"{")
        await asyncio.sleep(3600)
        return response

    async with serve(answer) as url, connect(tmp_path, url, timeout_seconds=7) as client:
        for path in ("/slow-head", "/slow-body"):
            start = asyncio.get_running_loop().time()
            with pytest.raises(UnreachableError, match=rf"GET {path}: no answer within 7 s"):
                await client.get_bytes(path)
            assert 6.9 < asyncio.get_running_loop().time() - start < 8
        with pytest.raises(UnreachableError, match="no answer within 7 s"):
            await anext(client.watch(PODS))
        with pytest.raises(UnreachableError, match="no answer within 7 s"):
            async with client.connect_websocket("/exec", [], protocols=["v5"]):
                pass


@pytest.mark.virtual_time
async def test_streams_have_no_time_out(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(3600)
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(3600)
        await response.write(b"late")
        return response

    async with (
        serve(answer) as url,
        connect(tmp_path, url, timeout_seconds=1) as client,
        client.stream("/log") as response,
    ):
        assert await response.read() == b"late"


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"", "the connection was closed before the answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "the answer was cut short"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "the answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "the answer isn't proper HTTP"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 9\r\n\r\n{", "the answer was cut short"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 12\r\n\r\nno gzip here",
            "the answer",
        ),
    ],
)
@pytest.mark.parametrize("reset", [True, False])
async def test_broken_answers(
    tmp_path: Path, answer: bytes, complaint: str, *, reset: bool
) -> None:
    async with serve_bytes(answer, then_reset=reset) as url, connect(tmp_path, url) as client:
        with pytest.raises(UnreachableError, match="GET /x" if reset else complaint) as caught:
            await client.get_bytes("/x")
        assert str(caught.value).startswith(f"home API server {url}: GET /x: ")
        with pytest.raises(UnreachableError):
            await anext(client.watch(PODS))
        with pytest.raises(UnreachableError):
            async with client.connect_websocket("/exec", [], protocols=["v5"]):
                pass


async def test_server_that_is_not_trusted(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({})

    async with (
        serve(answer, server_context(Authority(), tmp_path)) as url,
        connect(tmp_path, url) as client,
    ):
        with pytest.raises(UnreachableError, match="its certificate isn't accepted: "):
            await client.get_bytes("/")
    async with serve(answer) as url, connect(tmp_path, url.replace("http", "https")) as client:
        with pytest.raises(UnreachableError, match="can't connect: TLS fails"):
            await client.get_bytes("/")


def throttle(times: int, retry_after: str | None) -> Callable[[web.Request], web.Response]:
    answers = iter(range(times))

    def answer(_: web.Request) -> web.Response:
        if next(answers, None) is None:
            return web.json_response({"kind": "ConfigMap"})
        headers = {"Retry-After": retry_after} if retry_after else None
        return refuse(429, "TooManyRequests", headers=headers, details={"retryAfterSeconds": 2})

    return answer


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("times", "retry_after", "waited"),
    [
        (1, "3", 3.0),
        (2, None, 4.0),
        (3, "0", 0.0),
        (1, "Thu, 01 Jan 2015 00:00:00 GMT", 0.0),
        (1, "soon", 2.0),
    ],
)
async def test_retry_after_is_obeyed(
    tmp_path: Path, times: int, retry_after: str | None, waited: float
) -> None:
    answers = throttle(times, retry_after)

    async def answer(request: web.Request) -> web.Response:
        return answers(request)

    async with serve(answer) as url, connect(tmp_path, url, timeout_seconds=30) as client:
        start = asyncio.get_running_loop().time()
        assert await client.create(CONFIG_MAPS, {}, namespace="ns") == {"kind": "ConfigMap"}
        took = asyncio.get_running_loop().time() - start
        assert waited - 0.1 <= took <= waited * 1.5 + 0.5


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("retry_after", "expected_requests"), [("0", MAX_THROTTLED_RETRIES + 1), ("31", 1), ("20", 2)]
)
async def test_retry_after_has_its_limits(
    tmp_path: Path, retry_after: str, expected_requests: int
) -> None:
    requests = []

    async def answer(request: web.Request) -> web.Response:
        requests.append(request)
        return refuse(429, "TooManyRequests", headers={"Retry-After": retry_after})

    async with serve(answer) as url, connect(tmp_path, url, timeout_seconds=30) as client:
        with pytest.raises(TooManyRequestsError) as caught:
            await client.create(CONFIG_MAPS, {}, namespace="ns")
        assert caught.value.retry_after_seconds == float(retry_after)
        assert len(requests) == expected_requests
        with pytest.raises(TooManyRequestsError):
            async with client.stream("/log"):
                pass


@pytest.mark.parametrize(
    ("code", "kind"), [(500, ServerError), (502, ServerError), (503, ServerTimeoutError)]
)
async def test_failures_of_the_server_are_not_retried(
    tmp_path: Path, code: int, kind: type[KubeError]
) -> None:
    requests = []

    async def answer(request: web.Request) -> web.Response:
        requests.append(request)
        return web.Response(status=code, text="<html>\n  bad  gateway</html>")

    async with serve(answer) as url, connect(tmp_path, url) as client:
        with pytest.raises(kind, match="<html> bad gateway</html>"):
            await client.create(CONFIG_MAPS, {}, namespace="ns")
    assert len(requests) == 1


async def test_failure_with_an_endless_body(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=500, body=bytes(2 * 1024 * 1024))

    async with serve(answer) as url, connect(tmp_path, url) as client:
        with pytest.raises(UnreachableError, match="larger than"):
            await client.get_bytes("/")


async def test_rotated_token(tmp_path: Path) -> None:
    valid = "one"
    requests = []

    async def answer(request: web.Request) -> web.StreamResponse:
        requests.append(request.headers["Authorization"])
        if request.headers["Authorization"] != f"Bearer {valid}":
            return refuse(401, "Unauthorized")
        if "Upgrade" not in request.headers:
            return web.json_response({})
        opened = web.WebSocketResponse(protocols=("v5",))
        await opened.prepare(request)
        return opened

    token = tmp_path / "token"
    token.write_text("one")
    async with serve(answer) as url:
        path = write_kubeconfig(tmp_path / "config", url, user={"tokenFile": "token"})
        async with KubeClient(await load_kubeconfig(path, None), name="home") as client:
            await client.create(CONFIG_MAPS, {}, namespace="ns")
            valid = "two"
            replace_file(token, valid)
            await client.create(CONFIG_MAPS, {}, namespace="ns")
            valid = "three"
            replace_file(token, valid)
            async with client.stream("/log"):
                pass
            valid = "four"
            replace_file(token, valid)
            async with client.connect_websocket("/exec", [], protocols=["v5"]):
                pass
            assert [text.split()[1] for text in requests] == [
                *("one", "one", "two", "two", "three", "three", "four")
            ]
            requests.clear()
            valid = "five"
            with pytest.raises(UnauthorizedError):
                await client.get_bytes("/")
            assert len(requests) == 1, "there is nothing newer to try"
            replace_file(token, "six")
            with pytest.raises(UnauthorizedError):
                await client.get_bytes("/")
            assert len(requests) == 3


async def test_connection_that_was_closed_while_idle(tmp_path: Path) -> None:
    requests = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        # Serves one request a connection, and closes it when the second comes.
        await reader.readuntil(b"\r\n\r\n")
        requests += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, connect(tmp_path, url) as client:
        for _ in range(3):
            assert await client.get_bytes("/") == b"{}"
    assert requests == 3


async def test_metrics(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({}, status=201 if request.method == "POST" else 404)

    def value(verb: str, code: str) -> float:
        labels = {"cluster": "metrics", "verb": verb, "code": code}
        return REGISTRY.get_sample_value("vkubelet_kube_requests_total", labels) or 0.0

    async with serve(answer) as url:
        path = write_kubeconfig(tmp_path / "config", url)
        async with KubeClient(await load_kubeconfig(path, None), name="metrics") as client:
            for _ in range(2):
                await client.create(CONFIG_MAPS, {}, namespace="ns")
            with pytest.raises(KubeError):
                await client.list(PODS)
            write_kubeconfig(path, f"http://127.0.0.1:{unused_port()}")
    async with KubeClient(await load_kubeconfig(path, None), name="metrics") as client:
        with pytest.raises(UnreachableError):
            await client.list(PODS)
    assert (value("create", "201"), value("list", "404"), value("list", "error")) == (2, 1, 1)


@pytest.mark.virtual_time
async def test_idle_websocket_is_pinged_and_no_pong_is_needed(tmp_path: Path) -> None:
    pings = []

    async def answer(request: web.Request) -> web.StreamResponse:
        opened = web.WebSocketResponse(protocols=("v5",), autoping=False)
        await opened.prepare(request)
        while True:
            message = await opened.receive()
            if message.type is not web.WSMsgType.PING:
                return opened
            pings.append(asyncio.get_running_loop().time())

    async with (
        serve(answer) as url,
        connect(tmp_path, url) as client,
        client.connect_websocket("/exec", [], protocols=["v5"]) as opened,
    ):
        await asyncio.sleep(10 * PING_SECONDS + 1)
        assert not opened.closed
    assert len(pings) == 10
