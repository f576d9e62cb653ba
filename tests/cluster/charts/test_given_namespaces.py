"""A provider that gives a peering one namespace, with a quota, by the remote chart."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cluster.charts.installation import NAMESPACE, Installation, build_values
from tests.cluster.cluster import Cluster
from tests.cluster.helm import run_helm
from tests.cluster.peering import PhysicalNodes
from tests.cluster.product.cloud import (
    build_pod,
    create,
    find_remote_pods,
    get,
    get_pod,
    run_pod,
    wait_gone,
)
from tests.cluster.waiting import wait_until

pytestmark = pytest.mark.cluster

TENANT = "tenant-lake"
THERE = {"vkubelet.io/peering": "lake"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lake(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes, reflected: str
) -> AsyncIterator[Installation]:
    """Both charts."""
    config = {
        "namespaces": {"names": [reflected], "remote": TENANT},
        "capacity": {"foreignUse": "ignore"},
    }
    values = build_values("lake", [reflected], {"config": config})
    lake = Installation(home=home, remote=remote, peering="lake", values=values)
    uid = (await get(home, "namespace", "kube-system"))["metadata"]["uid"]
    try:
        await lake.install_remote(
            f"namespaces={{{TENANT}}}", f"homeClusterUID={uid}", "resourceQuota.hard.pods=1"
        )
        await lake.install()
        await lake.make_kubeconfigs()
        yield lake
    finally:
        await lake.uninstall()
        await remote.kubectl("delete", "namespace", TENANT, "--wait=false", "--ignore-not-found")


async def test_pods_run_in_it_up_to_the_quota(
    lake: Installation, home: Cluster, remote: Cluster, reflected: str
) -> None:
    async with lake.running():
        volumes = [{"name": "v", "projected": {"sources": [{"configMap": {"name": "o"}}]}}]
        metadata = {"name": "o", "namespace": reflected}
        await create(home, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        pod = await run_pod(home, "first", reflected, nodeSelector=THERE, volumes=volumes)
        (behind,) = await find_remote_pods(remote, pod)
        assert behind["metadata"]["namespace"] == TENANT
        log = await home.kubectl("logs", "first", f"-n={reflected}")
        assert log.stdout == "started\n"
        await create(home, build_pod("second", reflected, nodeSelector=THERE))

        async def refused() -> bool:
            status = (await get_pod(home, "second", reflected)).get("status", {})
            return status.get("reason") == "RemotePodForbidden" and "quota" in status["message"]

        await wait_until(refused, "the quota's words are shown at home")
        await home.kubectl("delete", "pod", "second", "first", f"-n={reflected}", "--wait=false")
        for name in ("second", "first"):
            await wait_gone(home, name, reflected)


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("yes", ("list", "pods", f"--namespace={TENANT}")),
        ("yes", ("list", "nodes")),
        ("no", ("list", "pods", "--namespace=default")),
        ("no", ("get", "secrets", "--namespace=default")),
        ("no", ("create", "namespaces")),
        ("no", ("get", "namespaces/default")),
    ],
    ids=str,
)
async def test_rights(lake: Installation, answer: str, right: tuple[str, ...]) -> None:
    done = await lake.remote.kubectl(
        "auth", "can-i", *right, kubeconfig=lake.remote_kubeconfig, check=False
    )
    assert done.stdout.strip() == answer


async def test_the_namespace_outlives_the_release(lake: Installation, remote: Cluster) -> None:
    await run_helm("uninstall", "remote-lake", f"-n={NAMESPACE}", cluster=remote)
    namespace = await get(remote, "namespace", TENANT)
    assert namespace["status"]["phase"] == "Active"
    assert await get(remote, "resourcequota", lake.remote_name, f"-n={TENANT}") == {}
