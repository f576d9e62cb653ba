"""
Bursts of pods through two real control planes and a virtual node, as a user gets them.

Everything shares the machine's cores: both control planes, kwok, the load and our process. So three
things are measured in one session: the same pods made directly on the remote cluster, which is what
the machine allows; a virtual node written the obvious way (`baseline.py`); and ours.
"""

import asyncio
import contextlib
import statistics
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figures import Figure, read_usage
from tests.bench.real_load import Load, Outcome
from tests.bench.real_setting import (
    LoadProcess,
    audited_kubeconfig,
    count_requests,
    delete_pods,
    run_load,
)
from tests.bench.startup import measure_restart
from tests.cluster.cluster import Cluster, start_clusters
from tests.cluster.kwok import start_kwok
from tests.cluster.peering import build_environment, grant_rights, run_vkubelet
from tests.cluster.waiting import wait_until

NODES = 10
NAMESPACE = "bench"
NODE = "cloud"
BASELINE_NODE = "baseline"
COUNTS: dict[bool, tuple[int, ...]] = {False: (1_000, 3_000), True: (200,)}
BASELINE_COUNT: dict[bool, int] = {False: 500, True: 100}
ALONE_COUNT: dict[bool, int] = {False: 50, True: 20}
WARM_UP = 20
SETTLE_SECONDS = 3.0
RATE = "pods"
MEMORY_COUNT = 1_000
"""With fewer pods it's the buffers that count."""
SHOWN_REQUESTS = 0.05
"""Kinds of requests that a pod costs fewer of aren't shown."""


@dataclass
class Setting:
    """Both sides, and who makes pods there."""

    home: Cluster
    remote: Cluster
    home_load: LoadProcess
    remote_load: LoadProcess
    quick: bool

    def count_requests(self) -> dict[str, Counter[str]]:
        """Count the requests of whoever is measured."""
        return {
            "home": count_requests(self.home),
            "the remote side": count_requests(self.remote),
        }

    def count_all_requests(self) -> Counter[str]:
        """Count them on both sides together."""
        return sum(self.count_requests().values(), Counter())


@dataclass
class Run:
    """A burst that was measured."""

    count: int
    outcome: Outcome
    cpu_seconds: float
    rss_mib: float
    peak_mib: float
    requests: dict[str, Counter[str]]


async def run(*, quick: bool) -> list[Figure]:
    """Measure it."""
    async with start_clusters("home", "remote") as (home, remote):
        await start_kwok(remote, NODES)
        await grant_rights(home, remote)
        for cluster in (home, remote):
            await cluster.make_namespace(NAMESPACE)
        async with run_load(home) as home_load, run_load(remote) as remote_load:
            setting = Setting(home, remote, home_load, remote_load, quick)
            direct = await _measure_directly(setting)
            baseline = await _measure_baseline(setting)
            virtual = await _measure_virtual(setting)
            compared = [
                *_compare("the obvious way", baseline, virtual),
                *_compare("the remote side alone", direct, virtual),
            ]
            return direct + baseline + virtual + compared


async def _measure_directly(setting: Setting) -> list[Figure]:
    """What the remote cluster does without us."""
    await setting.remote_load.make(Load(name="warm", namespace=NAMESPACE, count=WARM_UP))
    alone = await setting.remote_load.make(
        Load(name="alone", namespace=NAMESPACE, count=ALONE_COUNT[setting.quick], alone=True)
    )
    count = COUNTS[setting.quick][0]
    burst = await setting.remote_load.make(Load(name="burst", namespace=NAMESPACE, count=count))
    await delete_pods(setting.remote, NAMESPACE)
    bench = f"{count} pods directly on the remote side"
    return [
        Figure(bench=bench, name=RATE, value=count / burst.seconds, unit="/s"),
        Figure(bench=bench, name="one alone, P50", value=_p50_ms(alone), unit="ms"),
    ]


async def _measure_baseline(setting: Setting) -> list[Figure]:
    """What the obvious way does."""
    count = BASELINE_COUNT[setting.quick]
    async with _run_baseline(setting) as pid:
        await setting.home_load.make(
            Load(name="warm", namespace=NAMESPACE, count=WARM_UP, node=BASELINE_NODE)
        )
        run = await _measure_burst(setting, pid, "burst", count, node=BASELINE_NODE)
    for cluster in (setting.home, setting.remote):
        await delete_pods(cluster, NAMESPACE)
    await setting.home.kubectl("delete", "node", BASELINE_NODE)
    return _show(f"{count} pods the obvious way", run, targets=False)


