"""Port-forwards: to the remote pod directly, and through the virtual node, on either leg."""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import pytest

from tests.e2e.differential import Both, Side
from tests.e2e.pods import BIG_FILE_BYTES, CLOSED_PORT, ECHO_PORT, WEB_PORT

pytestmark = pytest.mark.e2e

_TIMEOUT_SECONDS = 60
_REQUEST = b"GET /big HTTP/1.0\r\n\r\n"
_MANY = 60
_ECHOED_BYTES = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A running `kubectl port-forward`, and where it listens, by the pod's port."""

    kubectl: asyncio.subprocess.Process
    ports: Mapping[int, int]


@contextlib.asynccontextmanager
async def _forward(side: Side, *ports: int, env: Mapping[str, str]) -> AsyncIterator[Forward]:
    """Forward ports of the pod `web`."""
    args = ["port-forward", "web", *(f":{port}" for port in ports), "--address=127.0.0.1"]
    async with side.open(*args, env=env) as kubectl:
        assert kubectl.stdout is not None
        found = {}
        for port in ports:
            line = (await kubectl.stdout.readline()).decode()
            match = re.search(r"127\.0\.0\.1:(\d+) -> (\d+)", line)
            assert match is not None, line
            assert int(match[2]) == port
            found[port] = int(match[1])
        yield Forward(kubectl=kubectl, ports=found)


@contextlib.asynccontextmanager
async def _connect(
    port: int,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            yield reader, writer
    finally:
        writer.close()


async def _ask(port: int, request: bytes) -> bytes:
    """Send something, and return all that comes."""
    async with _connect(port) as (reader, writer):
        writer.write(request)
        return await reader.read()


async def test_download(leg: Both, client: Mapping[str, str]) -> None:
    answers = []
    for side in (leg.direct, leg.through):
        async with _forward(side, WEB_PORT, env=client) as forward:
            answers.append(await _ask(forward.ports[WEB_PORT], _REQUEST))
    direct, through = (answer.partition(b"\r\n\r\n")[2] for answer in answers)
    assert len(through) == BIG_FILE_BYTES
    assert through == direct


async def test_upload_and_half_close(leg: Both, client: Mapping[str, str]) -> None:
    """What is sent comes back whole, after our direction has ended."""
    sent = os.urandom(_ECHOED_BYTES)
    async with (
        _forward(leg.through, ECHO_PORT, env=client) as forward,
        _connect(forward.ports[ECHO_PORT]) as (reader, writer),
        asyncio.TaskGroup() as group,
    ):
        received = group.create_task(reader.read())
        writer.write(sent)
        await writer.drain()
        writer.write_eof()
    assert received.result() == sent


async def test_two_ports_and_many_connections(leg: Both, client: Mapping[str, str]) -> None:
    async with (
        _forward(leg.through, WEB_PORT, ECHO_PORT, env=client) as forward,
        _connect(forward.ports[ECHO_PORT]) as (reader, writer),
    ):
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(_ask(forward.ports[WEB_PORT], b"GET /small HTTP/1.0\r\n\r\n"))
                for _ in range(_MANY)
            ]
            asked += [group.create_task(_ask(forward.ports[WEB_PORT], _REQUEST)) for _ in range(5)]
        writer.write(b"still here\n")
        assert await reader.readline() == b"still here\n"
    bodies = [task.result().partition(b"\r\n\r\n")[2] for task in asked]
    assert set(bodies[:_MANY]) == {b"small\n"}
    assert {len(body) for body in bodies[_MANY:]} == {BIG_FILE_BYTES}


async def test_connections_that_are_left(leg: Both, client: Mapping[str, str]) -> None:
    """Some callers leave in the middle; the others don't notice."""
    async with _forward(leg.through, WEB_PORT, env=client) as forward:
        port = forward.ports[WEB_PORT]
        for _ in range(10):
            async with _connect(port) as (reader, writer):
                writer.write(_REQUEST)
                await reader.readexactly(1000)
                writer.transport.abort()
        assert len(await _ask(port, _REQUEST)) > BIG_FILE_BYTES
        assert forward.kubectl.returncode is None


async def test_closed_port(leg: Both, client: Mapping[str, str]) -> None:
    """RIGHT["closed port"]."""
    async with _forward(leg.direct, CLOSED_PORT, env=client) as forward:
        assert await _ask(forward.ports[CLOSED_PORT], b"x") == b""
        assert forward.kubectl.stderr is not None
        assert b"connection refused" in await forward.kubectl.stderr.readline()
    async with (
        _forward(leg.through, CLOSED_PORT, ECHO_PORT, env=client) as forward,
        _connect(forward.ports[ECHO_PORT]) as (reader, writer),
    ):
        for _ in range(3):
            assert await _ask(forward.ports[CLOSED_PORT], b"x") == b""
            writer.write(b"still here\n")
            assert await reader.readline() == b"still here\n"
        assert forward.kubectl.returncode is None


@pytest.mark.parametrize("pod", ["none", "ended", "initializing", "no-image"])
async def test_what_does_not_run(leg: Both, pod: str, client: Mapping[str, str]) -> None:
    direct, through = await leg.run(
        "port-forward", pod, ":80", "--pod-running-timeout=1s", env=client
    )
    assert through == direct
