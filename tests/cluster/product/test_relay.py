"""attach, cp and port-forward through both API servers."""

import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.processes import ReservedPort
from tests.cluster.product.cloud import run_pod
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("vkubelet")]

CLIENTS = ("websocket", "spdy")
SIZE = 20_000_000


def build_environment(client: str) -> dict[str, str]:
    """Have kubectl speak one protocol."""
    value = "true" if client == "websocket" else "false"
    return {
        "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": value,
        "KUBECTL_PORT_FORWARD_WEBSOCKETS": value,
    }


def find_port() -> int:
    """Find a free port: processes have the machine's network."""
    port = ReservedPort()
    port.close()
    return port.number


@asynccontextmanager
async def forward(
    home: Cluster, namespace: str, name: str, port: int, client: str
) -> AsyncIterator[tuple[int, asyncio.subprocess.Process]]:
    """Run kubectl port-forward; gives the local port."""
    args = ("port-forward", f"pod/{name}", f"-n={namespace}", f":{port}", "--address=127.0.0.1")
    async with home.kubectl_process(*args, env=build_environment(client)) as process:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("Forwarding from 127.0.0.1:"), line
        yield int(line.split("127.0.0.1:")[1].split()[0]), process


@pytest.mark.parametrize("client", CLIENTS)
async def test_port_forward(home: Cluster, namespace: str, client: str) -> None:
    port = find_port()
    server = [sys.executable, "-u", "-m", "http.server", str(port), "--bind=127.0.0.1"]
    prepare = f"head -c {SIZE} /dev/urandom >file; exec {' '.join(server)}"
    await run_pod(home, "server", namespace, command=["sh", "-c", prepare])
    path = f"-n={namespace}"

    async def listening() -> bool:
        logs = await home.kubectl("logs", "server", path)
        return "Serving HTTP" in logs.stdout

    await wait_until(listening, "the server in the pod", timeout_seconds=20)
    summed = await home.kubectl("exec", "server", path, "--", "sha256sum", "file")
    expected = summed.stdout.split()[0]
    async with (
        forward(home, namespace, "server", port, client) as (local, process),
        aiohttp.ClientSession(f"http://127.0.0.1:{local}") as session,
        asyncio.TaskGroup() as group,
    ):

        async def fetch() -> None:
            async with session.get("/file") as response:
                body = await response.read()
            assert hashlib.sha256(body).hexdigest() == expected

        for _ in range(5):
            group.create_task(fetch())
    assert process.returncode is None or process.returncode < 0


@pytest.mark.parametrize("client", CLIENTS)
async def test_port_that_nobody_listens_on(home: Cluster, namespace: str, client: str) -> None:
    await run_pod(home, "deaf", namespace)
    port = find_port()
    async with forward(home, namespace, "deaf", port, client) as (local, process):
        reader, writer = await asyncio.open_connection("127.0.0.1", local)
        writer.write(b"anybody?")
        async with asyncio.timeout(20):
            assert await reader.read() == b""
            assert process.stderr is not None
            text = (await process.stderr.readline()).decode()
        writer.close()
    assert f"forwarding {local} -> {port}" in text or f"port {port}" in text
    assert f"{namespace}-" not in text


@pytest.mark.parametrize("client", CLIENTS)
async def test_attach(home: Cluster, namespace: str, client: str) -> None:
    container = {
        "name": "main",
        "image": "any",
        "stdin": True,
        "stdinOnce": True,
        "command": ["sh", "-c", 'while read line; do echo "got $line"; done; echo over'],
    }
    await run_pod(home, "listener", namespace, containers=[container], restartPolicy="Never")
    args = ("attach", "-i", "listener", f"-n={namespace}", "--pod-running-timeout=20s")
    done = await home.kubectl(*args, stdin="one\ntwo\n", env=build_environment(client))
    assert done.stdout.splitlines()[-3:] == ["got one", "got two", "over"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_cp(home: Cluster, namespace: str, client: str, tmp_path: Path) -> None:
    await run_pod(home, "files", namespace)
    source, back = tmp_path / "there", tmp_path / "back"
    source.write_bytes(bytes(range(256)) * (SIZE // 256))
    env = build_environment(client)
    folder = await home.kubectl("exec", "files", f"-n={namespace}", "--", "pwd")
    path = f"{namespace}/files:{folder.stdout.strip()}/copy"
    await home.kubectl("cp", str(source), path, env=env, timeout=60)
    await home.kubectl("cp", path, str(back), env=env, timeout=60)
    assert back.read_bytes() == source.read_bytes()
