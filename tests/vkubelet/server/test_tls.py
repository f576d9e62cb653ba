import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import aiohttp
import pytest

from tests.vkubelet.server.harness import (
    CLIENT_CA,
    MASTERS,
    OTHER_CA,
    Harness,
    issue_serving,
    serve,
)
from tests.vkubelet.server.spdy_client import build_path, connect
from vkubelet.interface import CommandStreams, ExitStatus
from vkubelet.streaming.channels import CommandStatus

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Harness, None]:
    async with serve(tmp_path) as harness:
        yield harness


async def get_health(node: Harness, context: ssl.SSLContext) -> int:
    async with node.http(context) as http, http.get("/healthz") as response:
        return response.status


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(-1)
    except ConnectionError:
        return b""


async def test_h2_is_never_offered(node: Harness) -> None:
    context = node.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection("127.0.0.1", node.server.port, ssl=context)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
    writer.transport.abort()


async def test_old_tls_is_refused(node: Harness) -> None:
    context = node.context()
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", node.server.port, ssl=context)


async def test_certificate_of_another_ca_is_refused(
    node: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    context = node.context("kube-apiserver", [MASTERS], OTHER_CA)
    with caplog.at_level(logging.INFO), pytest.raises(aiohttp.ClientError):
        await get_health(node, context)
    assert not caplog.records  # daily fare


async def test_serving_certificate_is_no_client_certificate(node: Harness) -> None:
    context = node.context(None)
    context.load_cert_chain(CLIENT_CA.issue(node.folder, "server", [MASTERS], server=True))
    with pytest.raises(aiohttp.ClientError):
        await get_health(node, context)


class Shell:
    """A command that ends when it's told."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, streams: CommandStreams, _command: Sequence[str]) -> ExitStatus:
        await self.go.wait()
        await streams.write_stdout(b"done")
        return ExitStatus(0)


async def test_certificate_and_ca_are_replaced_under_an_open_stream(
    node: Harness, tmp_path: Path
) -> None:
    shell = Shell()
    node.provider.run_exec = shell
    async with connect(node.server.port, node.context(), build_path("sh")) as client:
        await client.open("error", "stdout", "stderr")
        (tmp_path / "new").mkdir()
        node.tls.replace_certificate(issue_serving(tmp_path / "new", "system:node:renewed"))
        node.tls.replace_client_ca(OTHER_CA.pem)
        other = node.context("other", [MASTERS], OTHER_CA)
        _, writer = await asyncio.open_connection("127.0.0.1", node.server.port, ssl=other)
        subject = dict(pair for (pair,) in writer.get_extra_info("peercert")["subject"])
        assert subject["commonName"] == "system:node:renewed"
        writer.transport.abort()
        assert await get_health(node, other) == 200
        with pytest.raises(aiohttp.ClientError):
            await get_health(node, node.context())
        shell.go.set()
        assert await client.finish() == CommandStatus(0)
        assert client.output["stdout"] == b"done"


async def test_new_client_ca_closes_idle_connections(node: Harness) -> None:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", node.server.port, ssl=node.context()
    )
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"\r\n\r\nok")
    node.tls.replace_client_ca(CLIENT_CA.pem)  # the same: nothing happens
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"\r\n\r\nok")
    node.tls.replace_client_ca(CLIENT_CA.pem + OTHER_CA.pem)
    assert await read_to_end(reader) == b""
    writer.close()
    assert await get_health(node, node.context()) == 200


async def test_without_client_ca_only_tokens_count(tmp_path: Path) -> None:
    async with serve(tmp_path, client_ca=None) as node:
        assert await get_health(node, node.context()) == 401
        node.tls.replace_client_ca(CLIENT_CA.pem)
        assert await get_health(node, node.context()) == 200
