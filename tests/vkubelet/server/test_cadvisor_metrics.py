"""`/metrics/cadvisor`."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.vkubelet.server.harness import serve
from tests.vkubelet.server.usage import build_usage
from vkubelet.kube.objects import KubeObject
from vkubelet.server.cadvisor_metrics import build_limits

LABELS = {"container", "id", "image", "name", "namespace", "pod"}


async def test_scrape(tmp_path: Path) -> None:
    async with serve(tmp_path, capacity={"cpu": "3500m", "memory": "1Gi"}) as harness:
        harness.provider.usage = build_usage()
        async with harness.http() as http, http.get("/metrics/cadvisor") as response:
            assert response.status == 200
            text = await response.text()
    samples = [
        sample for family in text_string_to_metric_families(text) for sample in family.samples
    ]
    for sample in samples:
        if sample.name.startswith("container_"):
            assert set(sample.labels) - {"cpu"} == LABELS
            assert (sample.labels["namespace"], sample.labels["pod"]) == ("ns", "pod")
    values = {
        (sample.name, sample.labels.get("container")): sample.value
        for sample in samples
        if sample.labels.get("container") != ""
    }
    assert values == {
        ("container_cpu_usage_seconds_total", "c"): 2.0,
        ("container_memory_usage_bytes", "c"): 200,
        ("container_memory_working_set_bytes", "c"): 200,
        ("container_start_time_seconds", "c"): 1767225600,
        ("container_spec_cpu_period", "c"): 100_000,
        ("container_spec_cpu_shares", "c"): 2,
        ("container_spec_memory_limit_bytes", "c"): 0,
        ("machine_cpu_cores", None): 3.5,
        ("machine_memory_bytes", None): 1 << 30,
    }
    whole = [sample for sample in samples if sample.labels.get("container") == ""]
    assert {sample.name: sample.value for sample in whole} == {
        "container_cpu_usage_seconds_total": 3.0,
        "container_memory_usage_bytes": 300,
        "container_memory_working_set_bytes": 300,
        "container_start_time_seconds": 1767225600,
    }


async def test_nothing_known(tmp_path: Path) -> None:
    async with (
        serve(tmp_path) as harness,
        harness.http() as http,
        http.get("/metrics/cadvisor") as response,
    ):
        assert (response.status, await response.text()) == (200, "")


@pytest.mark.parametrize(
    ("resources", "limits"),
    [
        ({}, (2, None, 0)),
        ({"requests": {"cpu": "250m"}}, (256, None, 0)),
        ({"limits": {"cpu": "2", "memory": "1Mi"}}, (2048, 200_000, 1 << 20)),
        ({"limits": {"cpu": 1}, "requests": {"cpu": "500m"}}, (512, 100_000, 0)),
        (None, (2, None, 0)),
    ],
)
def test_limits(resources: KubeObject | None, limits: tuple[int, int | None, int]) -> None:
    built = build_limits({"name": "c", "resources": resources})
    assert (
        built["container_spec_cpu_shares"],
        built.get("container_spec_cpu_quota"),
        built["container_spec_memory_limit_bytes"],
    ) == limits
