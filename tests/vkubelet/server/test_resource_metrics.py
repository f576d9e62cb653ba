"""`/metrics/resource`."""

from pathlib import Path

from tests.vkubelet.server.harness import serve
from tests.vkubelet.server.usage import REF, build_sample, build_usage
from vkubelet.interface import NodeUsage, PodUsage
from vkubelet.server.resource_metrics import build_resource_metrics

EXPECTED = """\
# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the node in core-seconds
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 12.5 1767225660000
# HELP node_memory_working_set_bytes [STABLE] Current working set of the node in bytes
# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes 2048 1767225660000
# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in core-seconds
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="c",pod="pod",namespace="ns"} 2.0 1767225660000
# HELP container_memory_working_set_bytes [STABLE] Current working set of the container in bytes
# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="c",pod="pod",namespace="ns"} 200 1767225660000
# HELP container_start_time_seconds [STABLE] Start time of the container since unix epoch in seconds
# TYPE container_start_time_seconds gauge
container_start_time_seconds{container="c",pod="pod",namespace="ns"} 1767225600.0
# HELP pod_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the pod in core-seconds
# TYPE pod_cpu_usage_seconds_total counter
pod_cpu_usage_seconds_total{namespace="ns",pod="pod"} 3.0 1767225660000
# HELP pod_memory_working_set_bytes [STABLE] Current working set of the pod in bytes
# TYPE pod_memory_working_set_bytes gauge
pod_memory_working_set_bytes{namespace="ns",pod="pod"} 300 1767225660000
# HELP scrape_error 1 if there was an error while getting container metrics, 0 otherwise
# TYPE scrape_error gauge
scrape_error 0
# HELP resource_scrape_error 1 if there was an error while getting container metrics, 0 otherwise
# TYPE resource_scrape_error gauge
resource_scrape_error 0
"""  # noqa: E501 - as they are


async def test_scrape(tmp_path: Path) -> None:
    async with serve(tmp_path) as harness, harness.http() as http:
        harness.provider.usage = build_usage()
        async with http.get("/metrics/resource") as response:
            assert response.status == 200
            content_type = response.headers["Content-Type"]
            assert content_type == "text/plain; version=0.0.4; charset=utf-8"
            assert await response.text() == EXPECTED


async def test_nothing_known(tmp_path: Path) -> None:
    async with (
        serve(tmp_path) as harness,
        harness.http() as http,
        http.get("/metrics/resource") as response,
    ):
        assert response.status == 200
        lines = (await response.text()).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "scrape_error 0",
        "resource_scrape_error 0",
    ]


async def test_who_may_scrape(tmp_path: Path) -> None:
    async with serve(tmp_path) as harness:
        async with harness.http(harness.context("metrics", [])) as http:
            async with http.get("/metrics/resource") as response:
                assert response.status == 200
            async with http.get("/pods") as response:
                assert response.status == 403
        async with (
            harness.http(harness.context(None)) as http,
            http.get("/metrics/resource") as response,
        ):
            assert response.status == 401


def test_idle_ones_arent_zero() -> None:
    idle = build_sample(0, 0)
    usage = NodeUsage(node=idle, pods=(PodUsage(ref=REF, pod=idle, containers={"c": idle}),))
    lines = build_resource_metrics(usage).decode().splitlines()
    values = [line.split()[1] for line in lines if line.endswith("1767225660000")]
    assert values == ["1e-06", "1"] * 3
