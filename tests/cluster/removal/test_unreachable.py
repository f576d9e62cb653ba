"""What becomes of virtual nodes while the remote API server can't be reached."""

from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.product.cloud import condition_of, get, get_pod, wait_gone
from tests.cluster.removal.pool import run_on, run_peering
from tests.cluster.waiting import wait_until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.usefixtures("pool"),
    pytest.mark.timeout(240),  # the limit of 30 s, and what the control planes take to recover
]

LOST_TAINT = "vkubelet.io/remote-unreachable"
NOT_READY_TAINT = "node.kubernetes.io/not-ready"


def _show(node: dict[str, Any]) -> dict[str, Any]:
    """Return what this is about."""
    ready, reachable = condition_of(node, "Ready"), condition_of(node, "RemoteReachable")
    taints = {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints", ())}
    return {
        "ready": (ready["status"], ready["reason"]),
        "reachable": (reachable.get("status"), reachable.get("reason")),
        "lost": (LOST_TAINT, "NoSchedule") in taints,
        "not ready": (NOT_READY_TAINT, "NoSchedule") in taints,
    }


READY = ("True", "KubeletReady")
WELL = {
    "keep": {
        "ready": READY,
        "reachable": ("True", "RemoteReachable"),
        "lost": False,
        "not ready": False,
    },
    "evict": {"ready": READY, "reachable": (None, None), "lost": False, "not ready": False},
}
LOST = {
    "keep": {
        "ready": READY,
        "reachable": ("False", "RemoteUnreachable"),
        "lost": True,
        "not ready": False,
    },
    "evict": {
        "ready": ("False", "RemoteUnreachable"),
        "reachable": (None, None),
        "lost": False,
        "not ready": True,
    },
}


@pytest.mark.parametrize("mode", ["keep", "evict"])
async def test_node_tells_and_recovers(
    home: Cluster, remote: Cluster, namespace: str, mode: str
) -> None:
    well, lost = WELL[mode], LOST[mode]
    name = f"outage-{mode}"
    async with run_peering(home, remote, name, f"--remote-unreachable={mode}"):
        pod = await run_on(home, "stays", namespace, name)
        before = await get(home, "node", name)
        assert _show(before) == well

        async def shows(wanted: dict[str, Any]) -> bool:
            return _show(await get(home, "node", name)) == wanted

        await remote.stop_api_server()
        try:
            await wait_until(lambda: shows(lost), "the node tells", timeout_seconds=60)
        finally:
            await remote.start_api_server()
        await wait_until(lambda: shows(well), "the node recovers", timeout_seconds=40)
        after = await get(home, "node", name)
        if mode == "keep":
            was, is_ = condition_of(before, "Ready"), condition_of(after, "Ready")
            assert is_["lastTransitionTime"] == was["lastTransitionTime"]

        async def same() -> bool:
            found = await get_pod(home, "stays", namespace)
            ready = condition_of(found, "Ready")["status"]
            return bool(found["metadata"]["uid"] == pod["metadata"]["uid"] and ready == "True")

        await wait_until(same, "the pod is as it was")
        await home.kubectl("delete", "pod", "stays", f"-n={namespace}", "--wait=false")
        await wait_gone(home, "stays", namespace)
