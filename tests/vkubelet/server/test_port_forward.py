import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.vkubelet.server.forward_client import connect_forward
from tests.vkubelet.server.harness import POD, Harness, serve
from tests.vkubelet.server.pod_port import Pod, echo
from tests.vkubelet.server.spdy_client import UPGRADE, request
from tests.vkubelet.server.websocket_client import HANDSHAKE, connect, connect_tunnel
from vkubelet.errors import RequestError
from vkubelet.server.port_forward import parse_ports
from vkubelet.streaming.channels import PROTOCOL_BASE64_V4, PROTOCOL_V4, PROTOCOL_V5
from vkubelet.streaming.portforward import PORT_FORWARD_PROTOCOL, ForwardReceived
from vkubelet.streaming.portforward_client import ForwardFailed, ForwardReady

pytestmark = pytest.mark.virtual_time

PATH = "/portForward/ns/pod"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[Harness, None]:
    async with serve(tmp_path) as harness:
        harness.provider.dial = echo
        yield harness


@pytest.mark.parametrize("path", [PATH, f"{PATH}/uid-1"])
async def test_spdy(node: Harness, path: str) -> None:
    async with connect_forward(node.server.port, node.context(), path) as client:
        forward = await client.open(80)
        client.send(forward, b"hello")
        assert await client.read_output(forward, 5) == b"hello"


async def test_tunnel(node: Harness) -> None:
    async with connect_tunnel(node.server.port, node.context(), PATH) as client:
        forward = client.forwards.open(80)
        client.flush()
        events = []
        while ForwardReady(forward) not in events:
            events += await client.read()
        data = bytes(range(256)) * 500
        client.forwards.send_data(forward, data)
        client.flush()
        received = b""
        while len(received) < len(data):
            new = await client.read()
            received += b"".join(e.data for e in new if isinstance(e, ForwardReceived))
        assert received == data
        client.client.websocket.send_ping()
        client.client.websocket.send_close()
        client.flush()
        while client.client.close_code is None:
            await client.client.read()
        assert (client.client.close_code, client.client.pongs) == (1000, 1)


async def test_tunnel_of_a_server_that_stops(node: Harness) -> None:
    async with connect_tunnel(node.server.port, node.context(), PATH) as client:
        forward = client.forwards.open(80)
        client.flush()
        events = []
        while ForwardReady(forward) not in events:
            events += await client.read()
        node.server.streams.interrupt_all("the node is shutting down")
        while client.client.close_code is None:
            events += await client.read()
        assert ForwardFailed(forward, "the node is shutting down") in events
        assert client.client.close_code == 1000


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ([PROTOCOL_V5, PROTOCOL_V4], PROTOCOL_V4),
        ([PROTOCOL_BASE64_V4], PROTOCOL_BASE64_V4),
        ([], ""),
    ],
)
async def test_channels(node: Harness, offered: list[str], chosen: str) -> None:
    path = f"{PATH}?port=80,81&port=4660"
    async with connect(node.server.port, node.context(), path, protocols=offered) as client:
        assert client.protocol == chosen
        while len(client.order) < 6:
            await client.read()
        assert client.order == [0, 1, 2, 3, 4, 5]
        assert client.output[4] == client.output[5] == b"\x34\x12"
        client.send(2, b"to 81\xff")
        assert await client.read_output(2, 8) == b"\x51\x00to 81\xff"
    assert [port for _, port in node.provider.forward_requests] == [80, 81, 4660]


async def test_channels_end_with_the_last_port(node: Harness) -> None:
    pod = Pod()
    pod.closed_ports.add(81)
    node.provider.dial = pod.dial
    path = f"{PATH}?port=80,81"
    async with connect(node.server.port, node.context(), path, protocols=[PROTOCOL_V4]) as client:
        assert b"connection refused" in await client.read_output(3, 20)
        (await pod.wait_stream()).say(b"bye")
        pod.streams[0].say(b"")
        await client.read_close()
        assert client.close_code == 1000
        assert client.output[0] == b"\x50\x00bye"
        await pod.streams[0].closed.wait()


async def test_a_client_of_channels_that_vanishes(node: Harness) -> None:
    pod = Pod()
    node.provider.dial = pod.dial
    path = f"{PATH}?port=80"
    async with connect(node.server.port, node.context(), path, protocols=[PROTOCOL_V4]) as client:
        stream = await pod.wait_stream()
        client.vanish()
        async with asyncio.timeout(3):
            await stream.closed.wait()


@dataclass(frozen=True)
class Refused:
    """A request that is refused, and what it gets."""

    path: str
    code: int
    message: str
    headers: tuple[tuple[str, str], ...] = UPGRADE
    protocols: tuple[str, ...] = (PORT_FORWARD_PROTOCOL,)


def offer(*protocols: str) -> tuple[tuple[str, str], ...]:
    return (*HANDSHAKE, *(("Sec-WebSocket-Protocol", name) for name in protocols))


@pytest.mark.parametrize(
    "case",
    [
        Refused("/portForward/ns/other", 404, "pod does not exist"),
        Refused(f"{PATH}/uid-2", 404, "pod not found"),
        Refused(PATH, 403, "unable to negotiate protocol", protocols=("v4.channel.k8s.io",)),
        Refused(PATH, 403, "unable to negotiate protocol", headers=offer(PROTOCOL_V5)),
        Refused(PATH, 400, 'query parameter "port" is required', headers=offer(PROTOCOL_V4)),
        Refused(f"{PATH}?port=x", 400, "unable to parse 'x' as a port", headers=offer()),
    ],
    ids=lambda case: f"{case.code}-{case.message[:24]}",
)
async def test_refused(node: Harness, case: Refused) -> None:
    reader, writer, head = await request(
        node.server.port,
        node.context(),
        case.path,
        method="GET",
        headers=case.headers,
        protocols=case.protocols,
    )
    assert head.startswith(f"HTTP/1.1 {case.code} ")
    length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
    status = json.loads(await reader.readexactly(length))
    writer.transport.abort()
    assert case.message in status["message"]
    assert not node.provider.forward_requests


def test_ports() -> None:
    assert parse_ports({"port": ["80,443", "1"]}, 128) == [80, 443, 1]
    for values, limit in ((["0"], 9), (["65536"], 9), ([","], 9), (["1,2"], 1)):
        with pytest.raises(RequestError):
            parse_ports({"port": values}, limit)


async def test_pod_that_has_ended(node: Harness) -> None:
    node.pods.pod = {**POD, "status": {"phase": "Failed"}}
    reader, writer, head = await request(
        node.server.port, node.context(), PATH, protocols=(PORT_FORWARD_PROTOCOL,)
    )
    assert head.startswith("HTTP/1.1 500 ")
    assert b'pod not found (\\"pod_ns\\")' in await reader.read(1000)
    writer.transport.abort()
    assert not node.provider.forward_requests
