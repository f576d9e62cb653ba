"""Hostile users at the kubelet's port: the process bears them, and serves the others meanwhile."""

import asyncio
import contextlib
import random
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.peering import Vkubelet
from tests.cluster.product.cloud import NODE, get, run_pod
from tests.cluster.waiting import wait_until
from tests.vkubelet.server.spdy_client import UPGRADE, SpdyClient, request
from vkubelet.streaming.spdy.headers import DICTIONARY

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

_MEBIBYTE = 1 << 20
_STRANGERS = 10_000
_SECONDS = 30
_WEBSOCKET = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
)
_COMMAND = "exec/{namespace}/victim/main?command=cat&input=1&output=1&error=1"
_UPGRADES = {
    "spdy-exec": ("POST", _COMMAND, UPGRADE, ["v4.channel.k8s.io"]),
    "websocket-exec": (
        "GET",
        _COMMAND,
        (*_WEBSOCKET, ("Sec-WebSocket-Protocol", "v5.channel.k8s.io")),
        [],
    ),
    "spdy-forward": (
        "POST",
        "portForward/{namespace}/victim",
        UPGRADE,
        ["portforward.k8s.io"],
    ),
    "tunnel-forward": (
        "GET",
        "portForward/{namespace}/victim",
        (*_WEBSOCKET, ("Sec-WebSocket-Protocol", "SPDY/3.1+portforward.k8s.io")),
        [],
    ),
    "websocket-forward": (
        "GET",
        "portForward/{namespace}/victim?port=80",
        (*_WEBSOCKET, ("Sec-WebSocket-Protocol", "v4.channel.k8s.io")),
        [],
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A pod on the virtual node, and a certificate that may do everything there."""

    home: Cluster
    vkubelet: Vkubelet
    namespace: str
    port: int
    context: ssl.SSLContext

    @contextlib.asynccontextmanager
    async def upgrade(
        self, kind: str
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Leave HTTP for one of `_UPGRADES`."""
        method, path, headers, protocols = _UPGRADES[kind]
        reader, writer, head = await request(
            self.port,
            self.context,
            "/" + path.format(namespace=self.namespace),
            method=method,
            headers=headers,
            protocols=protocols,
        )
        try:
            assert head.startswith("HTTP/1.1 101 "), head
            async with asyncio.timeout(_SECONDS):
                yield reader, writer
        finally:
            writer.transport.abort()

    def read_memory(self) -> int:
        """Bytes that the process takes."""
        assert self.vkubelet.component is not None
        status = Path(f"/proc/{self.vkubelet.component.pid}/status").read_text()
        match = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert match is not None
        return int(match[1]) * 1024

    async def check_well(self) -> None:
        """See that others are served, no stream is left over, and nothing went wrong inside."""
        done = await self.home.kubectl("exec", "victim", f"-n={self.namespace}", "--", "echo", "ok")
        assert done.stdout == "ok\n"

        async def closed() -> bool:
            metrics = await self.vkubelet.read_metrics()
            found = re.findall(r"^vkubelet_streams_open\S* (\S+)$", metrics, re.MULTILINE)
            assert found
            return sum(map(float, found)) == 0

        await wait_until(closed, "all streams end", timeout_seconds=_SECONDS)
        assert self.vkubelet.component is not None
        assert self.vkubelet.component.exit_code is None
        assert "Traceback" not in self.vkubelet.component.log.read_text()


@pytest_asyncio.fixture(loop_scope="session")
async def target(home: Cluster, vkubelet: Vkubelet, namespace: str) -> Target:
    await run_pod(home, "victim", namespace)
    node = await get(home, "node", NODE)
    context = ssl.create_default_context(cadata=home.serving_ca.certificate.decode())
    pair = home.client_ca.issue_client("hostile", ["system:masters"])
    context.load_cert_chain(*pair.write(home.folder, "hostile"))
    return Target(
        home=home,
        vkubelet=vkubelet,
        namespace=namespace,
        port=node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"],
        context=context,
    )


async def _pour(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Send as much as is taken."""
    with contextlib.suppress(ConnectionError):
        writer.write(data)
        await writer.drain()


async def _read_to_end(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while await reader.read(65536):
            pass


@pytest.mark.parametrize("kind", _UPGRADES)
async def test_rubbish_after_the_upgrade(target: Target, kind: str) -> None:
    chance = random.Random(kind)
    for size in (1, 7, 100, 65_536):
        async with target.upgrade(kind) as (reader, writer):
            await _pour(writer, chance.randbytes(size))
            with contextlib.suppress(TimeoutError):  # it may be the start of something
                async with asyncio.timeout(1):
                    await _read_to_end(reader)
    await target.check_well()


async def test_header_block_bomb(target: Target) -> None:
    before = target.read_memory()
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 15, 8, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
    block = squeeze.compress(bytes(60 * _MEBIBYTE)) + squeeze.flush(zlib.Z_SYNC_FLUSH)
    payload = (1).to_bytes(4, "big") + bytes(6) + block
    assert len(payload) < 65_536, "it would be refused for its size alone"
    frame = b"\x80\x03\x00\x01\x00" + len(payload).to_bytes(3, "big") + payload
    for _ in range(5):
        async with target.upgrade("spdy-exec") as (reader, writer):
            await _pour(writer, frame)
            await _read_to_end(reader)
    assert target.read_memory() - before < 20 * _MEBIBYTE
    await target.check_well()


async def test_two_error_streams(target: Target) -> None:
    async with target.upgrade("spdy-exec") as (reader, writer):
        client = SpdyClient(reader, writer)
        for number, stream in enumerate(["error", "error", "stdin", "stdout", "stderr"]):
            client.ids[stream] = client.spdy.open_stream([("streamtype", stream)])
            client.names[client.ids[stream]] = f"{stream}-{number}"
            client.output[f"{stream}-{number}"] = bytearray()
        client.flush()
        while "error-1" not in client.reset:
            await client.read()
        client.spdy.send_data(client.ids["stdin"], b"said", fin=True)
        client.flush()
        while not client.going_away:
            await client.read()
        assert client.output["stdout-3"] == b"said"
        assert b'"Success"' in client.output["error-0"]
    await target.check_well()


@pytest.mark.parametrize("size", [900_000, _MEBIBYTE + 1])
async def test_command_line_of_a_mebibyte(target: Target, size: int) -> None:
    query = urlencode([("command", "echo"), ("command", "x" * size), ("output", "1")])
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port, ssl=target.context)
    path = f"/exec/{target.namespace}/victim/main?{query}"
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Content-Length: 0"]
    lines += [f"{name}: {value}" for name, value in UPGRADE]
    lines += ["X-Stream-Protocol-Version: v4.channel.k8s.io", "", ""]
    async with asyncio.timeout(_SECONDS):
        await _pour(writer, "\r\n".join(lines).encode())
        status = (await reader.readline()).split()[1]
    writer.transport.abort()
    assert status == (b"101" if size < _MEBIBYTE else b"400")
    await target.check_well()


def _connect(port: int, number: int) -> Sequence[socket.socket]:
    """Connect so often; each says a little of a handshake, and no more."""
    opened = []
    for _ in range(number):
        connection = socket.create_connection(("127.0.0.1", port), timeout=_SECONDS)
        opened.append(connection)
        with contextlib.suppress(OSError):  # it's cut off already
            connection.send(b"\x16\x03\x01\x02\x00")
    return opened


async def test_ten_thousand_connections_that_say_nothing(target: Target) -> None:
    await target.check_well()
    before = target.read_memory()
    opened = await asyncio.to_thread(_connect, target.port, _STRANGERS)
    try:
        assert target.read_memory() - before < 150 * _MEBIBYTE
        await target.check_well()
        logs = await target.home.kubectl("logs", "victim", f"-n={target.namespace}")
        assert logs.stdout == "started\n"
    finally:
        for connection in opened:
            connection.close()
    await target.check_well()
