"""Whose use is told."""

from pathlib import Path

import pytest

from tests.vkubelet.server.harness import serve
from tests.vkubelet.server.usage import build_sample, build_usage
from vkubelet.interface import PodRef
from vkubelet.server.node_usage import tell_cpu_seconds, tell_memory_bytes


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        (PodRef("ns", "pod", "uid-1"), True),
        (PodRef("ns", "pod", "uid-2"), False),
        (PodRef("ns", "elsewhere", "uid-1"), False),
    ],
)
async def test_only_pods_on_the_node(tmp_path: Path, ref: PodRef, told: bool) -> None:
    async with serve(tmp_path) as harness, harness.http() as http:
        harness.provider.usage = build_usage(ref)
        async with http.get("/stats/summary") as response:
            assert bool((await response.json())["pods"]) is told


def test_never_zero() -> None:
    idle = build_sample(0, 0)
    assert tell_cpu_seconds(idle) > 0
    assert int(tell_cpu_seconds(idle) * 1e9) > 0
    assert tell_memory_bytes(idle) == 1
    busy = build_sample(1.5, 7)
    assert (tell_cpu_seconds(busy), tell_memory_bytes(busy)) == (1.5, 7)
