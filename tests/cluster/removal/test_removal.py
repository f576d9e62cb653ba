"""Virtual nodes that aren't wanted any more."""

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.peering import PhysicalNodes
from tests.cluster.product.cloud import (
    condition_of,
    create,
    find_remote_pods,
    get,
    get_pod,
    wait_gone,
)
from tests.cluster.removal.pool import (
    MARKS,
    build_process,
    protect,
    run_on,
    run_peering,
    wait_node_gone,
    wait_removing,
)
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("pool")]

BOTH = ("--node-mapping=selector", "--virtual-node=stays=tier=x", "--virtual-node=goes=tier=y")
ONE = BOTH[:2]


async def _run_everywhere(home: Cluster, namespace: str) -> None:
    """Have a DaemonSet whose pods go to each virtual node."""
    labels = {"app": "everywhere"}
    pod = {
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main", "image": "any"}],
    }
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "everywhere", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    await create(home, daemon_set)

    async def on_it() -> bool:
        listed = await home.kubectl("get", "pods", f"-n={namespace}", "-l=app=everywhere", "-ojson")
        return any(pod["spec"].get("nodeName") == "goes" for pod in listed.json()["items"])

    await wait_until(on_it, "the DaemonSet has a pod on the node")


async def test_node_of_an_earlier_configuration_is_emptied_and_goes(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    async with run_peering(home, remote, "shrinks", *BOTH):
        loose = await run_on(home, "loose", namespace, "goes")
        held = await run_on(home, "held", namespace, "goes")
        other = await run_on(home, "other", namespace, "stays")
        await protect(home, "held", namespace)
        await _run_everywhere(home, namespace)
    async with run_peering(home, remote, "shrinks", *ONE, "--drain-timeout=25s"):
        await wait_removing(home, "goes")
        await wait_gone(home, "loose", namespace)
        assert await find_remote_pods(remote, loose) == []
        # The one that its budget holds is served, and shown, to the last.
        logs = await home.kubectl("logs", "held", f"-n={namespace}")
        assert logs.stdout == "started\n"
        node = await get(home, "node", "goes")
        assert condition_of(node, "Ready")["status"] == "True"
        assert (await get_pod(home, "held", namespace))["metadata"]["uid"] == held["metadata"][
            "uid"
        ]
        await wait_gone(home, "held", namespace, seconds=40)
        assert await find_remote_pods(remote, held) == []
        await wait_node_gone(home, "goes")
        after = await get_pod(home, "other", namespace)
        assert after["metadata"]["uid"] == other["metadata"]["uid"]
        assert not (await get(home, "node", "stays"))["spec"].get("unschedulable")
        await home.kubectl("delete", "daemonset", "everywhere", f"-n={namespace}")


async def test_node_that_is_wanted_again_goes_on_after_a_restart(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    async with run_peering(home, remote, "wavers", *BOTH):
        held = await run_on(home, "held", namespace, "goes")
        await protect(home, "held", namespace)
    async with run_peering(home, remote, "wavers", *ONE):
        node = await wait_removing(home, "goes")
    async with run_peering(home, remote, "wavers", *BOTH):

        async def goes_on() -> bool:
            nonlocal node
            node = await get(home, "node", "goes")
            marks = set(MARKS) & node["metadata"].get("annotations", {}).keys()
            return not node["spec"].get("unschedulable") and not marks

        await wait_until(goes_on, "the cordon is undone")
        assert condition_of(node, "Ready")["status"] == "True"
        assert (await get_pod(home, "held", namespace))["metadata"]["uid"] == held["metadata"][
            "uid"
        ]
        # With nothing on it, it goes at once.
        await home.kubectl("delete", "pod", "held", f"-n={namespace}")
    async with run_peering(home, remote, "wavers", *ONE):
        await wait_node_gone(home, "goes")


async def test_group_that_is_gone_is_kept_for_a_while(
    home: Cluster, remote: Cluster, pool: PhysicalNodes
) -> None:
    arguments = ("--node-mapping=label", "--mapping-label=tier", "--group-removal-delay=8s")
    labels = pool.nodes["r-y"]["labels"]
    async with run_peering(home, remote, "tiers", *arguments):
        try:
            pool.change("r-y", labels={**labels, "tier": "z"})

            async def deserted() -> bool:
                ready = condition_of(await get(home, "node", "tiers-y"), "Ready")
                return (ready["status"], ready["reason"]) == ("False", "NoEligibleNodes")

            await wait_until(deserted, "the node says so")
            node = await get(home, "node", "tiers-y")
            assert node["status"]["allocatable"]["cpu"] == "0"
            assert not node["spec"].get("unschedulable")
            await wait_node_gone(home, "tiers-y")
            assert await get(home, "node", "tiers-z")
        finally:
            pool.change("r-y", labels=labels)

        async def back() -> bool:
            ready = condition_of(await get(home, "node", "tiers-y"), "Ready")
            return ready.get("status") == "True"

        await wait_until(back, "the group has its node again")
        await wait_node_gone(home, "tiers-z")


async def test_nothing_goes_while_the_remote_side_is_out_of_reach(
    home: Cluster, remote: Cluster
) -> None:
    async with run_peering(home, remote, "patient", *BOTH):
        pass
    process = build_process(home, remote, "patient", *ONE)
    try:
        await remote.stop_api_server()
        try:
            process.start()

            async def told() -> bool:
                reason = condition_of(await get(home, "node", "goes"), "Ready")["reason"]
                return bool(reason == "RemoteUnreachable")

            await wait_until(told, "the node says so", timeout_seconds=60)
            assert not (await get(home, "node", "goes"))["spec"].get("unschedulable")
        finally:
            await remote.start_api_server()
        await wait_node_gone(home, "goes")
    finally:
        await process.stop()
