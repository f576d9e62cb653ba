"""One virtual node a value of a label, and large groups that are split."""

import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.mapping.pool import (
    build_pool_pod,
    is_ready,
    list_virtual_nodes,
    run_peering,
    wait_allocatable,
    wait_placed,
)
from tests.cluster.peering import PhysicalNodes, Vkubelet
from tests.cluster.product.cloud import create, get, wait_gone
from tests.cluster.waiting import wait_until

pytestmark = pytest.mark.cluster

NAME = "zones"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def peering(home: Cluster, remote: Cluster, pool: PhysicalNodes) -> AsyncIterator[Vkubelet]:
    arguments = ["--node-mapping=label", "--mapping-label=zone"]
    async with run_peering(home, remote, NAME, *arguments) as process:
        yield process


async def test_a_virtual_node_for_each_value(home: Cluster, peering: Vkubelet) -> None:
    nodes = await list_virtual_nodes(home, NAME)
    assert set(nodes) == {"zones-a", "zones-b"}
    assert all(map(is_ready, nodes.values()))


async def test_pods_go_to_the_nodes_of_the_value(
    home: Cluster, remote: Cluster, peering: Vkubelet, namespace: str
) -> None:
    exists = {"tolerations": [{"operator": "Exists"}]}
    await create(home, build_pool_pod("by-zone", namespace, nodeSelector={"zone": "b"}))
    await create(home, build_pool_pod("on-a", namespace, "zones-a", **exists))
    assert await wait_placed(home, remote, "by-zone", namespace) == "m-b1"
    assert await wait_placed(home, remote, "on-a", namespace) in {"m-a1", "m-a2"}
    await home.kubectl("delete", "pod", "by-zone", "on-a", f"-n={namespace}", "--wait=false")
    await wait_gone(home, "by-zone", namespace)
    await wait_gone(home, "on-a", namespace)


async def test_a_live_label_change_moves_a_node_and_makes_a_new_one(
    home: Cluster, peering: Vkubelet, pool: PhysicalNodes
) -> None:
    labels = pool.nodes["m-a2"]["labels"]
    await wait_allocatable(home, "zones-a", "8")
    try:
        pool.change("m-a2", labels={**labels, "zone": "b"})
        await wait_allocatable(home, "zones-a", "4")
        await wait_allocatable(home, "zones-b", "8")
        pool.change("m-a2", labels={**labels, "zone": "c"})
        await wait_allocatable(home, "zones-b", "4")

        async def there() -> bool:
            return is_ready(await get(home, "node", "zones-c"))

        await wait_until(there, "the new value has its virtual node")
        await wait_allocatable(home, "zones-c", "4")
    finally:
        pool.change("m-a2", labels=labels)
    await wait_allocatable(home, "zones-a", "8")


async def test_a_value_that_is_gone_takes_its_virtual_node_with_it(
    home: Cluster, remote: Cluster, pool: PhysicalNodes, namespace: str
) -> None:
    arguments = ["--node-mapping=label", "--mapping-label=zone", "--group-removal-delay=2s"]
    labels = pool.nodes["m-b1"]["labels"]
    async with run_peering(home, remote, "brief", *arguments):
        await create(home, build_pool_pod("leaves", namespace, "brief-b"))
        assert await wait_placed(home, remote, "leaves", namespace) == "m-b1"
        pool.change("m-b1", labels={**labels, "zone": "a"})
        try:

            async def cordoned() -> bool:
                node = await get(home, "node", "brief-b")
                return not node or bool(node["spec"].get("unschedulable"))

            await wait_until(cordoned, "it's cordoned")
            await wait_gone(home, "leaves", namespace)

            async def gone() -> bool:
                return not await get(home, "node", "brief-b")

            await wait_until(gone, "it's removed once it's empty")
        finally:
            pool.change("m-b1", labels=labels)

        async def back() -> bool:
            return is_ready(await get(home, "node", "brief-b"))

        await wait_until(back, "it comes back with its value")


async def test_a_split_group_keeps_its_slices_across_changes_and_a_restart(
    home: Cluster, remote: Cluster, pool: PhysicalNodes, namespace: str
) -> None:
    arguments = ["--max-nodes-per-virtual-node=2"]
    async with run_peering(home, remote, "sliced", *arguments) as process:
        nodes = await list_virtual_nodes(home, "sliced")
        assert set(nodes) == {"sliced-0", "sliced-1"}
        await wait_allocatable(home, "sliced-0", "8")
        await wait_allocatable(home, "sliced-1", "4")
        await create(home, build_pool_pod("second", namespace, "sliced-1"))
        assert await wait_placed(home, remote, "second", namespace) == "m-b1"
        before = {name: _slice(node) for name, node in nodes.items()}
        # A node leaves the first slice while the process is away: nobody moves up.
        assert process.component is not None
        process.component.send_signal(signal.SIGTERM)
        await process.component.wait()
        labels = pool.nodes["m-a1"]["labels"]
        pool.change("m-a1", labels={**labels, "suite": "none"})
        try:
            process.start()
            await process.wait_ready()
            await wait_allocatable(home, "sliced-0", "4")
            after = await list_virtual_nodes(home, "sliced")
            assert _slice(after["sliced-1"]) == before["sliced-1"]
        finally:
            pool.change("m-a1", labels=labels)
        await wait_allocatable(home, "sliced-0", "8")
        whole = await list_virtual_nodes(home, "sliced")
        assert {name: _slice(node) for name, node in whole.items()} == before


def _slice(node: dict[str, dict[str, dict[str, str]]]) -> str:
    return node["metadata"]["annotations"]["vkubelet.io/slice-members"]
