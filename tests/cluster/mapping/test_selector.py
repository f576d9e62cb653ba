"""Virtual nodes by selector: pods land only where they may, whatever they ask for."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.mapping.pool import (
    build_pool_pod,
    is_ready,
    list_virtual_nodes,
    read_allocatable,
    run_peering,
    wait_allocatable,
    wait_placed,
)
from tests.cluster.peering import PhysicalNodes, Vkubelet
from tests.cluster.product.cloud import (
    condition_of,
    create,
    find_remote_pods,
    get,
    get_pod,
    wait_gone,
)
from tests.cluster.waiting import wait_until

pytestmark = pytest.mark.cluster

ZONE_A = "zone-a"
FAST = "fast"
EMPTY = "empty"

EXISTS: dict[str, Any] = {"tolerations": [{"operator": "Exists"}]}


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


def is_in(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [*values]}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def peering(home: Cluster, remote: Cluster, pool: PhysicalNodes) -> AsyncIterator[Vkubelet]:
    arguments = [
        "--node-mapping=selector",
        f"--virtual-node={ZONE_A}=zone in (a),!none",
        f"--virtual-node={FAST}=disk=ssd",
        f"--virtual-node={EMPTY}=zone=nowhere",
    ]
    async with run_peering(home, remote, "chosen", *arguments) as process:
        yield process


async def test_all_of_them_are_served_by_the_one_process(home: Cluster, peering: Vkubelet) -> None:
    nodes = await list_virtual_nodes(home, "chosen")
    assert set(nodes) == {ZONE_A, FAST, EMPTY}
    ports = {
        node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] for node in nodes.values()
    }
    assert len(ports) == 3
    assert nodes[ZONE_A]["metadata"]["labels"]["zone"] == "a"
    assert "disk" not in nodes[ZONE_A]["metadata"]["labels"]  # its members differ


async def test_a_selector_that_matches_nothing_makes_a_node_that_is_not_ready(
    home: Cluster, peering: Vkubelet, pool: PhysicalNodes, remote: Cluster
) -> None:
    ready = condition_of(await get(home, "node", EMPTY), "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NoEligibleNodes")
    assert await read_allocatable(home, EMPTY) == 0
    labels = pool.nodes["m-b1"]["labels"]
    pool.change("m-b1", labels={**labels, "zone": "nowhere"})
    try:
        await wait_allocatable(home, EMPTY, "4")

        async def back() -> bool:
            return is_ready(await get(home, "node", EMPTY))

        await wait_until(back, "it's Ready once a node matches")
    finally:
        pool.change("m-b1", labels=labels)
    await wait_allocatable(home, EMPTY, "0")


CASES: list[tuple[str, dict[str, Any], set[str]]] = [
    ("plain", {}, {"m-a1", "m-a2"}),
    ("picky", {"nodeSelector": {"disk": "hdd"}}, {"m-a2"}),
    ("exists", EXISTS, {"m-a1", "m-a2"}),
    # Terms are ORed: a term of its own would let a pod of the second one go anywhere.
    ("either", affinity([is_in("zone", "b")], [is_in("disk", "hdd")]), {"m-a2"}),
    ("home-key", affinity([is_in("type", "virtual-kubelet"), is_in("disk", "ssd")]), {"m-a1"}),
    ("exists-either", {**EXISTS, **affinity([is_in("disk", "ssd")])}, {"m-a1"}),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
async def test_a_pod_lands_only_where_it_may(
    home: Cluster,
    remote: Cluster,
    peering: Vkubelet,
    namespace: str,
    case: tuple[str, dict[str, Any], set[str]],
) -> None:
    name, spec, allowed = case
    # Bound by its name: home's scheduler can't know the disks of a mixed virtual node.
    pods = [f"{name}-{number}" for number in range(3)]
    bound = {"nodeName": ZONE_A, "cpu": "100m", **spec}
    for pod in pods:
        await create(home, build_pool_pod(pod, namespace, ZONE_A, **bound))
    for pod in pods:
        assert await wait_placed(home, remote, pod, namespace) in allowed
    await home.kubectl("delete", "pod", *pods, f"-n={namespace}", "--wait=false")
    for pod in pods:
        await wait_gone(home, pod, namespace)


async def test_a_pod_that_may_go_nowhere_behind_its_node_stays_pending(
    home: Cluster, remote: Cluster, peering: Vkubelet, namespace: str
) -> None:
    spec = {"nodeName": ZONE_A, **EXISTS, **affinity([is_in("zone", "b")])}
    await create(home, build_pool_pod("nowhere", namespace, ZONE_A, **spec))

    async def said() -> bool:
        pod = await get_pod(home, "nowhere", namespace)
        there = await find_remote_pods(remote, pod)
        return bool(there) and condition_of(there[0], "PodScheduled").get("status") == "False"

    await wait_until(said, "the remote scheduler finds no node")
    await home.kubectl("delete", "pod", "nowhere", f"-n={namespace}", "--wait=false")
    await wait_gone(home, "nowhere", namespace)


async def test_pods_on_one_take_from_the_other_where_they_overlap(
    home: Cluster, remote: Cluster, peering: Vkubelet, namespace: str
) -> None:
    await wait_allocatable(home, ZONE_A, "8")
    await wait_allocatable(home, FAST, "8")
    assert peering.component is not None
    log = peering.component.read_log(lines=200)
    assert f"virtual nodes {FAST} and {ZONE_A} overlap" in log
    spec = {"cpu": "1", "nodeSelector": {"disk": "ssd"}, "nodeName": ZONE_A}
    await create(home, build_pool_pod("shared", namespace, ZONE_A, **spec))
    assert await wait_placed(home, remote, "shared", namespace) == "m-a1"
    await wait_allocatable(home, FAST, "7")  # foreign to it
    await wait_allocatable(home, ZONE_A, "8")  # home's scheduler knows of it
    await home.kubectl("delete", "pod", "shared", f"-n={namespace}", "--wait=false")
    await wait_gone(home, "shared", namespace)
    await wait_allocatable(home, FAST, "8")


async def test_taken_over_by_the_home_scheduler(
    home: Cluster, remote: Cluster, peering: Vkubelet, namespace: str
) -> None:
    await create(home, build_pool_pod("scheduled", namespace, nodeSelector={"disk": "ssd"}))
    assert await wait_placed(home, remote, "scheduled", namespace) in {"m-a1", "m-b1"}
    pod = await get_pod(home, "scheduled", namespace)
    assert pod["spec"]["nodeName"] == FAST  # the only one whose nodes all have it
    await home.kubectl("delete", "pod", "scheduled", f"-n={namespace}", "--wait=false")
    await wait_gone(home, "scheduled", namespace)
