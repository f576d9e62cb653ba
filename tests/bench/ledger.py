"""The ledger of a big remote cluster: how long the first sync takes, memory, cost of an event."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.bench.children import run_module
from tests.bench.figures import BenchError, Figure
from tests.bench.remote_api import SIZES, VERSION
from tests.bench.remote_process import run_remote_api, write_kubeconfig
from vkubelet.kube.quantity import parse_quantity

NODES, PODS = 5_000, 150_000
QUICK_NODES, QUICK_PODS = 500, 15_000
EVENTS = 20_000
SETTLE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is measured: how many events come, and what the ledger has to tell before."""

    name: str
    events: int
    virtual_nodes: int
    free_cpu: float


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
    arguments = (f"--kubeconfig={kubeconfig}", f"--mapping={mapping}")
    async with run_module(
        "tests.bench.ledger_process", *arguments, stdin=asyncio.subprocess.PIPE
    ) as process:
        yield Measured(process)


async def run(*, quick: bool) -> list[Figure]:
    """Measure it."""
    nodes, pods = (QUICK_NODES, QUICK_PODS) if quick else (NODES, PODS)
    figures: list[Figure] = []
    async with run_remote_api(nodes=nodes, pods=pods) as url:
        with tempfile.TemporaryDirectory(prefix="vkubelet-bench-") as folder:
            kubeconfig = write_kubeconfig(Path(folder), url)
            for mapping in ("cluster", "per-node"):
                case = Case(
                    name=f"ledger, {nodes} nodes, {pods} pods, {mapping}",
                    events=EVENTS // (10 if quick else 1),
                    virtual_nodes=nodes if mapping == "per-node" else 1,
                    free_cpu=_free_cpu(nodes, pods),
                )
                async with _run_measured(kubeconfig, mapping) as measured:
                    figures += await _measure(case, measured, url)
    return figures


def _free_cpu(nodes: int, pods: int) -> float:
    """What the pods leave of the physical nodes, counted from scratch."""
    sizes = (SIZES[(number + VERSION) % len(SIZES)][0] for number in range(pods))
    return nodes * 64 - float(sum(map(parse_quantity, sizes)))


def _check(case: Case, report: Mapping[str, Any]) -> None:
    """See that the ledger has counted everything, and just once."""
    found, free_cpu = report["virtual_nodes"], report["free_cpu"]
    if found != case.virtual_nodes or abs(free_cpu - case.free_cpu) > 0.001:
        raise BenchError(
            f"{case.name}: {found} virtual nodes with {free_cpu} CPUs free,"
            f" rather than {case.virtual_nodes} with {case.free_cpu}"
        )


async def _measure(case: Case, measured: Measured, url: str) -> list[Figure]:
    synced = await measured.read()
    await asyncio.sleep(SETTLE_SECONDS)
    before = await measured.ask()
    _check(case, before)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        await session.post(f"{url}/bench/events", params={"count": str(case.events)})
    await asyncio.sleep(SETTLE_SECONDS)
    after = await measured.ask()
    cost = (after["cpu_seconds"] - before["cpu_seconds"]) / case.events * 1e6
    counted = (await measured.ask(events=case.events))["event_us"]

    def figure(
        name: str, value: float, unit: str, target: float | None = None, *, steady: bool = False
    ) -> Figure:
        return Figure(
            bench=case.name, name=name, value=value, unit=unit, target=target, steady=steady
        )

    return [
        figure("first sync", synced["seconds"], "s", 30),
        figure("CPU of the sync", synced["cpu_seconds"], "s"),
        figure("memory", before["rss_mib"], "MiB", 250, steady=True),
        figure("a pod event, decoded and counted", counted, "µs CPU", 50),
        figure("the same with HTTP, Store and virtual nodes", cost, "µs CPU"),
    ]
