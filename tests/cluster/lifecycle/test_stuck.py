"""Pods that make no progress over there, and what becomes of them at home."""

import asyncio

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.lifecycle.workloads import (
    build,
    build_template,
    build_workload,
    list_pods,
    remote_pod,
    wait_replaced,
    wait_rolled_out,
)
from tests.cluster.product.cloud import condition_of, create, get_pod, wait_gone, wait_pod
from tests.cluster.waiting import wait_until

# True of the virtual node, which has no such label, and false of its physical nodes.
_TERM = {"key": "disktype", "operator": "NotIn", "values": ["ssd", "hdd"]}
NOWHERE = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [_TERM]}]
        }
    }
}

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("vkubelet")]


async def test_pod_without_a_place_is_evicted(home: Cluster, namespace: str) -> None:
    template = build_template({"app": "lost"})
    template["spec"]["affinity"] = NOWHERE
    await create(home, build_workload("Deployment", "lost", namespace, template, replicas=1))
    pods: list[dict[str, object]] = []

    async def made() -> bool:
        pods[:] = await list_pods(home, namespace, "app=lost")
        return bool(pods)

    await wait_until(made, "the first pod")
    (first,) = await list_pods(home, namespace, "app=lost")
    await wait_replaced(home, namespace, "app=lost", first["metadata"]["uid"])

    async def told() -> bool:
        listed = await home.kubectl(
            "get",
            "events",
            f"-n={namespace}",
            "--field-selector=reason=RemoteUnschedulable",
            "-o=json",
        )
        return any("evicted" in event["message"] for event in listed.json()["items"])

    await wait_until(told, "an event says why")
    await home.kubectl("delete", "deployment", "lost", f"-n={namespace}")


async def test_pod_whose_remote_pod_cannot_end_is_evicted(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    template = build_template({"app": "held"})
    await create(home, build_workload("Deployment", "held", namespace, template, replicas=1))
    await wait_rolled_out(home, "deployment/held", namespace)
    (pod,) = await list_pods(home, namespace, "app=held")
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    there = (await remote_pod(remote, pod))["metadata"]
    where = ("pod", there["name"], f"-n={there['namespace']}")
    await remote.kubectl("patch", *where, '--patch={"metadata":{"finalizers":["test/holds"]}}')
    await remote.kubectl("delete", *where, "--wait=false")

    async def not_ready() -> bool:
        ready = condition_of(await get_pod(home, name, namespace), "Ready")
        return bool(ready["status"] == "False")

    await wait_until(not_ready, "home says that it isn't ready")
    await wait_replaced(home, namespace, "app=held", uid)
    await wait_rolled_out(home, "deployment/held", namespace)
    assert (await get_pod(home, name, namespace))["metadata"]["deletionTimestamp"]
    await remote.kubectl("patch", *where, '--patch={"metadata":{"finalizers":null}}')
    await wait_gone(home, name, namespace)


async def test_refusal_by_a_quota_passes(home: Cluster, remote: Cluster, namespace: str) -> None:
    template = build_template({"app": "many"})
    await create(home, build_workload("Deployment", "many", namespace, template, replicas=1))
    await wait_rolled_out(home, "deployment/many", namespace)
    (pod,) = await list_pods(home, namespace, "app=many")
    where = (await remote_pod(remote, pod))["metadata"]["namespace"]
    await remote.kubectl("create", "quota", "full", "--hard=pods=1", f"-n={where}")
    await home.kubectl("scale", "deployment/many", "--replicas=2", f"-n={namespace}")

    async def refused() -> bool:
        pods = await list_pods(home, namespace, "app=many")
        return any("exceeded quota" in pod["status"].get("message", "") for pod in pods)

    await wait_until(refused, "the reason is in the status")
    await remote.kubectl("delete", "quota", "full", f"-n={where}")
    await wait_rolled_out(home, "deployment/many", namespace)


async def test_what_is_freed_below_a_quota_is_used_at_once(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    await create(home, build("first", namespace))
    first = await wait_pod(home, "first", namespace, "the first pod", phase="Running")
    where = (await remote_pod(remote, first))["metadata"]["namespace"]
    await remote.kubectl("create", "quota", "full", "--hard=pods=1", f"-n={where}")
    await create(home, *(build(name, namespace) for name in ("second", "third")))

    async def refused() -> bool:
        pods = [await get_pod(home, name, namespace) for name in ("second", "third")]
        return all("exceeded quota" in pod["status"].get("message", "") for pod in pods)

    await wait_until(refused, "the reason is in the status")
    await asyncio.sleep(25)  # their back-off has grown: the third try is 10 to 30 s away
    started = asyncio.get_running_loop().time()
    await home.kubectl("delete", "pod", "first", f"-n={namespace}", "--wait=false")

    async def one_runs() -> bool:
        pods = [await get_pod(home, name, namespace) for name in ("second", "third")]
        return any(pod["status"]["phase"] == "Running" for pod in pods)

    await wait_until(one_runs, "one of the others runs", timeout_seconds=20)
    took = asyncio.get_running_loop().time() - started
    assert took < 12, f"{took:.1f} s, of which up to 6 are the quota's"
