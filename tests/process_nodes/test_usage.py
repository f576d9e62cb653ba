"""What processes use."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from tests.process_nodes.running import (
    DEADLINE_SECONDS,
    NODE,
    RunningProvider,
    build_container,
    build_pod,
    run_provider,
)
from vkubelet.interface import NodeUsage

BURN = "while :; do :; done & wait"


async def wait_usage(
    running: RunningProvider, wanted: Callable[[NodeUsage], bool], node: str = NODE
) -> NodeUsage:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            usage = await running.provider.stats(node)
            if wanted(usage):
                return usage
            await asyncio.sleep(0.2)


async def test_busy_and_idle(tmp_path: Path) -> None:
    async with run_provider(tmp_path) as running:
        pod = build_pod(build_container(BURN, name="busy"), build_container("exec sleep 60"))
        ref = await running.start(pod)
        await running.wait_phase(ref, "Running")

        def burnt(usage: NodeUsage) -> bool:
            return bool(usage.pods) and usage.pods[0].containers["busy"].cpu_seconds > 0.3

        usage = await wait_usage(running, burnt)
        (found,) = usage.pods
        assert found.ref == ref
        busy, idle = found.containers["busy"], found.containers["main"]
        assert idle.cpu_seconds < 0.2 < busy.cpu_seconds
        assert idle.memory_bytes > 100_000
        assert found.pod.cpu_seconds == busy.cpu_seconds + idle.cpu_seconds
        assert found.pod.memory_bytes == busy.memory_bytes + idle.memory_bytes
        assert usage.node is not None
        assert usage.node.cpu_seconds == found.pod.cpu_seconds
        assert busy.time > busy.started
        assert (await running.provider.stats("node-b")).pods == ()

        await running.wait_gone(ref, grace_period_seconds=0)
        after = await wait_usage(running, lambda now: not now.pods)
        assert after.node is not None
        assert after.node.cpu_seconds >= usage.node.cpu_seconds
        assert after.node.memory_bytes == 0


async def test_a_restart_begins_at_zero(tmp_path: Path) -> None:
    # The first instance lives until it was seen to have used something.
    script = "[ -e done ] && exec sleep 60; >done; while [ ! -e seen ]; do :; done"
    async with run_provider(tmp_path) as running:
        await running.start(build_pod(build_container(script, workingDir=str(tmp_path))))
        await wait_usage(running, lambda now: any(pod.pod.cpu_seconds > 0 for pod in now.pods))
        (tmp_path / "seen").touch()

        def has_earlier_use(usage: NodeUsage) -> bool:
            return any(
                pod.pod.cpu_seconds > container.cpu_seconds and container.started > pod.pod.started
                for pod in usage.pods
                for container in pod.containers.values()
            )

        await wait_usage(running, has_earlier_use)
