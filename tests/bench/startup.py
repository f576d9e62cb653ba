"""How soon the command line answers, and how soon a process is ready that finds its pods there."""

import asyncio
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable

from tests.bench.figures import BenchError, Figure, read_usage
from tests.cluster.peering import Vkubelet, build_environment

TRIES = 7
TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.02
SETTLE_SECONDS = 3.0
WRITES = {"create", "update", "patch", "delete"}


async def run(*, quick: bool) -> list[Figure]:
    """Measure the command line; the other is measured among the bursts (`real`)."""
    del quick
    return [
        Figure(
            bench="startup",
            name=f"vkubelet {argument}, median of {TRIES}",
            value=statistics.median([await _time_command(argument) for _ in range(TRIES)]) * 1000,
            unit="ms",
            target=300,
        )
        for argument in ("--help", "version")
    ]


async def _time_command(argument: str) -> float:
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "provider", argument),
        stdout=asyncio.subprocess.DEVNULL,
        env=build_environment(),
    )
    if await process.wait():
        raise BenchError(f"vkubelet {argument} ends with {process.returncode}")
    return time.perf_counter() - begun


async def measure_restart(
    vkubelet: Vkubelet, pods: int, count_requests: Callable[[], Counter[str]]
) -> list[Figure]:
    """Stop a process and start it again: nothing has changed, so nothing is to be written."""
    await vkubelet.stop()
    before = count_requests()
    begun = time.monotonic()
    vkubelet.start()
    while await vkubelet.read_ready() != 200:
        if time.monotonic() - begun > TIMEOUT_SECONDS:
            raise BenchError(f"not ready in {TIMEOUT_SECONDS:g} s with {pods} pods there")
        await asyncio.sleep(POLL_SECONDS)
    took = time.monotonic() - begun
    assert vkubelet.component is not None
    assert vkubelet.component.pid is not None
    usage = read_usage(vkubelet.component.pid)
    await asyncio.sleep(SETTLE_SECONDS)
    made = count_requests() - before
    writes = sum(
        number
        for kind, number in made.items()
        if kind.split()[0] in WRITES and kind.split()[1].startswith("pods")
    )
    bench = f"restart with {pods} pods"
    return [
        Figure(bench=bench, name="ready after", value=took, unit="s", target=5),
        Figure(bench=bench, name="our CPU until then", value=usage.cpu_seconds, unit="s"),
        Figure(bench=bench, name="memory", value=usage.rss_mib, unit="MiB"),
        Figure(bench=bench, name="writes to pods", value=writes, unit="", target=0, steady=True),
    ]
