"""Peerings beside others: in both directions, and beside ReplicaSets with equal labels."""

from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.mapping.pool import (
    build_pool_pod,
    list_virtual_nodes,
    run_peering,
    tear_down,
    wait_allocatable,
    wait_placed,
)
from tests.cluster.peering import PhysicalNodes, grant_rights, revoke_rights, run_vkubelet
from tests.cluster.product.cloud import create, find_remote_pods, get, get_pod, wait_pod
from tests.cluster.waiting import wait_until

pytestmark = pytest.mark.cluster

EXCLUDE = "--node-label-exclude=process-nodes.test/*"
"""By that label process nodes know their own; there are some in either cluster here."""

HOME_TAINT = {"key": "home-only", "effect": "NoSchedule"}
HOME_NODE = {
    "name": "home-1",
    "taints": [HOME_TAINT],
    "capacity": {"cpu": "2", "memory": "4Gi", "pods": "20"},
}


@pytest.fixture(scope="module")
def home_nodes(home: Cluster) -> PhysicalNodes:
    return PhysicalNodes(home, [HOME_NODE])


async def test_peerings_in_both_directions_do_not_feed_each_other(
    both: tuple[Cluster, Cluster], home_nodes: PhysicalNodes, namespace: str
) -> None:
    home, remote = both
    await home_nodes.start()
    await grant_rights(remote, home)
    try:
        async with run_peering(home, remote, "there", EXCLUDE):
            arguments = ["--namespace=*", "--tolerate=home-only", EXCLUDE]
            async with run_vkubelet(remote, home, remote_cluster="back", arguments=arguments):
                await wait_allocatable(home, "there", "12")
                await wait_allocatable(remote, "back", "2")
                # A pod that goes over doesn't come back, though it tolerates everything.
                spec = {"tolerations": [{"operator": "Exists"}], "cpu": "1"}
                await create(home, build_pool_pod("traveller", namespace, "there", **spec))
                placed = await wait_placed(home, remote, "traveller", namespace)
                assert placed in {"m-a1", "m-a2", "m-b1"}
                await wait_pod(home, "traveller", namespace, "the pod", phase="Running")
                await wait_allocatable(home, "there", "12")
                await wait_allocatable(remote, "back", "2")
                (node,) = (await list_virtual_nodes(home, "there")).values()
                assert node["status"]["capacity"]["cpu"] == "12"
                pods = await home.kubectl("get", "pods", "-A", "-o", "name")
                assert pods.stdout.count("traveller") == 1
    finally:
        await tear_down(remote, home, "back")
        await revoke_rights(remote, home)
        await home.components["process-nodes"].stop(grace_seconds=10)
        await home.kubectl("delete", "node", "home-1")


async def test_a_remote_replica_set_with_equal_labels_adopts_nothing(
    both: tuple[Cluster, Cluster], namespace: str
) -> None:
    home, remote = both
    async with run_peering(home, remote, "labels"):
        await create(home, build_pool_pod("lone", namespace, "labels"))
        await wait_placed(home, remote, "lone", namespace)
        (before,) = await find_remote_pods(remote, await get_pod(home, "lone", namespace))
        where = before["metadata"]["namespace"]
        labels = {"app": "lone"}
        replica_set: dict[str, Any] = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "jealous", "namespace": where},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "any"}]},
                },
            },
        }
        await create(remote, replica_set)

        async def seen() -> bool:
            status = (await get(remote, "replicaset", "jealous", f"-n={where}")).get("status", {})
            return bool(status.get("observedGeneration"))

        await wait_until(seen, "the controller has looked at it")
        (after,) = await find_remote_pods(remote, await get_pod(home, "lone", namespace))
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]
        await remote.kubectl("delete", "replicaset", "jealous", f"-n={where}")
