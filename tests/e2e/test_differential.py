"""
Each request made twice: to the remote pod directly, and through the virtual node at home.

Status, body and exit code must be the same. `RIGHT` lists by name where a Kubernetes API server or
kubelet is known to be wrong; there ours must be right.
"""

import asyncio
import contextlib
import hashlib
import os
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster import launch
from tests.e2e.commands import COLUMNS, ROWS, Outcome, run_slowly
from tests.e2e.differential import CLIENTS, Both

pytestmark = pytest.mark.e2e

_LOG = "/api/v1/namespaces/{ns}/pods/talker/log"

LOGS: Sequence[str] = (
    "talker",
    "talker --timestamps",
    *(f"talker --tail={lines}" for lines in (-2, -1, 0, 1, 5, 41, 100_000)),
    *(f"talker --limit-bytes={size}" for size in (0, 1, 10, 100, 30_000, 1_000_000)),
    "talker --limit-bytes=100 --timestamps",
    "talker --tail=3 --limit-bytes=10",
    "talker --tail=3 --timestamps --since=1h",
    *(f"talker --since={time}" for time in ("0s", "1s", "1h")),
    "talker --since-time=2020-01-01T00:00:00Z",
    "talker --since-time=2099-01-01T00:00:00Z",
    "talker --since-time=2020-01-01T02:00:00.123456789+02:00",
    "talker --since-time=yesterday",
    "talker --since=1h --since-time=2020-01-01T00:00:00Z",
    "talker --container=none",
    "talker --previous",
    "none",
    "ended",
    "ended --follow",
    "ended --follow --timestamps",
    "ended --previous",
    "again",
    "again --previous",
    "again --previous --follow",
    "again --previous --tail=1 --timestamps",
    "inits",
    "inits --container=prepare",
    "inits --container=prepare --previous",
    "inits --all-containers",
    "failed-init",
    "failed-init --container=prepare",
    "failed-init --container=main",
    "failed-init --container=main --previous",
    "initializing",
    "initializing --container=prepare",
    "initializing --follow --pod-running-timeout=2s",
    "no-image",
    "no-image --previous",
    "pair",
    "pair --container=second",
    "pair --container=third",
    "pair --all-containers --prefix",
)

LOG_QUERIES: Sequence[str] = (
    "",
    "timestamps=1",
    "follow=0",
    "insecureSkipTLSVerifyBackend=true",
    "unknown=1",
    "previous=true",
    "container=none",
    "container=",
    *(
        f"tailLines={value}"
        for value in ("abc", "-5", "3", "99999999999999999999", "1&tailLines=2")
    ),
    *(f"limitBytes={value}" for value in ("0", "-1", "x", "7")),
    *(f"sinceSeconds={value}" for value in ("0", "-1", "x", "3600")),
    *(f"sinceTime={value}" for value in ("x", "2020-01-01T00:00:00.123456789Z")),
    "sinceSeconds=5&sinceTime=2020-01-01T00:00:00Z",
    *(f"stream={value}" for value in ("", "All", "Stdout", "Stderr", "Bad", "Stdout&tailLines=3")),
)

EXECS: Sequence[Sequence[str]] = (
    *(("talker", "--", "sh", "-c", f"exit {code}") for code in (0, 1, 2, 126, 127, 128, 137, 255)),
    ("talker", "--", "sh", "-c", "kill -9 $$"),
    ("talker", "--", "sh", "-c", "kill -TERM $$"),
    ("talker", "--", "no-such"),
    ("talker", "--", "/etc/passwd"),
    ("talker", "--", "/etc"),
    ("talker", "--", ""),
    ("talker", "--", "sh", "-c", "echo out; echo err >&2"),
    ("talker", "--", "printf", r"\001\377\000x"),
    ("talker", "--", "printf", "%s|", "two words", "", "ü", "&=+%", "line\nbreak"),
    ("talker", "--", "true"),
    ("-i", "talker", "--", "cat"),
    ("talker", "--container=none", "--", "true"),
    ("none", "--", "true"),
    ("ended", "--", "true"),
    ("failed-init", "--", "true"),
    ("failed-init", "--container=prepare", "--", "true"),
    ("initializing", "--", "true"),
    ("initializing", "--container=prepare", "--", "echo", "in init"),
    ("inits", "--container=prepare", "--", "true"),
    ("no-image", "--", "true"),
    ("pair", "--", "echo", "first"),
    ("pair", "--container=second", "--", "echo", "second"),
)

