"""The virtual node, as home sees it."""

from decimal import Decimal

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.peering import PhysicalNodes, Vkubelet
from tests.cluster.product.cloud import NODE, condition_of, get
from tests.cluster.waiting import wait_until
from vkubelet.kube.quantity import parse_quantity

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("vkubelet")]


async def test_says_what_it_is(home: Cluster) -> None:
    node = await get(home, "node", NODE)
    labels = node["metadata"]["labels"]
    assert labels["type"] == "virtual-kubelet"
    assert labels["kubernetes.io/hostname"] == NODE
    assert labels["vkubelet.io/peering"] == "cloud"
    assert "node.kubernetes.io/exclude-from-external-load-balancers" in labels
    assert {
        "key": "virtual-kubelet.io/provider",
        "value": "cloud",
        "effect": "NoSchedule",
    } in node["spec"]["taints"]
    status = node["status"]
    assert status["addresses"] == [{"type": "InternalIP", "address": "127.0.0.1"}]
    assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] >= 10250
    assert condition_of(node, "Ready")["status"] == "True"
    assert condition_of(node, "NetworkUnavailable")["status"] == "False"
    lease = await get(home, "lease", NODE, "--namespace=kube-node-lease")
    assert lease["spec"]["leaseDurationSeconds"] == 40


async def test_offers_the_sum_of_what_can_be_used(
    home: Cluster, physical_nodes: PhysicalNodes
) -> None:
    status = (await get(home, "node", NODE))["status"]
    assert parse_quantity(status["allocatable"]["cpu"]) == Decimal(12)  # not the control plane's
    assert parse_quantity(status["capacity"]["memory"]) == 3 * parse_quantity("8Gi")


async def test_follows_its_physical_nodes(home: Cluster, remote: Cluster) -> None:
    async def offers(cores: int) -> bool:
        status = (await get(home, "node", NODE))["status"]
        return parse_quantity(status["allocatable"]["cpu"]) == cores

    await remote.kubectl("cordon", "hdd-1")
    try:
        await wait_until(lambda: offers(8), "a cordon takes a node's share away")
    finally:
        await remote.kubectl("uncordon", "hdd-1")
    await wait_until(lambda: offers(12), "an uncordon gives it back")


async def test_is_registered_again_when_somebody_deletes_it(home: Cluster) -> None:
    before = await get(home, "node", NODE)
    await home.kubectl("delete", "node", NODE)

    async def back() -> bool:
        node = await get(home, "node", NODE)
        return bool(
            node
            and node["metadata"]["uid"] != before["metadata"]["uid"]
            and condition_of(node, "Ready").get("status") == "True"
        )

    await wait_until(back, "the node is there again, Ready")
    assert "taints" in (await get(home, "node", NODE))["spec"]


async def test_restores_what_is_ours_and_keeps_what_is_not(home: Cluster) -> None:
    await home.kubectl("label", "node", NODE, "type-", "mine=yes")
    await home.kubectl("taint", "node", NODE, "mine=yes:PreferNoSchedule")
    try:

        async def restored() -> bool:
            node = await get(home, "node", NODE)
            return bool(node["metadata"]["labels"].get("type") == "virtual-kubelet")

        await wait_until(restored, "our label is back")
        node = await get(home, "node", NODE)
        assert node["metadata"]["labels"]["mine"] == "yes"
        assert {"mine", "virtual-kubelet.io/provider"} <= {
            taint["key"] for taint in node["spec"]["taints"]
        }
    finally:
        await home.kubectl("label", "node", NODE, "mine-")
        await home.kubectl("taint", "node", NODE, "mine-")


async def test_serves_its_own_health(vkubelet: Vkubelet) -> None:
    assert await vkubelet.read_ready() == 200
