"""What breaks while a command runs: its client goes away, or the kubelet does."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping

import pytest

from tests.cluster.errors import ClusterError
from tests.cluster.waiting import wait_until
from tests.e2e.differential import Both, Side

pytestmark = pytest.mark.e2e

_TALK = "echo started; while echo on; do sleep 0.1; done"
_REST = "echo started; exec sleep 3600"


@contextlib.asynccontextmanager
async def _start(
    side: Side, script: str, env: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a command, and enter when it runs."""
    async with side.open("exec", "talker", "--", "sh", "-c", script, env=env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        async with asyncio.timeout(30):
            if (line := await process.stdout.readline()) != b"started\n":
                raise ClusterError(f"{line!r}: {await process.stderr.read()!r}")
        yield process


async def _count_streams(leg: Both) -> int:
    metrics = await leg.vkubelet.read_metrics()
    found = re.findall(r"^vkubelet_streams_open\S* (\S+)$", metrics, re.MULTILINE)
    assert found, "no such metric"
    return int(sum(map(float, found)))


@pytest.mark.parametrize("script", [_TALK, _REST], ids=["talks", "rests"])
async def test_client_that_vanishes(leg: Both, script: str, client: Mapping[str, str]) -> None:
    """
    The way to the remote cluster is closed at once, whether the command talks or not.

    containerd lets commands go on whose clients have gone, so that isn't looked at.
    """
    before = await _count_streams(leg)
    async with _start(leg.through, script, client):
        assert await _count_streams(leg) == before + 1

    async def closed() -> bool:
        return await _count_streams(leg) == before

    await wait_until(closed, "the stream ends", timeout_seconds=10)


async def test_kubelet_that_is_killed(both: Both, client: Mapping[str, str]) -> None:
    """
    RIGHT["empty error stream"].

    On the other leg it's the remote API server that takes it for success, and tells us so.
    """
    kubelet = both.real_node.kubelet
    try:
        async with _start(both.through, _REST, client) as process, asyncio.timeout(60):
            await kubelet.kill()
            _, err = await process.communicate()
    finally:
        kubelet.start()
        await both.real_node.wait_pods_known()
    assert process.returncode == 1
    assert b"no exit status from the remote cluster" in err