RIGHT = {
    "slow reader": "an API server loses the end of what a slow reader hasn't read yet",
    "closed port": "a kubelet's refusal makes kubectl end all other connections that it forwards",
}


@pytest.mark.parametrize("args", LOGS)
async def test_logs(both: Both, args: str) -> None:
    direct, through = await both.run("logs", *args.split())
    assert through == direct


@pytest.mark.parametrize("query", LOG_QUERIES)
async def test_log_queries(both: Both, query: str) -> None:
    direct, through = await both.run("get", "--raw", f"{_LOG}?{query}")
    assert through == direct


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("args", EXECS, ids=lambda args: " ".join(map(ascii, args)))
async def test_exec(both: Both, args: Sequence[str], client: str) -> None:
    direct, through = await both.run("exec", *args, env=CLIENTS[client])
    assert through == direct


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("script", "keys"),
    [
        ("sleep 0.5; stty size; exit 7", []),  # the size comes after the start
        ("read a; read b; echo $a, $b; exit 3", [b"one\n", b"two\n"]),
        ("echo waiting; trap 'echo stopped; exit 5' INT; while :; do sleep 0.1; done", [b"\x03"]),
        ("cat; echo ended; exit 4", [b"a line\n", b"\x04"]),
        ("[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; echo err >&2", []),
    ],
    ids=["size", "lines", "interrupt", "end of file", "three"],
)
async def test_terminal(both: Both, script: str, keys: list[bytes], client: str) -> None:
    direct, through = await both.run(
        "exec", "-it", "talker", "--", "sh", "-c", script, terminal=keys, env=CLIENTS[client]
    )
    assert through == direct
    if "size" in script:
        assert through.stdout.startswith(f"{ROWS} {COLUMNS}".encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A file that can't be guessed."""

    path: Path
    size: int
    sha256: str


@pytest.fixture(scope="module")
def payload(tmp_path_factory: pytest.TempPathFactory) -> Payload:
    """A file of 100 MB; VKUBELET_E2E_MEGABYTES for another size."""
    path = tmp_path_factory.mktemp("payload") / "random"
    digest = hashlib.sha256()
    size = int(os.environ.get("VKUBELET_E2E_MEGABYTES", "100"))
    with path.open("wb") as file:
        for _ in range(size):
            chunk = os.urandom(1_000_000)
            digest.update(chunk)
            file.write(chunk)
    return Payload(path=path, size=size * 1_000_000, sha256=digest.hexdigest())


@pytest.mark.parametrize("client", CLIENTS)
async def test_big_stdin_arrives_whole(both: Both, payload: Payload, client: str) -> None:
    args = ("exec", "-i", "talker", "--", "sha256sum")
    through = await both.run_at(both.home, *args, stdin=payload.path, env=CLIENTS[client])
    assert through == Outcome(returncode=0, stdout=f"{payload.sha256}  -\n".encode())


@pytest.mark.parametrize("client", CLIENTS)
async def test_big_stdin_comes_back_whole(both: Both, payload: Payload, client: str) -> None:
    args = ("exec", "-i", "talker", "--", "cat")
    through = await both.run_at(both.home, *args, stdin=payload.path, env=CLIENTS[client])
    assert (through.returncode, len(through.stdout), through.stderr) == (0, payload.size, "")
    assert hashlib.sha256(through.stdout).hexdigest() == payload.sha256


@pytest.mark.parametrize("client", CLIENTS)
async def test_output_arrives_whole_again_and_again(both: Both, client: str) -> None:
    args = ("exec", "talker", "--", "head", "-c", "10000000", "/dev/zero")
    for _ in range(5):
        through = await both.run_at(both.home, *args, env=CLIENTS[client])
        assert (through.returncode, len(through.stdout), through.stderr) == (0, 10_000_000, "")


async def test_slow_reader(both: Both) -> None:
    """
    RIGHT["slow reader"]: by SPDY, which home's API server merely passes on, nothing is lost.

    By WebSocket home's API server itself loses the end, as it does without us.
    """
    args = ["exec", "talker", f"-n={both.namespace}", "--", "head", "-c", "8000000", "/dev/zero"]
    slow = await run_slowly(
        launch.build_command(both.home.build_kubectl_command(*args)),
        {"PATH": os.defpath, "HOME": str(both.home.folder), **CLIENTS["spdy"]},
        bytes_per_second=2e6,
    )
    assert (slow.returncode, len(slow.stdout), slow.stderr) == (0, 8_000_000, "")


async def test_copy_to_and_from(both: Both, payload: Payload, tmp_path: Path) -> None:
    back = tmp_path / "back"
    pod_file = f"{both.namespace}/talker:/tmp/payload"
    in_pod = ("exec", "talker", f"-n={both.namespace}", "--")
    await both.home.kubectl("cp", str(payload.path), pod_file, timeout=90)
    hashed = await both.home.kubectl(*in_pod, "sha256sum", "/tmp/payload")
    assert hashed.stdout.split()[0] == payload.sha256
    await both.home.kubectl("cp", pod_file, str(back), timeout=90)
    with back.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == payload.sha256
    await both.home.kubectl(*in_pod, "rm", "/tmp/payload")


async def test_copy_of_what_is_not_there(both: Both, tmp_path: Path) -> None:
    direct, through = await both.run("cp", "{ns}/talker:/none", str(tmp_path / "none"))
    assert through == direct


async def _attach(both: Both, *, at_home: bool, client: str) -> bytes:
    """Attach to a container that answers, write a line, and return what it says to it."""
    cluster = both.home if at_home else both.remote
    namespace = both.namespace if at_home else both.remote_namespace
    async with cluster.kubectl_process(
        "attach", "-i", "reader", f"-n={namespace}", env=CLIENTS[client]
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        async with asyncio.timeout(30):
            process.stdin.write(b"hello\n")
            return await process.stdout.readline()


@pytest.mark.parametrize("client", CLIENTS)
async def test_attach(both: Both, client: str) -> None:
    assert await _attach(both, at_home=False, client=client) == b"got hello\n"
    assert await _attach(both, at_home=True, client=client) == b"got hello\n"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "args", ["none", "ended", "initializing", "no-image", "pair --container=third"]
)
async def test_attach_to_what_does_not_run(both: Both, args: str, client: str) -> None:
    direct, through = await both.run(
        "attach", *args.split(), "--pod-running-timeout=1s", env=CLIENTS[client]
    )
    assert through == direct


@contextlib.asynccontextmanager
async def _forward(
    both: Both, port: int, *, at_home: bool
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """Forward a port of the pod `web`: kubectl's process, and the port on our side."""
    cluster = both.home if at_home else both.remote
    namespace = both.namespace if at_home else both.remote_namespace
    async with cluster.kubectl_process(
        "port-forward", "web", f":{port}", f"-n={namespace}", "--address=127.0.0.1"
    ) as process:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        found = re.search(r"127\.0\.0\.1:(\d+) ->", line)
        assert found is not None, line
        yield process, int(found[1])


async def _ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        async with asyncio.timeout(30):
            return await reader.read()
    finally:
        writer.close()


async def test_port_forward(both: Both) -> None:
    answers = []
    for at_home in (False, True):
        async with _forward(both, 8080, at_home=at_home) as (_, port):
            answers.append(await _ask(port, b"GET /big HTTP/1.0\r\n\r\n"))
    direct, through = (answer.partition(b"\r\n\r\n")[2] for answer in answers)
    assert len(through) == 6_000_000
    assert through == direct


async def test_port_forward_of_many_connections_at_once(both: Both) -> None:
    async with _forward(both, 8080, at_home=True) as (_, port), asyncio.TaskGroup() as group:
        asked = [group.create_task(_ask(port, b"GET /big HTTP/1.0\r\n\r\n")) for _ in range(10)]
    answers = {task.result().partition(b"\r\n\r\n")[2] for task in asked}
    assert [len(answer) for answer in answers] == [6_000_000]


async def test_port_forward_to_a_closed_port(both: Both) -> None:
    """RIGHT["closed port"]: the connection ends as it does directly, and kubectl goes on."""
    async with _forward(both, 9, at_home=False) as (kubectl, port):
        assert await _ask(port, b"x") == b""
        assert kubectl.stderr is not None
        assert b"connection refused" in await kubectl.stderr.readline()
    async with _forward(both, 9, at_home=True) as (kubectl, port):
        for _ in range(3):
            assert await _ask(port, b"x") == b""
        assert kubectl.returncode is None


@pytest.mark.parametrize("pod", ["none", "ended", "initializing"])
async def test_port_forward_to_what_does_not_run(both: Both, pod: str) -> None:
    direct, through = await both.run("port-forward", pod, ":80", "--pod-running-timeout=1s")
    assert through == direct
