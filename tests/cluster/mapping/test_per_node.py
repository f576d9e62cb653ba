"""One virtual node a physical node: it tells what is really free."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.mapping.pool import (
    MEMBERS,
    build_pool_pod,
    list_virtual_nodes,
    run_peering,
    wait_allocatable,
    wait_placed,
    wait_unscheduled,
)
from tests.cluster.peering import PhysicalNodes, Vkubelet
from tests.cluster.product.cloud import condition_of, create, get, wait_gone, wait_pod
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("peering")]

NAME = "each"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def peering(home: Cluster, remote: Cluster, pool: PhysicalNodes) -> AsyncIterator[Vkubelet]:
    async with run_peering(home, remote, NAME, "--node-mapping=per-node") as process:
        yield process


def foreign_pod(name: str, node: str, cpu: str) -> dict[str, object]:
    """Build somebody else's pod in the remote cluster."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"key": "mapping-test", "operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "main", "image": "any", "resources": {"requests": {"cpu": cpu}}}
            ],
        },
    }


async def test_each_mirrors_its_physical_node(home: Cluster) -> None:
    nodes = await list_virtual_nodes(home, NAME)
    assert set(nodes) == {f"{NAME}-{name}" for name in MEMBERS}
    node = nodes[f"{NAME}-m-a1"]
    assert node["metadata"]["labels"]["disk"] == "ssd"
    assert node["status"]["capacity"]["example.com/gpu"] == "2"
    taints = {taint["key"] for taint in node["spec"]["taints"]}
    assert "virtual-kubelet.io/provider" in taints
    assert "mapping-test" not in taints


async def test_a_foreign_pod_takes_exactly_its_request_and_gives_it_back(
    home: Cluster, remote: Cluster
) -> None:
    await wait_allocatable(home, f"{NAME}-m-a1", "4")
    await create(remote, foreign_pod("foreign", "m-a1", "1250m"))
    await wait_allocatable(home, f"{NAME}-m-a1", "2750m")
    await wait_allocatable(home, f"{NAME}-m-a1", "19", "pods")
    await remote.kubectl("delete", "pod", "foreign", "-n=default")
    await wait_allocatable(home, f"{NAME}-m-a1", "4")


async def test_what_does_not_fit_stays_unscheduled_at_home(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    await create(remote, foreign_pod("heavy", "m-a2", "3"))
    try:
        await wait_allocatable(home, f"{NAME}-m-a2", "1")
        wanted = f"{NAME}-m-a2"
        await create(home, build_pool_pod("big", namespace, wanted, cpu="2"))
        assert "Insufficient cpu" in await wait_unscheduled(home, "big", namespace)
        assert (await get(home, "pod", "big", f"-n={namespace}"))["spec"].get("nodeName") is None
        await remote.kubectl("delete", "pod", "heavy", "-n=default")
        assert await wait_placed(home, remote, "big", namespace) == "m-a2"
    finally:
        await remote.kubectl("delete", "pod", "heavy", "-n=default", "--ignore-not-found")
        await home.kubectl("delete", "pod", "big", f"-n={namespace}", "--ignore-not-found")
    await wait_allocatable(home, f"{NAME}-m-a2", "4")


async def test_own_pods_are_not_counted_twice(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    wanted = f"{NAME}-m-b1"
    for number in range(2):
        await create(home, build_pool_pod(f"own-{number}", namespace, wanted, cpu="1500m"))
        assert await wait_placed(home, remote, f"own-{number}", namespace) == "m-b1"
    # The home scheduler takes 3 of what the node offers; 1 is left in truth, on either side.
    await wait_allocatable(home, wanted, "4")
    await create(home, build_pool_pod("too-big", namespace, wanted, cpu="1100m"))
    assert "Insufficient cpu" in await wait_unscheduled(home, "too-big", namespace)
    await create(home, build_pool_pod("fits", namespace, wanted, cpu="1"))
    await wait_pod(home, "fits", namespace, "the pod that fits", phase="Running")
    await wait_allocatable(home, wanted, "4")
    pods = ["own-0", "own-1", "too-big", "fits"]
    await home.kubectl("delete", "pod", *pods, f"-n={namespace}", "--wait=false")
    for name in pods:
        await wait_gone(home, name, namespace)
    await wait_allocatable(home, wanted, "4")


async def test_readiness_and_cordon_are_mirrored_and_evict_nobody(
    home: Cluster, remote: Cluster, pool: PhysicalNodes, namespace: str
) -> None:
    wanted = f"{NAME}-m-a1"
    await create(home, build_pool_pod("stays", namespace, wanted))
    await wait_pod(home, "stays", namespace, "a pod on the node", phase="Running")
    await remote.kubectl("cordon", "m-a1")
    try:

        async def cordoned() -> bool:
            return bool((await get(home, "node", wanted))["spec"].get("unschedulable"))

        await wait_until(cordoned, "the cordon is mirrored", timeout_seconds=10)
    finally:
        await remote.kubectl("uncordon", "m-a1")
    pool.change("m-a1", ready=False)
    try:

        async def not_ready() -> bool:
            ready = condition_of(await get(home, "node", wanted), "Ready")
            return (ready["status"], ready["reason"]) == ("False", "KubeletNotReady")

        await wait_until(not_ready, "NotReady is mirrored", timeout_seconds=15)
    finally:
        pool.change("m-a1", ready=True)

    async def back() -> bool:
        node = await get(home, "node", wanted)
        ready = condition_of(node, "Ready")["status"] == "True"
        return ready and not node["spec"].get("unschedulable")

    await wait_until(back, "both are undone", timeout_seconds=15)
    pod = await get(home, "pod", "stays", f"-n={namespace}")
    assert "deletionTimestamp" not in pod["metadata"]
    assert condition_of(pod, "Ready")["status"] == "True"


async def test_kubectl_drain_of_a_physical_node_works(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    wanted = f"{NAME}-m-b1"
    await create(home, build_pool_pod("drained", namespace, wanted))
    await wait_pod(home, "drained", namespace, "a pod on the node", phase="Running")
    try:
        drained = await remote.kubectl("drain", "m-b1", "--timeout=25s")
        assert "evicting pod" in drained.stdout + drained.stderr
    finally:
        await remote.kubectl("uncordon", "m-b1")
    # It has nowhere else to go; once the node takes pods again, it's there as before.
    await wait_pod(home, "drained", namespace, "the pod is made again", phase="Running")
    await home.kubectl("delete", "pod", "drained", f"-n={namespace}", "--wait=false")
    await wait_gone(home, "drained", namespace)
