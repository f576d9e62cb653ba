"""`/stats/summary`."""

from pathlib import Path
from typing import Any

import pytest

from tests.vkubelet.server.harness import NODE, Harness, serve
from tests.vkubelet.server.usage import REF, build_sample, build_usage
from vkubelet.interface import NodeUsage, PodUsage


async def read(harness: Harness, path: str = "/stats/summary") -> dict[str, Any]:
    async with harness.http() as http, http.get(path) as response:
        assert response.status == 200
        assert response.content_type == "application/json"
        summary: dict[str, Any] = await response.json()
        return summary


@pytest.mark.parametrize(
    "path", ["/stats/summary", "/stats/summary/", "/stats/summary?only_cpu_and_memory=true"]
)
async def test_summary(tmp_path: Path, path: str) -> None:
    async with serve(tmp_path) as harness:
        harness.provider.usage = build_usage()
        summary = await read(harness, path)
    time = "2026-01-01T00:01:00Z"
    start = "2026-01-01T00:00:00Z"

    def stats(nanos: int, memory: int) -> dict[str, Any]:
        return {
            "startTime": start,
            "cpu": {"time": time, "usageCoreNanoSeconds": nanos},
            "memory": {"time": time, "usageBytes": memory, "workingSetBytes": memory},
        }

    assert summary == {
        "node": {"nodeName": NODE, **stats(12_500_000_000, 2048)},
        "pods": [
            {
                "podRef": {"name": "pod", "namespace": "ns", "uid": "uid-1"},
                **stats(3_000_000_000, 300),
                "containers": [{"name": "c", **stats(2_000_000_000, 200)}],
            }
        ],
    }


async def test_nothing_known(tmp_path: Path) -> None:
    async with serve(tmp_path) as harness:
        assert await read(harness) == {"node": {"nodeName": NODE}, "pods": []}
        harness.provider.usage = NodeUsage(pods=(PodUsage(ref=REF, pod=build_sample()),))
        assert (await read(harness))["pods"][0]["containers"] == []


async def test_rates_of_the_second_look(tmp_path: Path) -> None:
    async with serve(tmp_path) as harness:
        harness.provider.usage = NodeUsage(node=build_sample(10, age=60))
        await read(harness)
        harness.provider.usage = NodeUsage(node=build_sample(15, age=80))
        summary = await read(harness)
    assert summary["node"]["cpu"]["usageNanoCores"] == 250_000_000
