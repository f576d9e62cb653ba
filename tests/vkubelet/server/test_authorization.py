import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from tests.fakes.api_server import ApiCall
from tests.vkubelet.server.harness import MASTERS, NODE, Harness, serve
from tests.vkubelet.server.spdy_client import build_path, connect, request
from vkubelet.interface import CommandStreams, ExitStatus
from vkubelet.kube.objects import KubeObject
from vkubelet.server.authorization import (
    ALLOWED_CACHE_SECONDS,
    DENIED_CACHE_SECONDS,
    list_subresources,
)
from vkubelet.streaming.channels import CommandStatus

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Harness, None]:
    async with serve(tmp_path) as harness:
        yield harness


async def get(
    node: Harness, path: str, user: str, groups: list[str], method: str = "GET"
) -> tuple[int, str]:
    async with (
        node.http(node.context(user, groups)) as http,
        http.request(method, path) as response,
    ):
        return response.status, await response.text()


def reviewed(node: Harness) -> list[tuple[str, str]]:
    attributes = [
        call.body["spec"]["resourceAttributes"]
        for call in node.api.calls("create subjectaccessreviews")
    ]
    assert all(it["resource"] == "nodes" and it["name"] == NODE for it in attributes)
    return [(it["verb"], it["subresource"]) for it in attributes]


async def test_other_nodes_and_users_of_the_cluster_are_refused(node: Harness) -> None:
    for user, groups in (("system:node:real", ["system:nodes"]), ("alice", [])):
        assert await get(node, "/containerLogs/ns/pod/c", user, groups) == (
            403,
            f"Forbidden (user={user}, verb=get, resource=nodes, subresource(s)=[proxy])\n",
        )
    assert await get(node, "/healthz", "alice", []) == (
        403,
        "Forbidden (user=alice, verb=get, resource=nodes, subresource(s)=[healthz proxy])\n",
    )


async def test_paths_are_authorized_before_they_are_routed(node: Harness) -> None:
    status, _ = await get(node, "/nothing", "alice", [])
    assert status == 403
    assert await get(node, "/nothing", "master", [MASTERS]) == (404, "404 page not found")
    assert await get(node, "/exec", "master", [MASTERS]) == (404, "404: Page Not Found")


async def test_wrong_method(node: Harness) -> None:
    context = node.context("master", [MASTERS])
    async with node.http(context) as http, http.post("/containerLogs/ns/pod/c") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "GET"
    assert reviewed(node) == [("create", "proxy")]


async def test_first_allowed_subresource_wins(node: Harness) -> None:
    await get(node, "/healthz", "master", [MASTERS])
    assert reviewed(node) == [("get", "healthz")]
    await get(node, "/healthz", "alice", [])
    assert reviewed(node)[1:] == [("get", "healthz"), ("get", "proxy")]


@pytest.mark.parametrize(
    ("method", "verb"),
    [
        ("GET", "get"),
        ("POST", "create"),
        ("PUT", "update"),
        ("PATCH", "patch"),
        ("DELETE", "delete"),
        ("OPTIONS", ""),
    ],
)
async def test_verbs(node: Harness, method: str, verb: str) -> None:
    await get(node, "/anything", "alice", [], method)
    assert reviewed(node) == [(verb, "proxy")]


async def test_upgrade_by_get_needs_create_too(node: Harness) -> None:
    _, writer, head = await request(
        node.server.port, node.context("reader", []), build_path("x"), method="GET"
    )
    writer.transport.abort()
    assert head.startswith("HTTP/1.1 403 ")
    assert reviewed(node) == [("get", "proxy"), ("create", "proxy")]


async def test_answers_are_kept_as_long_as_a_kubelet_does(node: Harness) -> None:
    async def ask() -> int:
        await get(node, "/metrics", "metrics", [])  # allowed
        await get(node, "/pods", "alice", [])  # denied, twice
        return len(reviewed(node))

    assert await ask() == 3
    assert await ask() == 3
    await asyncio.sleep(DENIED_CACHE_SECONDS + 1)
    assert await ask() == 5
    await asyncio.sleep(ALLOWED_CACHE_SECONDS)
    assert await ask() == 8


async def test_revoked_rights_end_no_stream_but_open_none(node: Harness) -> None:
    async def cat(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        while data := await streams.read_stdin():
            await streams.write_stdout(data)
        return ExitStatus(0)

    def refuse(call: ApiCall) -> KubeObject:
        return {**call.body, "status": {"allowed": False}}

    node.provider.run_exec = cat
    context = node.context()
    path = build_path("cat", streams=("input", "output"))
    async with connect(node.server.port, context, path) as client:
        await client.open("error", "stdin", "stdout")
        node.api.handle("create subjectaccessreviews", refuse)
        await asyncio.sleep(ALLOWED_CACHE_SECONDS + 1)
        _, writer, head = await request(node.server.port, context, path)
        writer.transport.abort()
        assert head.startswith("HTTP/1.1 403 ")
        client.send("stdin", b"still here", fin=True)
        assert await client.finish() == CommandStatus(0)
        assert client.output["stdout"] == b"still here"


async def test_failed_review_is_500_and_not_kept(node: Harness) -> None:
    node.api.fail_next("create subjectaccessreviews", 403)
    assert await get(node, "/healthz", "master", [MASTERS]) == (
        500,
        "Authorization error (user=master, verb=get, resource=nodes, subresource=healthz)",
    )
    assert await get(node, "/healthz", "master", [MASTERS]) == (200, "ok")


@pytest.mark.parametrize(
    ("path", "subresources"),
    [
        ("/stats/summary", ("stats",)),
        ("/metrics", ("metrics",)),
        ("/metrics/resource", ("metrics",)),
        ("/metricsx", ("proxy",)),
        ("/logs/", ("log",)),
        ("/checkpoint/ns/p/c", ("checkpoint",)),
        ("/pods", ("pods", "proxy")),
        ("/runningpods/", ("pods", "proxy")),
        ("/healthz/ping", ("healthz", "proxy")),
        ("/configz", ("configz", "proxy")),
        ("/statusz", ("statusz", "proxy")),
        ("/flagz", ("proxy",)),
        ("/exec/ns/p/c", ("proxy",)),
        ("/containerLogs/ns/p/c", ("proxy",)),
        ("/", ("proxy",)),
    ],
)
def test_subresources(path: str, subresources: tuple[str, ...]) -> None:
    assert list_subresources(path) == subresources
