"""The mock API servers, and `vkubelet run` between them, as child processes."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.bench.children import run_module
from tests.bench.figures import BenchError
from tests.cluster.processes import ReservedPort
from vkubelet.kube.access import load_kubeconfig
from vkubelet.kube.client import KubeClient

NODE = "cloud"
START_SECONDS = 60.0
POLL_SECONDS = 0.05


class MockServers:
    """
    Two mock API servers.

    Attributes:
        folder: Where their kubeconfigs are.
    """

    def __init__(self, folder: Path, home: KubeClient) -> None:
        self.folder = folder
        self._home = home

    async def ask(self, what: str, **query: object) -> dict[str, Any]:
        """Ask something of `tests.bench.mock.control`."""
        answer = await self._home.get_bytes(
            f"/bench/{what}", {name: str(value) for name, value in query.items()}
        )
        found: dict[str, Any] = msgspec.json.decode(answer)
        return found

    async def wait_shown(self, count: int, *, timeout_seconds: float) -> dict[str, Any]:
        """Wait until so many pods of those asked for are Running at home; returns the report."""
        deadline = time.monotonic() + timeout_seconds
        while (report := await self.ask("report"))["shown"] < count:
            if time.monotonic() > deadline:
                raise BenchError(f"{report['shown']} of {count} pods are Running in time")
            await asyncio.sleep(POLL_SECONDS)
        return await self.ask("report", times="true")


@contextlib.asynccontextmanager
async def run_mock_servers() -> AsyncIterator[MockServers]:
    """Run them."""
    with tempfile.TemporaryDirectory(prefix="vkubelet-bench-") as name:
        folder = Path(name)
        async with run_module("tests.bench.mock", name) as process:
            assert process.stdout is not None
            files = msgspec.json.decode(await process.stdout.readline(), type=tuple[str, str])
            async with KubeClient(await load_kubeconfig(Path(files[0]), None), name="home") as home:
                yield MockServers(folder, home)


class Product:
    """
    A `vkubelet run` process.

    Attributes:
        pid: Of the process.
        ready_seconds: How long it took to be ready.
    """

    def __init__(self, pid: int, health: str, session: aiohttp.ClientSession) -> None:
        self.pid = pid
        self.ready_seconds = 0.0
        self._health = health
        self._session = session

    async def wait_ready(self) -> None:
        """Wait for /readyz."""
        began = time.monotonic()
        while not await self._is_ready():
            if time.monotonic() > began + START_SECONDS:
                raise BenchError(f"vkubelet isn't ready within {START_SECONDS:g} s")
            await asyncio.sleep(POLL_SECONDS)
        self.ready_seconds = time.monotonic() - began

    async def _is_ready(self) -> bool:
        try:
            async with self._session.get(f"{self._health}/readyz") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    async def measure_lags(self, lags: list[float]) -> None:
        """Take down how long its loop lets an easy request wait, until cancelled; seconds."""
        while True:
            began = time.monotonic()
            async with self._session.get(f"{self._health}/livez") as response:
                await response.read()
            lags.append(time.monotonic() - began)
            await asyncio.sleep(POLL_SECONDS)


@contextlib.asynccontextmanager
async def run_product(servers: MockServers, *arguments: str) -> AsyncIterator[Product]:
    """Run the product between them, until ready; it's stopped as an operator stops it."""
    port = ReservedPort()
    port.close()
    command = _build_command(servers.folder, port.number)
    async with (
        aiohttp.ClientSession() as session,
        run_module("provider", *command, *arguments) as process,
    ):
        product = Product(process.pid, f"http://127.0.0.1:{port.number}", session)
        await product.wait_ready()
        yield product
        process.terminate()
        await process.communicate()


def _build_command(folder: Path, health_port: int) -> Sequence[str]:
    return (
        "run",
        f"--kubeconfig={folder / 'home.kubeconfig'}",
        f"--remote-kubeconfig={folder / 'remote.kubeconfig'}",
        f"--remote-cluster={NODE}",
        "--namespace=*",
        "--kubelet-address=127.0.0.1",
        "--kubelet-ports=20000-20009",
        f"--health-address=127.0.0.1:{health_port}",
        f"--data-dir={folder / 'data'}",
        "--certificates=self-signed",
        "--log-level=warning",
    )
