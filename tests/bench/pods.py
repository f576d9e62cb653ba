"""
Pods in large numbers, between two mock API servers that a pod takes 60 ms on.

A mock answers at once, and takes a third of the CPU that the product takes: so what limits is ours.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.figures import BenchError, Figure, Usage, read_usage
from tests.bench.mock_process import NODE, MockServers, Product, run_mock_servers, run_product

BURSTS = (1_000, 3_000, 10_000)
"""Pods that there are after each burst."""

QUICK_BURSTS = (500,)
DEPENDENTS, QUICK_DEPENDENTS = 3_000, 200
STEADY_RATE = 100.0
STEADY_SECONDS, QUICK_STEADY_SECONDS = 20.0, 3.0
IDLE_SECONDS, QUICK_IDLE_SECONDS = 20.0, 3.0
SETTLE_SECONDS = 3.0
TIMEOUT_SECONDS = 240.0
POD_WRITES = ("patch pods/status", "create pods", "patch pods", "delete pods", "create events")


@dataclass(frozen=True)
class Load:
    """
    Pods that came, and what they took.

    Attributes:
        count: Pods.
        seconds: From the first that was asked for to the last that was shown.
        cpu_seconds: Of our process.
        usage: Of our process afterwards.
        lags: How long an easy request had to wait; seconds.
        report: What the mock servers saw.
    """

    count: int
    seconds: float
    cpu_seconds: float
    usage: Usage
    lags: Sequence[float]
    report: dict[str, Any]

    def count_requests(self, cluster: str) -> float:
        """Requests a pod, without watches, Leases and Nodes."""
        found = self.report[cluster].items()
        others = ("watch", "leases", "nodes")
        counted: int = sum(n for what, n in found if not any(x in what for x in others))
        return counted / self.count

    def read_lag(self, name: str) -> float:
        """The 99th percentile of a lag; milliseconds."""
        lags: list[float] = self.report[name]
        return lags[min(len(lags) - 1, len(lags) * 99 // 100)] * 1000


async def run(*, quick: bool) -> list[Figure]:
    """Measure it."""
    figures: list[Figure] = []
    async with run_mock_servers() as servers:
        async with run_product(servers) as product:
            figures += await _measure_bursts(servers, product, quick=quick)
        figures += await _measure_restart(servers, (QUICK_BURSTS if quick else BURSTS)[-1])
    async with run_mock_servers() as servers, run_product(servers) as product:
        figures += await _measure_steady(servers, product, quick=quick)
    access = ("--api-access=home", "--home-api-server=home.example:6443")
    async with run_mock_servers() as servers, run_product(servers, *access) as product:
        count = QUICK_DEPENDENTS if quick else DEPENDENTS
        load = await load_pods(servers, product, count, dependents=True)
        rate = load.count / load.seconds
        bench = f"{count} pods at once, each with ConfigMap, Secret and token"
        figures += [
            Figure(bench=bench, name="pods", value=rate, unit="/s", target=300, at_least=True),
            Figure(bench=bench, name="CPU", value=_cpu(load), unit="ms a pod"),
        ]
    return figures


async def load_pods(
    servers: MockServers,
    product: Product,
    count: int,
    *,
    rate: float = 0.0,
    dependents: bool = False,
) -> Load:
    """Ask for pods, at once or so many a second, and wait until they are shown as Running."""
    await servers.ask("reset")
    before = read_usage(product.pid)
    async with _watch_lags(product) as lags:
        wanted = {"count": count, "rate": rate, "dependents": str(dependents).lower()}
        await servers.ask("load", node=NODE, **wanted)
        report = await servers.wait_shown(count, timeout_seconds=TIMEOUT_SECONDS)
    await asyncio.sleep(SETTLE_SECONDS)
    after = read_usage(product.pid)
    report |= {name: (await servers.ask("report"))[name] for name in ("home", "remote")}
    cpu = after.cpu_seconds - before.cpu_seconds
    return Load(count, report["seconds"], cpu, after, lags, report)


@contextlib.asynccontextmanager
async def _watch_lags(product: Product) -> AsyncIterator[list[float]]:
    lags: list[float] = []
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(product.measure_lags(lags))
        try:
            yield lags
        finally:
            watching.cancel()


def _cpu(load: Load) -> float:
    return load.cpu_seconds / load.count * 1000


async def _measure_bursts(servers: MockServers, product: Product, *, quick: bool) -> list[Figure]:
    await asyncio.sleep(SETTLE_SECONDS)
    empty = read_usage(product.pid).rss_mib
    figures: list[Figure] = []
    there = 0
    for total in QUICK_BURSTS if quick else BURSTS:
        load = await load_pods(servers, product, total - there)
        there = total
        bench = f"{load.count} pods at once, {total} then"
        kib = (load.usage.rss_mib - empty) * 1024 / total
        lag = max(load.lags) * 1000
        home, remote = load.count_requests("home"), load.count_requests("remote")
        rate = load.count / load.seconds
        figures += [
            Figure(bench=bench, name="pods", value=rate, unit="/s", target=1000, at_least=True),
            Figure(bench=bench, name="CPU", value=_cpu(load), unit="ms a pod", target=1),
            Figure(bench=bench, name="requests at home", value=home, unit="a pod", target=3),
            Figure(bench=bench, name="requests over there", value=remote, unit="a pod", target=2),
            Figure(bench=bench, name="longest wait for /livez", value=lag, unit="ms", target=50),
            Figure(bench=bench, name="memory", value=kib, unit="KiB a pod", target=15),
        ]
    bench = f"{there} pods"
    before, began = read_usage(product.pid), time.monotonic()
    await asyncio.sleep(QUICK_IDLE_SECONDS if quick else IDLE_SECONDS)
    after = read_usage(product.pid)
    idle = (after.cpu_seconds - before.cpu_seconds) / (time.monotonic() - began) * 100
    memory = Figure(
        bench=bench, name="memory", value=after.rss_mib, unit="MiB", target=200, steady=True
    )
    return [
        *figures,
        memory,
        Figure(bench=bench, name="memory without pods", value=empty, unit="MiB"),
        Figure(bench=bench, name="CPU idle", value=idle, unit="% of a core", target=2),
    ]


async def _measure_restart(servers: MockServers, count: int) -> list[Figure]:
    await servers.ask("reset")
    async with run_product(servers) as product:
        ready = product.ready_seconds
        await asyncio.sleep(SETTLE_SECONDS)
        report = await servers.ask("report")
    writes = sum(
        report[cluster].get(what, 0) for cluster in ("home", "remote") for what in POD_WRITES
    )
    if writes:
        raise BenchError(f"a restart wrote {writes} times: {report['home']}, {report['remote']}")
    bench = f"restart with {count} pods there"
    return [Figure(bench=bench, name="ready and in sync", value=ready, unit="s", target=10)]


async def _measure_steady(servers: MockServers, product: Product, *, quick: bool) -> list[Figure]:
    seconds = QUICK_STEADY_SECONDS if quick else STEADY_SECONDS
    load = await load_pods(servers, product, int(seconds * STEADY_RATE), rate=STEADY_RATE)
    bench = f"{STEADY_RATE:g} pods a second"
    share = load.cpu_seconds / load.seconds * 100
    create, status = load.read_lag("create_lags"), load.read_lag("status_lags")
    return [
        Figure(bench=bench, name="added to creation, P99", value=create, unit="ms", target=20),
        Figure(bench=bench, name="added to status, P99", value=status, unit="ms", target=20),
        Figure(bench=bench, name="CPU", value=share, unit="% of a core", target=20),
    ]
