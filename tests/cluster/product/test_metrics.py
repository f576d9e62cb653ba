"""kubectl top at home, by two real metrics-servers, and the other endpoints of a node's port."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.cluster import Cluster
from tests.cluster.go_program import ProgramMissingError
from tests.cluster.metrics_server import MetricsServer
from tests.cluster.peering import Vkubelet
from tests.cluster.product.cloud import NODE, build_pod, create, get, run_pod
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("vkubelet")]

BUSY = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.1; done"
TOP_SECONDS = 100.0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def metrics_servers(
    home: Cluster, remote: Cluster, vkubelet: Vkubelet
) -> AsyncIterator[tuple[MetricsServer, MetricsServer]]:
    """One in each cluster; the home one looks at virtual nodes, the remote one at process nodes."""
    servers = MetricsServer(home), MetricsServer(remote)
    try:
        for server in servers:
            await server.start()
        yield servers
    except ProgramMissingError as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        for server in servers:
            await server.stop()


async def read_top(cluster: Cluster, *args: str) -> dict[str, tuple[str, str]]:
    """Cpu and memory by name; empty while they aren't known."""
    done = await cluster.kubectl("top", *args, "--no-headers", check=False)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[0]: (row[1], row[2]) for row in rows if len(row) > 2}


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("metrics_servers")
async def test_top(home: Cluster, remote: Cluster, namespace: str) -> None:
    await run_pod(home, "busy", namespace, command=["sh", "-c", BUSY])
    await run_pod(home, "idle", namespace)
    top: dict[str, tuple[str, str]] = {}

    async def known() -> bool:
        nonlocal top
        top = await read_top(home, "pod", f"-n={namespace}")
        return {"busy", "idle"} <= top.keys() and top["busy"][0] != "0m"

    await wait_until(known, "kubectl top pod at home", timeout_seconds=TOP_SECONDS)
    assert int(top["busy"][0].removesuffix("m")) > int(top["idle"][0].removesuffix("m"))
    assert all(memory.endswith("Mi") for _, memory in top.values())

    async def node_known() -> bool:
        return NODE in await read_top(home, "node")

    await wait_until(node_known, "kubectl top node at home", timeout_seconds=TOP_SECONDS)
    containers = await read_top(home, "pod", "busy", f"-n={namespace}", "--containers")
    assert set(containers) == {"busy"}


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("metrics_servers")
async def test_a_busy_deployment_is_scaled(home: Cluster, namespace: str) -> None:
    """By a HorizontalPodAutoscaler, which goes by what pods of the virtual node use."""
    pod = build_pod("any", namespace, command=["sh", "-c", BUSY])
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
    labels = {"app": "scaled"}
    await create(
        home,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "scaled", "namespace": namespace},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
            },
        },
    )
    options = (f"-n={namespace}", "--cpu=50%", "--min=1", "--max=2")
    await home.kubectl("autoscale", "deployment", "scaled", *options)

    async def scaled() -> bool:
        deployment = await get(home, "deployment", "scaled", f"-n={namespace}")
        return bool(deployment["status"].get("readyReplicas") == 2)

    try:
        await wait_until(scaled, "the busy Deployment has two pods", timeout_seconds=240)
    except Exception as error:
        described = await home.kubectl("describe", "hpa", "scaled", f"-n={namespace}")
        error.add_note(described.stdout)
        raise
    finally:
        await home.kubectl("delete", "hpa,deployment", "scaled", f"-n={namespace}")


@pytest.mark.usefixtures("metrics_servers")
async def test_the_process_tells_how_it_fares(
    home: Cluster, namespace: str, vkubelet: Vkubelet
) -> None:
    await run_pod(home, "counted", namespace)
    text = await vkubelet.read_metrics()
    values = {
        (sample.name, tuple(sorted(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert values["vkubelet_virtual_nodes", ()] == 1
    assert values["vkubelet_pods", ("Running",)] >= 1
    assert values["vkubelet_pod_create_lag_seconds_count", ()] >= 1
    assert values["vkubelet_pod_status_lag_seconds_count", ()] >= 1
    assert values["vkubelet_reconciles_total", ("done", "pods")] >= 1
    assert values["vkubelet_certificate_expiry_timestamp_seconds", (NODE,)] > 0
    assert "ssd-1" not in text  # names of the remote side aren't labels