@contextlib.asynccontextmanager
async def _run_baseline(setting: Setting) -> AsyncIterator[int]:
    component = setting.home.start_component(
        "baseline",
        [
            *(sys.executable, "-m", "tests.bench.baseline", f"--node={BASELINE_NODE}"),
            f"--kubeconfig={audited_kubeconfig(setting.home, admin=True)}",
            f"--remote-kubeconfig={audited_kubeconfig(setting.remote, admin=True)}",
        ],
        env=build_environment(),
    )

    async def ready() -> bool:
        return "ready" in component.read_log()

    try:
        await wait_until(ready, "the baseline is ready")
        assert component.pid is not None
        yield component.pid
    finally:
        await component.kill()


async def _measure_virtual(setting: Setting) -> list[Figure]:
    arguments = [
        "--namespace=*",
        "--log-level=warning",
        f"--kubeconfig={audited_kubeconfig(setting.home)}",
        f"--remote-kubeconfig={audited_kubeconfig(setting.remote)}",
    ]
    async with run_vkubelet(
        setting.home, setting.remote, remote_cluster=NODE, arguments=arguments
    ) as vkubelet:
        load = Load(name="warm", namespace=NAMESPACE, count=WARM_UP, node=NODE)
        await setting.home_load.make(load)
        figures = await _measure_alone(setting)
        pods = WARM_UP + ALONE_COUNT[setting.quick]
        for count in COUNTS[setting.quick]:
            assert vkubelet.component is not None
            pid = vkubelet.component.pid
            assert pid is not None
            run = await _measure_burst(setting, pid, f"burst-{count}", count, node=NODE)
            figures += _show(f"{count} pods by a virtual node", run, targets=True)
            pods += count
            figures += await measure_restart(vkubelet, pods, setting.count_all_requests)
    return figures


async def _measure_alone(setting: Setting) -> list[Figure]:
    """One pod after the other, when there is nothing else to do."""
    count = ALONE_COUNT[setting.quick]
    outcome = await setting.home_load.make(
        Load(name="alone", namespace=NAMESPACE, count=count, node=NODE, alone=True)
    )
    bench = "a pod by a virtual node"
    return [
        Figure(bench=bench, name="one alone, P50", value=_p50_ms(outcome), unit="ms", target=22),
    ]


async def _measure_burst(setting: Setting, pid: int, name: str, count: int, *, node: str) -> Run:
    """Make many at once, and see what it costs the process that runs them."""
    await asyncio.sleep(SETTLE_SECONDS)
    before, requests_before = read_usage(pid), setting.count_requests()
    outcome = await setting.home_load.make(
        Load(name=name, namespace=NAMESPACE, count=count, node=node)
    )
    await asyncio.sleep(SETTLE_SECONDS)
    after, requests = read_usage(pid), setting.count_requests()
    return Run(
        count=count,
        outcome=outcome,
        cpu_seconds=after.cpu_seconds - before.cpu_seconds,
        rss_mib=after.rss_mib - before.rss_mib,
        peak_mib=_read_peak_mib(pid),
        requests={side: requests[side] - requests_before[side] for side in requests},
    )


def _compare(name: str, others: list[Figure], virtual: list[Figure]) -> list[Figure]:
    """Tell how many times as fast bursts are by a virtual node as some other way."""
    (other,) = (figure.value for figure in others if figure.name == RATE)
    return [
        Figure(
            bench=figure.bench, name=f"as fast as {name}", value=figure.value / other, unit="times"
        )
        for figure in virtual
        if figure.name == RATE
    ]


def _show(bench: str, run: Run, *, targets: bool) -> list[Figure]:
    """Tell what a burst took; memory a pod isn't told of few pods."""

    def figure(
        name: str, value: float, unit: str, target: float | None = None, **kind: bool
    ) -> Figure:
        met = target if targets else None
        return Figure(bench=bench, name=name, value=value, unit=unit, target=met, **kind)

    count, latencies = run.count, sorted(run.outcome.latencies)
    figures = [
        figure(RATE, count / run.outcome.seconds, "/s", 150, at_least=True),
        figure("created to Running, P50", _p50_ms(run.outcome), "ms"),
        figure("created to Running, P99", latencies[count * 99 // 100] * 1000, "ms"),
        figure("our CPU a pod", run.cpu_seconds / count * 1000, "ms", 1),
        figure("memory at its peak", run.peak_mib, "MiB"),
    ]
    if count >= MEMORY_COUNT:
        figures.append(figure("memory a pod", run.rss_mib * 1024 / count, "KiB", 15))
    for side, most in (("home", 3), ("the remote side", 2)):
        counted = run.requests[side]
        figures.append(figure(f"requests a pod at {side}", counted.total() / count, "", most))
        figures += [
            figure(f"  {kind}", number / count, "")
            for kind, number in counted.most_common()
            if number / count >= SHOWN_REQUESTS
        ]
    return figures


def _p50_ms(outcome: Outcome) -> float:
    return statistics.median(outcome.latencies) * 1000


def _read_peak_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("Linux tells of a process's peak")
