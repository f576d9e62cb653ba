"""
Faults of every kind while pods come and go: in the end both sides agree, and nothing ran twice.

`make chaos` does the same for longer (CHAOS_SECONDS), with other seeds (CHAOS_SEED).
"""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.chaos.churn import NODE, Churn
from tests.cluster.chaos.clock import WallClock, build_wall_clock
from tests.cluster.chaos.proxy import FaultyProxy
from tests.cluster.chaos.verdict import find_repeated, find_trouble
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.peering import RIGHTS, PhysicalNodes, Vkubelet
from tests.cluster.waiting import wait_until

SECONDS = float(os.environ.get("CHAOS_SECONDS", "60"))
SEED = int(os.environ.get("CHAOS_SEED", "7"))
CALM_SECONDS = 90.0

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(SECONDS + CALM_SECONDS + 120)]


@contextlib.asynccontextmanager
async def run_behind_proxies(
    home: Cluster, remote: Cluster, seed: int, clock: WallClock | None
) -> AsyncIterator[tuple[Vkubelet, tuple[FaultyProxy, FaultyProxy]]]:
    """Run the product with a faulty way to either side, and by this clock."""
    proxies = FaultyProxy(home, seed), FaultyProxy(remote, seed + 1)
    async with proxies[0].run() as to_home, proxies[1].run() as to_remote:
        arguments = [f"--kubeconfig={to_home}", f"--remote-kubeconfig={to_remote}", "--namespace=*"]
        vkubelet = Vkubelet(
            home,
            remote,
            remote_cluster=NODE,
            arguments=arguments,
            environment=None if clock is None else clock.environment,
        )
        try:
            vkubelet.start()
            await vkubelet.wait_ready()
            yield vkubelet, proxies
        finally:
            await vkubelet.stop()


async def come_and_go(churn: Churn, until: float) -> None:
    """Have pods made and deleted."""
    while asyncio.get_running_loop().time() < until:
        await churn.step()
        await asyncio.sleep(churn.random.uniform(0, 2))


async def strike(churn: Churn, until: float) -> None:
    """Have things deleted over there."""
    while asyncio.get_running_loop().time() < until:
        await asyncio.sleep(churn.random.uniform(0.3, 1.5))
        await churn.strike()


async def have_clock_jump(clock: WallClock, chance: random.Random, until: float) -> None:
    """Have the process's wall clock jump, back no further than certificates are valid."""
    while asyncio.get_running_loop().time() < until:
        await asyncio.sleep(chance.uniform(3, 10))
        clock.jump(chance.choice([chance.randint(-240, 0), chance.randint(0, 86400)]))
    clock.jump(0)


async def make_trouble(
    vkubelet: Vkubelet, clusters: tuple[Cluster, ...], chance: random.Random, until: float
) -> None:
    """Kill the process, and restart API servers."""
    while asyncio.get_running_loop().time() < until:
        await asyncio.sleep(chance.uniform(3, 10))
        if chance.random() < 0.7:
            assert vkubelet.component is not None
            vkubelet.component.send_signal(signal.SIGKILL)
            await vkubelet.component.wait()
            await asyncio.sleep(chance.uniform(0, 2))
            vkubelet.start()
            with contextlib.suppress(ClusterError):  # it had no time to release its lock
                await vkubelet.wait_ready()
        else:
            cluster = chance.choice(clusters)
            await cluster.kill_api_server()
            await asyncio.sleep(chance.uniform(0, 2))
            await cluster.start_api_server()


async def test_both_sides_agree_in_the_end(
    home: Cluster,
    remote: Cluster,
    physical_nodes: PhysicalNodes,
    namespace: str,
    tmp_path: Path,
) -> None:
    del physical_nodes
    chance = random.Random(SEED)
    folder = tmp_path / "starts"
    folder.mkdir()
    clock = build_wall_clock(tmp_path)
    churn = Churn(home, remote, namespace, folder, random.Random(SEED))
    await home.kubectl("apply", f"-n={namespace}", "-f", str(RIGHTS / "home-namespace.yaml"))
    await churn.prepare()
    async with run_behind_proxies(home, remote, SEED, clock) as (vkubelet, proxies):
        for proxy in proxies:
            proxy.faults = True
        until = asyncio.get_running_loop().time() + SECONDS
        async with asyncio.TaskGroup() as group:
            group.create_task(come_and_go(churn, until))
            group.create_task(strike(churn, until))
            if clock is not None:
                group.create_task(have_clock_jump(clock, random.Random(SEED + 2), until))
            group.create_task(make_trouble(vkubelet, (home, remote), chance, until))
        for proxy in proxies:
            proxy.faults = False
        trouble: list[str] = []

        async def agree() -> bool:
            trouble[:] = await find_trouble(churn)
            return not trouble

        try:
            await wait_until(agree, "both sides agree", timeout_seconds=CALM_SECONDS)
        finally:
            print(
                f"seed {SEED}: {len(churn.policies)} pods, {len(churn.struck)} of them and"
                f" {churn.copies_struck} copies deleted over there,"
                f" {[proxy.injected for proxy in proxies]} faults,"
                f" {0 if clock is None else clock.jumps} jumps of the clock"
            )
            print("\n".join(trouble))
        assert all(proxy.injected for proxy in proxies)
        assert churn.struck
        assert find_repeated(churn) == []
        assert any(len(file.read_text()) for file in folder.iterdir())
    await home.kubectl("delete", "node", NODE, "--wait=false")
