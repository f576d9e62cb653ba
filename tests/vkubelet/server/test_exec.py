import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.vkubelet.server.harness import TOKEN, Harness, serve
from tests.vkubelet.server.spdy_client import PROTOCOLS, UPGRADE, build_path, connect, request
from vkubelet.interface import CommandStreams, ExitStatus, PodRef
from vkubelet.streaming.channels import CommandStatus

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Harness, None]:
    async with serve(tmp_path) as harness:
        yield harness


async def cat(streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
    while data := await streams.read_stdin():
        await streams.write_stdout(data)
    return ExitStatus(0)


async def test_head_of_the_upgrade(node: Harness) -> None:
    node.provider.run_exec = cat
    _, writer, head = await request(node.server.port, node.context(), build_path("true"))
    writer.transport.abort()
    lines = head.split("\r\n")
    assert lines[0] == "HTTP/1.1 101 Switching Protocols"
    assert "Connection: Upgrade" in lines
    assert "Upgrade: SPDY/3.1" in lines
    assert "X-Stream-Protocol-Version: v4.channel.k8s.io" in lines
    assert not any(line.startswith(("Transfer-Encoding", "Content-Length")) for line in lines)


async def test_long_command_line(node: Harness) -> None:
    node.provider.run_exec = cat
    words = ["echo", "ü &=+%", "", "x" * 1_000_000]
    async with connect(node.server.port, node.context(), build_path(*words)) as client:
        await client.open("error", "stdout", "stderr")
        assert await client.finish() == CommandStatus(0)
    assert node.provider.exec_requests[0][2] == words


async def test_command_line_beyond_what_a_kubelet_takes(
    node: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    path = build_path("echo", "x" * (1 << 20))
    _, writer, head = await request(node.server.port, node.context(), path)
    writer.transport.abort()
    assert head.startswith("HTTP/1.0 400 ")
    assert not node.provider.exec_requests
    assert not caplog.records


@pytest.mark.parametrize(
    "path", ["/exec/ns/pod/uid-1/c", "/exec/ns/pod/init", "/exec/ns/pod/debugger"]
)
async def test_other_paths(node: Harness, path: str) -> None:
    node.provider.run_exec = cat
    async with connect(node.server.port, node.context(), f"{path}?command=x&output=1") as client:
        await client.open("error", "stdout")
        assert await client.finish() == CommandStatus(0)


async def test_token_instead_of_certificate(node: Harness) -> None:
    node.provider.run_exec = cat
    headers = (*UPGRADE, ("Authorization", f"Bearer {TOKEN}"))
    _, writer, head = await request(
        node.server.port, node.context(None), build_path("x"), headers=headers
    )
    writer.transport.abort()
    assert head.startswith("HTTP/1.1 101 ")


@dataclass(frozen=True)
class Refused:
    """A request that is refused, and what it gets."""

    path: str
    code: int
    message: str
    headers: Sequence[tuple[str, str]] = UPGRADE
    protocols: Sequence[str] = tuple(PROTOCOLS)


PLAIN = "/exec/ns/pod/c?command=x&output=1"
NO_STREAM = "you must specify at least 1 of stdin, stdout, stderr"
REFUSED = [
    Refused("/exec/ns/pod/c?command=x", 400, NO_STREAM),
    Refused("/exec/ns/pod/c?command=x&error=1&tty=1", 400, NO_STREAM),
    Refused("/exec/ns/pod/c?command=x&input=true", 400, NO_STREAM),
    Refused("/exec/ns/pod/c?output=1", 400, "you must specify a command"),
    Refused("/exec/ns/pod/c?output=1&command=%ff", 400, "the query isn't UTF-8"),
    Refused("/exec/ns/other/c?command=x&output=1", 404, "pod does not exist"),
    Refused("/exec/ns/pod/uid-2/c?command=x&output=1", 404, "pod does not exist"),
    Refused("/exec/ns/pod/d?command=x&output=1", 500, 'container not found ("d")'),
    Refused("/exec/ns/pod/ended?command=x&output=1", 500, 'container not found ("ended")'),
    Refused("/attach/ns/pod/d?output=1", 500, "container d not found in pod pod_ns"),
    Refused("/attach/ns/pod/ended?output=1", 500, "container ended not found in pod pod_ns"),
    Refused(PLAIN, 400, "header X-Stream-Protocol-Version does not exist", protocols=()),
    Refused(PLAIN, 403, "unable to negotiate protocol", protocols=("v9, v8",)),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case.code}-{case.message[:24]}")
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_refused_upgrades_are_statuses(node: Harness, method: str, case: Refused) -> None:
    reader, writer, head = await request(
        node.server.port,
        node.context(),
        case.path,
        method=method,
        headers=case.headers,
        protocols=case.protocols,
    )
    assert head.startswith(f"HTTP/1.1 {case.code} ")
    length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
    status = json.loads(await reader.readexactly(length))
    writer.transport.abort()
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", case.code)
    assert case.message in status["message"]
    assert not node.provider.exec_requests
    served = [line for line in head.split("\r\n") if line.startswith("X-Accepted-Stream")]
    assert len(served) == (4 if case.code == 403 else 0)


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        (PLAIN, 500, "Upgrade request required"),
        ("/exec/ns/other/c?command=x&output=1", 404, "pod does not exist"),
    ],
)
async def test_without_an_upgrade_the_answer_is_text(
    node: Harness, path: str, code: int, message: str
) -> None:
    async with node.http() as http, http.post(path) as response:
        assert (response.status, await response.text()) == (code, message)
        assert response.content_type == "text/plain"


async def test_attach(node: Harness) -> None:
    node.provider.run_exec = cat
    path = "/attach/ns/pod/uid-1/c?input=1&output=1"
    async with connect(node.server.port, node.context(), path) as client:
        await client.open("error", "stdin", "stdout")
        client.send("stdin", b"hello", fin=True)
        assert await client.finish() == CommandStatus(0)
        assert client.output["stdout"] == b"hello"
    ref = PodRef("ns", "pod", "uid-1")
    assert node.provider.exec_requests == [(ref, "c", ["attach"], False)]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/attach/ns/pod/c", 400),
        ("/attach/ns/x/c?output=1", 404),
    ],
)
async def test_refused_attaches(node: Harness, path: str, code: int) -> None:
    _, writer, head = await request(node.server.port, node.context(), path)
    writer.transport.abort()
    assert head.startswith(f"HTTP/1.1 {code} ")
    assert not node.provider.exec_requests
