"""Many small writes in one go, at servers that do as they are told; in virtual time."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from tests.fakes.api_server import FakeApiServer
from tests.vkubelet.kube.certificates import Authority, server_context
from tests.vkubelet.kube.serving import Proxy, connect, status, write_kubeconfig
from vkubelet.kube.client import PatchType
from vkubelet.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    KubeError,
    NotFoundError,
    ServerError,
    ServerTimeoutError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from vkubelet.kube.objects import LEASES, NamespacedName
from vkubelet.kube.pipeline import (
    ANSWER_SECONDS,
    AVOID_SECONDS,
    GATHER_SECONDS,
    MAX_LINKS,
    MAX_TOGETHER,
    Pipeline,
)
from vkubelet.kube.sessions import KEEP_ALIVE_SECONDS

pytestmark = pytest.mark.virtual_time

CUT = b"cut"
"""The server cuts the connection in place of an answer."""


@dataclass(frozen=True)
class Request:
    """
    A request as the server read it.

    Attributes:
        connection: Number of the connection it came over.
        apart: Whether it's an ordinary call.
    """

    connection: int
    line: str
    headers: dict[str, str]
    body: Any

    @property
    def name(self) -> str:
        return self.line.split()[1].rpartition("/")[2]

    @property
    def apart(self) -> bool:
        return "accept-encoding" in self.headers


def reply(code: int = 200, body: object = None, *headers: str) -> bytes:
    content = json.dumps({} if body is None else body).encode()
    lines = [f"HTTP/1.1 {code} x", *headers, f"Content-Length: {len(content)}", "", ""]
    return "\r\n".join(lines).encode() + content


Decide = Callable[[Request], bytes | float]


class Server:
    """
    Answers each request by bytes; by a number: after so many seconds, or never if it's negative.

    Attributes:
        decide: What the next requests are answered by.
    """

    def __init__(self, decide: Decide = lambda _: reply()) -> None:
        self.decide = decide
        self.requests: list[Request] = []
        self.connections = 0
        self.open = 0

    @asynccontextmanager
    async def listen(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        async with asyncio.TaskGroup() as group:
            tasks = []

            async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                self.connections += 1
                self.open += 1
                serving = self._serve(self.connections, reader, writer)
                tasks.append(group.create_task(serving))

            server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
            async with server:
                port = server.sockets[0].getsockname()[1]
                yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
            for task in tasks:
                task.cancel()

    async def _serve(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                request = await _read_request(number, reader)
                self.requests.append(request)
                decided = self.decide(request)
                if isinstance(decided, float | int):
                    await asyncio.sleep(decided if decided >= 0 else 1e9)
                    decided = reply()
                if decided is CUT:
                    return
                writer.write(decided)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.transport.abort()

    def names(self, *, apart: bool = False) -> list[str]:
        return [request.name for request in self.requests if request.apart == apart]


async def _read_request(number: int, reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
    headers = {}
    for line in head[1:]:
        name, _, value = line.partition(": ")
        headers[name.lower()] = value
    body = await reader.readexactly(int(headers["content-length"]))
    return Request(number, head[0], headers, json.loads(body))


def keys(count: int) -> list[NamespacedName]:
    return [NamespacedName("ns", f"n{number}") for number in range(count)]


async def patch(
    pipeline: Pipeline, count: int = 5, *, within_seconds: float = 10.0
) -> dict[str, KubeError]:
    """Patch n0, n1 …; the failures by name."""
    patches = {key: {"spec": {"holderIdentity": key.name}} for key in keys(count)}
    failed = await pipeline.patch(LEASES, patches, PatchType.MERGE, within_seconds=within_seconds)
    return {key.name: error for key, error in failed.items()}


@asynccontextmanager
async def open_pipeline(
    server: Server, folder: Path, **sections: dict[str, Any]
) -> AsyncIterator[Pipeline]:
    async with (
        server.listen() as url,
        connect(folder, url, timeout_seconds=60.0, **sections) as client,
        client.open_pipeline() as pipeline,
    ):
        yield pipeline


def now() -> float:
    return asyncio.get_running_loop().time()


# All is well.


async def test_calls_go_together_over_a_connection_that_is_kept(tmp_path: Path) -> None:
    server = Server()
    async with open_pipeline(server, tmp_path) as pipeline:
        assert await patch(pipeline) == {}
        assert await patch(pipeline, 2) == {}
    assert server.connections == 1
    assert server.names() == ["n0", "n1", "n2", "n3", "n4", "n0", "n1"]
    first = server.requests[0]
    assert first.line == ("PATCH /apis/coordination.k8s.io/v1/namespaces/ns/leases/n0 HTTP/1.1")
    assert first.body == {"spec": {"holderIdentity": "n0"}}
    assert first.headers["content-type"] == "application/merge-patch+json"
    assert first.headers["authorization"] == "Bearer secret"
    assert first.headers["user-agent"].startswith("vkubelet/")


async def test_real_answers(tmp_path: Path) -> None:
    def lease(name: str, holder: str = "") -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": "ns", "name": name},
            "spec": {"holderIdentity": holder},
        }

    async with (
        FakeApiServer() as fake,
        fake.client("home") as client,
        client.open_pipeline() as pipeline,
    ):
        fake.put(lease("n0"))
        failed = await pipeline.create(
            LEASES, [lease(f"n{number}") for number in range(3)], within_seconds=10
        )
        assert [type(error) for error in failed.values()] == [AlreadyExistsError]
        errors = await patch(pipeline, 4)
        assert {name: type(error) for name, error in errors.items()} == {"n3": NotFoundError}
        for number in range(3):
            found = fake.get(LEASES, "ns", f"n{number}")
            assert found["spec"]["holderIdentity"] == f"n{number}"


async def test_many_go_over_several_connections(tmp_path: Path) -> None:
    server = Server(lambda _: 0.1)
    async with open_pipeline(server, tmp_path) as pipeline:
        assert await patch(pipeline, 3 * MAX_TOGETHER) == {}
        assert server.connections == 3
        assert len(set(server.names())) == 3 * MAX_TOGETHER
        assert now() < 3
        for _ in range(5):
            await asyncio.sleep(KEEP_ALIVE_SECONDS / 4)
            assert await patch(pipeline, MAX_TOGETHER) == {}
        await asyncio.sleep(1)
        assert (server.connections, server.open) == (3, 1)


async def test_connections_have_a_limit(tmp_path: Path) -> None:
    server = Server(lambda _: 0.01)
    async with open_pipeline(server, tmp_path) as pipeline:
        assert await patch(pipeline, 3 * MAX_LINKS * MAX_TOGETHER) == {}
    assert server.connections == MAX_LINKS
    assert server.names(apart=True) == []


async def test_nothing_to_do(tmp_path: Path) -> None:
    server = Server()
    async with open_pipeline(server, tmp_path) as pipeline:
        assert await patch(pipeline, 0) == {}
    assert server.connections == 0


async def test_server_under_a_path(tmp_path: Path) -> None:
    server = Server()
    async with (
        server.listen() as url,
        connect(tmp_path, f"{url}/k8s/clusters/c-1") as client,
        client.open_pipeline() as pipeline,
    ):
        assert await patch(pipeline, 1) == {}
    assert server.requests[0].line.startswith("PATCH /k8s/clusters/c-1/apis/coordination")


async def test_tls_through_a_proxy(tmp_path: Path) -> None:
    authority, server, proxy = Authority(), Server(), Proxy()
    cluster = {"certificate-authority-data": base64.b64encode(authority.pem).decode()}
    async with (
        proxy.listen() as proxy_url,
        server.listen(server_context(authority, tmp_path)) as url,
        connect(tmp_path, url, cluster={**cluster, "proxy-url": proxy_url}) as client,
        client.open_pipeline() as pipeline,
    ):
        assert await patch(pipeline) == {}
        assert await patch(pipeline) == {}
    assert len(proxy.heads) == 1
    assert server.names(apart=True) == []


# Failures of single calls.


async def test_each_fails_on_its_own(tmp_path: Path) -> None:
    answers = {
        "n1": reply(404, status(404, "NotFound")),
        "n2": reply(409, status(409, "Conflict")),
        "n3": reply(429, status(429, "TooManyRequests"), "Retry-After: 7"),
        "n4": reply(500, status(500, "InternalError")),
        "n5": b"HTTP/1.1 503 x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbusy\r\n0\r\n\r\n",
    }
    server = Server(lambda request: answers.get(request.name, reply()))
    async with open_pipeline(server, tmp_path) as pipeline:
        failed = await patch(pipeline, 7)
    assert {name: type(error) for name, error in failed.items()} == {
        "n1": NotFoundError,
        "n2": ConflictError,
        "n3": TooManyRequestsError,
        "n4": ServerError,
        "n5": ServerTimeoutError,
    }
    throttled = failed["n3"]
    assert isinstance(throttled, TooManyRequestsError)
    assert throttled.retry_after_seconds == 7
    assert len(server.requests) == 7


async def test_metrics_and_recovery(tmp_path: Path) -> None:
    def read(code: int) -> float:
        labels = {"cluster": "home", "verb": "patch", "code": str(code)}
        return REGISTRY.get_sample_value("vkubelet_kube_requests_total", labels) or 0.0

    server = Server(lambda _: reply(500))
    before = read(500), read(200)
    async with (
        server.listen() as url,
        connect(tmp_path, url) as client,
        client.open_pipeline() as pipeline,
        asyncio.TaskGroup() as group,
    ):
        await patch(pipeline, 3)
        waiting = group.create_task(client.wait_recovered())
        await asyncio.sleep(1)
        assert not waiting.done()
        server.decide = lambda _: reply()
        await patch(pipeline, 2)
    assert (read(500), read(200)) == (before[0] + 3, before[1] + 2)


async def test_expired_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    def decide(request: Request) -> bytes:
        if request.headers["authorization"] == "Bearer new" or request.name == "n0":
            return reply()
        token.write_text("new")
        return reply(401, status(401, "Unauthorized"))

    server = Server(decide)
    async with open_pipeline(server, tmp_path, user={"tokenFile": str(token)}) as pipeline:
        assert await patch(pipeline, 3) == {}
        assert server.names() == ["n0", "n1", "n2", "n1", "n2"]
        assert await patch(pipeline, 3) == {}
    assert server.connections == 1
    assert server.names(apart=True) == []


async def test_credentials_that_are_refused(tmp_path: Path) -> None:
    server = Server(lambda _: reply(401, status(401, "Unauthorized")))
    async with open_pipeline(server, tmp_path) as pipeline:
        failed = await patch(pipeline, 2)
    assert [type(error) for error in failed.values()] == [UnauthorizedError] * 2
    assert len(server.requests) == 2


async def test_new_certificates_take_a_new_connection(tmp_path: Path) -> None:
    authority = Authority()
    issued = [authority.issue("one"), authority.issue("two")]
    cluster = {"certificate-authority-data": base64.b64encode(authority.pem).decode()}
    users = [
        {
            "client-certificate-data": base64.b64encode(pair.certificate).decode(),
            "client-key-data": base64.b64encode(pair.key).decode(),
        }
        for pair in issued
    ]
    server = Server()
    async with (
        server.listen(server_context(authority, tmp_path)) as url,
        connect(tmp_path, url, cluster=cluster, user=users[0]) as client,
        client.open_pipeline() as pipeline,
    ):
        assert await patch(pipeline) == {}
        write_kubeconfig(tmp_path / "config", url, cluster=cluster, user=users[1])
        await asyncio.sleep(10)
        assert await patch(pipeline) == {}
        await asyncio.sleep(1)
        assert (server.connections, server.open) == (2, 1)


# The connection breaks.


async def test_cut_amid_a_batch(tmp_path: Path) -> None:
    cuts = ["n2"]

    def decide(request: Request) -> bytes:
        if request.name in cuts:
            cuts.clear()
            return CUT
        return reply()

    server = Server(decide)
    async with open_pipeline(server, tmp_path) as pipeline:
        assert await patch(pipeline) == {}
        assert server.names() == ["n0", "n1", "n2", "n2", "n3", "n4"]
        assert server.connections == 2
        assert await patch(pipeline) == {}
    assert server.connections == 2
    assert server.names(apart=True) == []


async def test_kept_connection_that_was_closed_meanwhile(tmp_path: Path) -> None:
    server = Server()
    async with open_pipeline(server, tmp_path) as pipeline:
        assert await patch(pipeline) == {}
        server.decide = lambda request: CUT if request.connection == 1 else reply()
        assert await patch(pipeline) == {}
    assert server.connections == 2
    assert server.names(apart=True) == []


async def test_server_that_closes_after_each_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(lambda request: reply(200, None, "Connection: close"))
    caplog.set_level("INFO")
    async with open_pipeline(server, tmp_path) as pipeline:
        assert await patch(pipeline) == {}
        assert sorted(server.names(apart=True)) == ["n2", "n3", "n4"]
        assert "3 of 5 writes" in caplog.text
        assert "the server closes the connection" in caplog.text
        server.requests.clear()
        assert await patch(pipeline) == {}
        assert server.names() == []
        assert sorted(server.names(apart=True)) == ["n0", "n1", "n2", "n3", "n4"]
        await asyncio.sleep(AVOID_SECONDS)
        server.requests.clear()
        await patch(pipeline)
        assert server.names()[0] == "n0"


async def test_pauses_of_pipelining_grow_and_end(tmp_path: Path) -> None:
    server = Server(lambda request: reply() if request.apart else CUT)
    tried = []
    async with open_pipeline(server, tmp_path) as pipeline:
        for _ in range(600):
            await patch(pipeline, 2)
            if server.names():
                tried.append(now())
            server.requests.clear()
            await asyncio.sleep(10)
        assert 5 <= len(tried) <= 10
        server.decide = lambda _: reply()
        await asyncio.sleep(3600)
        await patch(pipeline, 2)
        await patch(pipeline, 2)
        assert server.names(apart=True) == []
        server.decide = lambda request: reply() if request.apart else CUT
        await patch(pipeline, 2)
        await asyncio.sleep(AVOID_SECONDS)
        server.requests.clear()
        await patch(pipeline, 2)
        assert server.names()


async def test_batches_that_fail_together_are_one_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(lambda request: reply() if request.apart else CUT)
    caplog.set_level("INFO")
    async with open_pipeline(server, tmp_path) as pipeline, asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(patch(pipeline, 3))
    assert caplog.text.count("one by one for") == 1


async def test_more_answers_than_requests(tmp_path: Path) -> None:
    server = Server(lambda request: reply() * (2 if request.name == "n4" else 1))
    async with open_pipeline(server, tmp_path) as pipeline:
        assert await patch(pipeline) == {}
        assert await patch(pipeline) == {}
    assert server.connections == 2


@pytest.mark.parametrize(
    "strange",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnothing",
        reply() * 10,
    ],
)
async def test_what_is_no_proper_answer(tmp_path: Path, strange: bytes) -> None:
    server = Server(lambda request: reply() if request.apart else strange)
    async with open_pipeline(server, tmp_path) as pipeline:
        assert await patch(pipeline) == {}
        await asyncio.sleep(60)
        server.decide = lambda _: reply()
        server.requests.clear()
        assert await patch(pipeline) == {}
    assert server.names() == ["n0", "n1", "n2", "n3", "n4"]


async def test_nobody_there(tmp_path: Path) -> None:
    server = Server()
    async with server.listen() as url:
        pass
    async with connect(tmp_path, url) as client, client.open_pipeline() as pipeline:
        failed = await patch(pipeline)
        assert {type(error) for error in failed.values()} == {UnreachableError}
        assert "can't connect" in str(failed["n0"])
        assert now() < 1


async def test_server_that_was_away_is_not_blamed(tmp_path: Path) -> None:
    async with FakeApiServer() as fake, fake.client("home") as client:
        for key in keys(3):
            metadata = {"namespace": key.namespace, "name": key.name}
            fake.put({"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": metadata})
        async with client.open_pipeline() as pipeline:
            assert await patch(pipeline, 3) == {}
            await fake.stop()
            assert len(await patch(pipeline, 3)) == 3
            await fake.start()
            fake.requests.clear()
            assert await patch(pipeline, 3) == {}
    assert not [call for call in fake.requests if "Accept-Encoding" in call.headers]


# Answers are late.


async def test_one_that_is_stuck_holds_up_no_other(tmp_path: Path) -> None:
    server = Server(lambda request: -1 if request.name == "n2" else reply())
    async with open_pipeline(server, tmp_path) as pipeline:
        failed = await patch(pipeline, within_seconds=10)
    assert list(failed) == ["n2"]
    assert isinstance(failed["n2"], UnreachableError)
    assert "no answer in time" in str(failed["n2"])
    assert server.names() == ["n0", "n1", "n2"]
    assert now() == pytest.approx(10, abs=0.1)


async def test_one_that_is_late_is_called_apart(tmp_path: Path) -> None:
    server = Server(lambda request: 30 if request.name == "n0" and not request.apart else reply())
    async with open_pipeline(server, tmp_path) as pipeline:
        assert await patch(pipeline) == {}
        assert now() == pytest.approx(ANSWER_SECONDS, abs=0.1)
        assert len(server.names(apart=True)) == 5


async def test_slow_server_is_waited_for_while_answers_come(tmp_path: Path) -> None:
    server = Server(lambda _: 2.0)
    async with open_pipeline(server, tmp_path) as pipeline:
        assert await patch(pipeline, MAX_TOGETHER, within_seconds=60) == {}
        assert now() == pytest.approx(20, abs=1)
        failed = await patch(pipeline, MAX_TOGETHER, within_seconds=10)
        assert len(failed) == pytest.approx(5, abs=1)
        assert now() == pytest.approx(30, abs=1)
    assert server.names(apart=True) == []


async def test_slow_server_is_not_blamed(tmp_path: Path) -> None:
    server = Server(lambda _: 8.0)
    async with open_pipeline(server, tmp_path) as pipeline:
        assert await patch(pipeline, 2, within_seconds=20) == {}
        assert len(server.names(apart=True)) == 2
        server.decide = lambda _: reply()
        server.requests.clear()
        assert await patch(pipeline, 2) == {}
    assert server.names() == ["n0", "n1"]


async def test_batch_behind_stuck_ones_goes_apart(tmp_path: Path) -> None:
    server = Server(lambda request: reply() if request.apart else -1)
    async with open_pipeline(server, tmp_path) as pipeline, asyncio.TaskGroup() as group:
        tasks = [group.create_task(patch(pipeline, 3)) for _ in range(MAX_LINKS + 3)]
    assert [task.result() for task in tasks] == [{}] * len(tasks)
    assert now() < 2 * ANSWER_SECONDS
    assert len(server.names(apart=True)) == 3 * len(tasks)


async def test_server_that_closed_all_connections(tmp_path: Path) -> None:
    server = Server()
    async with open_pipeline(server, tmp_path) as pipeline:
        assert await patch(pipeline, 3 * MAX_TOGETHER) == {}
        server.decide = lambda request: CUT if request.connection <= 3 else reply()
        assert await patch(pipeline) == {}
        assert await patch(pipeline) == {}
    assert server.connections == 4
    assert server.names(apart=True) == []


async def test_answers_are_gathered(tmp_path: Path) -> None:
    server = Server(lambda _: 0.001)
    async with open_pipeline(server, tmp_path) as pipeline:
        await patch(pipeline, MAX_TOGETHER)
    assert GATHER_SECONDS <= now() < 6 * GATHER_SECONDS  # the kernel may be late with some


async def test_cancelling_closes_the_connection(tmp_path: Path) -> None:
    server = Server(lambda _: 60)
    async with open_pipeline(server, tmp_path) as pipeline, asyncio.TaskGroup() as group:
        task = group.create_task(patch(pipeline))
        await asyncio.sleep(1)
        assert server.open == 1
        task.cancel()
        await asyncio.sleep(1)
        server.decide = lambda _: reply()
        assert await patch(pipeline) == {}
        assert server.connections == 2


async def test_leaving_closes_the_connection(tmp_path: Path) -> None:
    server = Server()
    async with server.listen() as url, connect(tmp_path, url) as client:
        async with client.open_pipeline() as pipeline:
            await patch(pipeline)
            assert server.open == 1
        await asyncio.sleep(1)
        assert server.open == 0
