"""Probes and metrics of the process."""

import asyncio
import socket

import aiohttp
import pytest

from provider.checks import ListenAddress
from provider.errors import StartError
from provider.health import HealthServer


def find_free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


async def ask(port: int, path: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_live_from_the_start_and_ready_when_it_is() -> None:
    why = "waiting for the lock that other_1 holds"
    port = find_free_port()
    async with HealthServer(ListenAddress("127.0.0.1", port), lambda: why).serve():
        assert await ask(port, "/livez") == (200, "ok\n")
        assert await ask(port, "/readyz") == (503, f"not ready: {why}\n")
        why = ""
        assert await ask(port, "/readyz") == (200, "ok\n")


async def test_metrics_are_prometheus_text() -> None:
    port = find_free_port()
    async with HealthServer(ListenAddress("127.0.0.1", port), str).serve():
        status, text = await ask(port, "/metrics")
    assert status == 200
    assert "# TYPE process_cpu_seconds_total counter" in text


async def test_metrics_tell_of_tasks() -> None:
    port = find_free_port()
    async with (
        HealthServer(ListenAddress("127.0.0.1", port), str).serve(),
        asyncio.TaskGroup() as group,
    ):
        before = await count_tasks(port)
        tasks = [group.create_task(asyncio.Event().wait()) for _ in range(7)]
        assert await count_tasks(port) == before + len(tasks)
        for task in tasks:
            task.cancel()


async def count_tasks(port: int) -> float:
    _, text = await ask(port, "/metrics")
    (line,) = (item for item in text.splitlines() if item.startswith("vkubelet_tasks"))
    return float(line.split()[1])


async def test_a_port_in_use_is_named_by_its_flag() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        health = HealthServer(ListenAddress("127.0.0.1", port), str)
        with pytest.raises(StartError, match=f"--health-address 127.0.0.1:{port}: can't listen"):
            async with health.serve():
                pass


async def test_rubbish_leaves_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    port = find_free_port()
    async with HealthServer(ListenAddress("127.0.0.1", port), str).serve():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nno header\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.0 400 ")
        writer.close()
        await writer.wait_closed()
    assert not caplog.records
