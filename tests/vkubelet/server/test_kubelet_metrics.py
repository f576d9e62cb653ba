"""`/metrics`."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.vkubelet.server.harness import NODE, serve
from tests.vkubelet.server.test_pod_lists import ENDED, RUNNING, with_states


async def test_scrape(tmp_path: Path) -> None:
    async with serve(tmp_path) as harness, harness.http() as http:
        harness.pods.pod = with_states(containerStatuses=[RUNNING, RUNNING, ENDED])
        async with http.get("/metrics") as response:
            assert response.status == 200
            text = await response.text()
    samples: dict[str, tuple[dict[str, str], float]] = {
        sample.name: (sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["kubelet_node_name"][0] == {"node": NODE}
    assert samples["kubelet_running_pods"][1] == 1
    assert samples["kubelet_running_containers"][1] == 2
    assert samples["process_resident_memory_bytes"][1] > 0

    assert "vkubelet_" not in text
