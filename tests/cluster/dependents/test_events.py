"""What the remote cluster says of a pod, on the home pod."""

from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.dependents.pods import NODE, build, find_events
from tests.cluster.peering import Vkubelet
from tests.cluster.product.cloud import create, wait_pod
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("vkubelet")]


async def find_from_there(home: Cluster, pod: str, namespace: str) -> list[dict[str, Any]]:
    """Find the events that speak of the remote pod."""
    events = await find_events(home, pod, namespace)
    return [event for event in events if f"{namespace}-there" in event["message"]]


async def test_the_remote_schedulers_word_is_shown_once_also_after_a_restart(
    home: Cluster, granted: str, vkubelet: Vkubelet
) -> None:
    await create(home, build("told", granted))
    pod = await wait_pod(home, "told", granted, "told", phase="Running")

    async def shown() -> bool:
        return bool(await find_from_there(home, "told", granted))

    await wait_until(shown, "event of the remote scheduler", timeout_seconds=20)
    (event,) = await find_from_there(home, "told", granted)
    assert event["reason"] == "Scheduled"
    assert event["reportingComponent"] == "default-scheduler"
    assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]
    assert event["count"] == 1
    assert event["lastTimestamp"] >= pod["metadata"]["creationTimestamp"]
    await vkubelet.stop()
    vkubelet.start()
    await vkubelet.wait_ready()
    await create(home, build("next", granted))
    await wait_pod(home, "next", granted, "next", phase="Running")
    assert len(await find_from_there(home, "told", granted)) == 1


async def test_a_pod_that_fits_nowhere_over_there_says_why(home: Cluster, granted: str) -> None:
    expression = {"key": "disktype", "operator": "In", "values": ["tape"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    await create(home, build("nowhere", granted, nodeName=NODE, nodeSelector={}, affinity=affinity))

    async def shown() -> bool:
        events = await find_events(home, "nowhere", granted)
        return any(event["reason"] == "FailedScheduling" for event in events)

    await wait_until(shown, "event FailedScheduling", timeout_seconds=30)
