"""The ledger of a big remote cluster: how long the first sync takes, memory, cost of an event."""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.bench.figures import Figure
from tests.bench.remote_process import run_remote_api, write_kubeconfig
from tests.cluster.peering import build_environment

NODES, PODS = 5_000, 150_000
QUICK_NODES, QUICK_PODS = 500, 15_000
EVENTS = 20_000
SETTLE_SECONDS = 2.0


@dataclass
class Measured:
    """The process that is measured."""

    process: asyncio.subprocess.Process

    async def read(self) -> dict[str, Any]:
        """Read its next report."""
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        assert line, "the measured process has ended"
        return dict(msgspec.json.decode(line))

    async def ask(self, *, events: int = 0) -> dict[str, Any]:
        """Have it report now, and count so many events by itself."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"%d\n" % events)
        await self.process.stdin.drain()
        return await self.read()


@contextlib.asynccontextmanager
async def _run_measured(kubeconfig: Path, mapping: str) -> AsyncIterator[Measured]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.ledger_process"),
        *(f"--kubeconfig={kubeconfig}", f"--mapping={mapping}"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=build_environment(),
    )
    try:
        yield Measured(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def run(*, quick: bool) -> list[Figure]:
    """Measure it."""
    nodes, pods = (QUICK_NODES, QUICK_PODS) if quick else (NODES, PODS)
    figures: list[Figure] = []
    async with run_remote_api(nodes=nodes, pods=pods) as url:
        with tempfile.TemporaryDirectory(prefix="vkubelet-bench-") as folder:
            kubeconfig = write_kubeconfig(Path(folder), url)
            for mapping in ("cluster", "per-node"):
                bench = f"ledger, {nodes} nodes, {pods} pods, {mapping}"
                async with _run_measured(kubeconfig, mapping) as measured:
                    figures += await _measure(bench, measured, url, EVENTS // (10 if quick else 1))
    return figures


async def _measure(bench: str, measured: Measured, url: str, events: int) -> list[Figure]:
    synced = await measured.read()
    await asyncio.sleep(SETTLE_SECONDS)
    before = await measured.ask()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        await session.post(f"{url}/bench/events", params={"count": str(events)})
    await asyncio.sleep(SETTLE_SECONDS)
    after = await measured.ask()
    cost = (after["cpu_seconds"] - before["cpu_seconds"]) / events * 1e6
    counted = (await measured.ask(events=events))["event_us"]

    def figure(name: str, value: float, unit: str, target: float | None = None) -> Figure:
        return Figure(bench=bench, name=name, value=value, unit=unit, target=target)

    return [
        figure("first sync", synced["seconds"], "s", 30),
        figure("CPU of the sync", synced["cpu_seconds"], "s"),
        figure("memory", before["rss_mib"], "MiB", 250),
        figure("a pod event, decoded and counted", counted, "µs CPU", 50),
        figure("the same with HTTP, Store and virtual nodes", cost, "µs CPU"),
    ]
