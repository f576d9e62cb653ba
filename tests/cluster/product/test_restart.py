"""Ends, restarts and outages: pods and conditions stay as they are."""

import signal
import time
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.peering import Vkubelet
from tests.cluster.product.cloud import (
    NODE,
    condition_of,
    find_remote_pods,
    get,
    get_pod,
    run_pod,
    wait_gone,
)
from tests.cluster.waiting import wait_until

pytestmark = pytest.mark.cluster

STOP_SECONDS = 10.0


async def _snapshot(home: Cluster, remote: Cluster, name: str, namespace: str) -> dict[str, Any]:
    """Take what a restart must not change."""
    pod = await get_pod(home, name, namespace)
    (there,) = await find_remote_pods(remote, pod)
    ready = condition_of(await get(home, "node", NODE), "Ready")
    return {
        "node": (ready["status"], ready["lastTransitionTime"]),
        "home": (pod["metadata"]["uid"], pod["status"]["containerStatuses"]),
        "remote": (there["metadata"]["uid"], there["status"]["containerStatuses"]),
        "ready": condition_of(pod, "Ready")["lastTransitionTime"],
    }


async def test_killed_and_started_again_nothing_changes(
    home: Cluster, remote: Cluster, vkubelet: Vkubelet, namespace: str
) -> None:
    await run_pod(home, "stays", namespace)
    before = await _snapshot(home, remote, "stays", namespace)
    port = (await get(home, "node", NODE))["status"]["daemonEndpoints"]
    assert vkubelet.component is not None
    vkubelet.component.send_signal(signal.SIGKILL)
    await vkubelet.component.wait()
    vkubelet.start()
    await vkubelet.wait_ready()
    assert await _snapshot(home, remote, "stays", namespace) == before
    assert (await get(home, "node", NODE))["status"]["daemonEndpoints"] == port
    logs = await home.kubectl("logs", "stays", f"-n={namespace}")
    assert logs.stdout == "started\n"


async def test_a_signal_ends_it_in_time_and_leaves_everything(
    home: Cluster, remote: Cluster, vkubelet: Vkubelet, namespace: str
) -> None:
    await run_pod(home, "left", namespace)
    before = await _snapshot(home, remote, "left", namespace)
    assert vkubelet.component is not None
    started = time.monotonic()
    vkubelet.component.send_signal(signal.SIGTERM)
    assert await vkubelet.component.wait() == 0
    assert time.monotonic() - started < STOP_SECONDS
    assert await _snapshot(home, remote, "left", namespace) == before
    # What is deleted meanwhile is finished after the start.
    await home.kubectl("delete", "pod", "left", f"-n={namespace}", "--wait=false")
    vkubelet.start()
    await vkubelet.wait_ready()
    await wait_gone(home, "left", namespace)


@pytest.mark.timeout(300)
async def test_the_remote_api_goes_and_comes_back(
    home: Cluster, remote: Cluster, vkubelet: Vkubelet, namespace: str
) -> None:
    pod = await run_pod(home, "patient", namespace)
    await remote.stop_api_server()
    try:

        async def unreachable() -> bool:
            ready = condition_of(await get(home, "node", NODE), "Ready")
            return (ready["status"], ready["reason"]) == ("False", "RemoteUnreachable")

        await wait_until(unreachable, "the node says so", timeout_seconds=60)
        assert await vkubelet.read_ready() == 503
    finally:
        await remote.start_api_server()

    async def back() -> bool:
        return bool(condition_of(await get(home, "node", NODE), "Ready")["status"] == "True")

    await wait_until(back, "the node is Ready again", timeout_seconds=30)

    async def same() -> bool:
        after = await get_pod(home, "patient", namespace)
        return bool(
            after["metadata"]["uid"] == pod["metadata"]["uid"]
            and condition_of(after, "Ready")["status"] == "True"
        )

    await wait_until(same, "the pod is as it was", timeout_seconds=30)
    await vkubelet.wait_ready()
    await run_pod(home, "again", namespace)


async def test_the_home_api_goes_and_comes_back(
    home: Cluster, remote: Cluster, vkubelet: Vkubelet, namespace: str
) -> None:
    pod = await run_pod(home, "calm", namespace)
    (there,) = await find_remote_pods(remote, pod)
    await home.kill_api_server()
    await home.start_api_server()
    assert vkubelet.component is not None
    assert vkubelet.component.exit_code is None
    await run_pod(home, "after", namespace)
    (after,) = await find_remote_pods(remote, pod)
    assert after["metadata"]["uid"] == there["metadata"]["uid"]
