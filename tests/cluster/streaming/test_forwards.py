"""Port-forwards, in each way and with each client."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.cluster.streaming.legs import Client, Shell

pytestmark = pytest.mark.cluster

CONNECTIONS = 60


@asynccontextmanager
async def forward(shell: Shell, client: Client, port: int) -> AsyncIterator[int]:
    """Run kubectl port-forward; gives the local port, and checks that kubectl lived on."""
    args = ("port-forward", "pod/server", f"-n={shell.namespace}", f":{port}")
    async with shell.leg.cluster.kubectl_process(
        *args, "--address=127.0.0.1", env=client.environment
    ) as process:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("Forwarding from 127.0.0.1:"), line
        yield int(line.split("127.0.0.1:")[1].split()[0])
        assert process.returncode is None


async def ask(port: int, data: bytes) -> None:
    """Send, half-close, and check the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    writer.write_eof()
    answer = await reader.read(-1)
    writer.close()
    assert answer == hashlib.sha256(data).hexdigest().encode() + data


async def test_many_at_once_and_one_after_another(
    shell: Shell, client: Client, server: int
) -> None:
    async with forward(shell, client, server) as port, asyncio.timeout(60):
        async with asyncio.TaskGroup() as group:
            for number in range(CONNECTIONS):
                group.create_task(ask(port, os.urandom(1000 * number)))
        for _ in range(CONNECTIONS):
            await ask(port, b"short")
        await ask(port, os.urandom(4_000_000))


async def test_one_that_is_cut_leaves_the_others(shell: Shell, client: Client, server: int) -> None:
    async with forward(shell, client, server) as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"never finished")
        await writer.drain()
        await ask(port, b"beside it")
        writer.transport.abort()
        await ask(port, b"after it")
        del reader
