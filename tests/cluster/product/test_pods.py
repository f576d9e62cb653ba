"""Pods across: where they run, what travels, how they end."""

import asyncio
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.product.cloud import (
    NODE,
    build_pod,
    condition_of,
    create,
    find_remote_pods,
    get,
    get_pod,
    run_pod,
    wait_gone,
    wait_pod,
)
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("vkubelet")]


async def test_runs_in_the_remote_cluster_and_shows_its_status(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    pod = await run_pod(home, "web", namespace)
    (there,) = await find_remote_pods(remote, pod)
    assert there["metadata"]["name"] == "web"
    assert there["metadata"]["namespace"].startswith(f"{namespace}-")
    assert there["metadata"]["labels"]["app"] == "web"
    (owner,) = there["metadata"]["ownerReferences"]
    assert owner["kind"] == "ConfigMap"
    assert owner["name"].startswith("vkubelet-cloud-")
    assert owner["controller"] is True
    status = pod["status"]
    assert status["hostIP"] == "127.0.0.1"
    assert "podIP" not in status
    (container,) = status["containerStatuses"]
    assert container["ready"] is True
    assert "running" in container["state"]


async def test_is_confined_by_injected_affinity(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    pod = await run_pod(home, "confined", namespace)
    (there,) = await find_remote_pods(remote, pod)
    terms = there["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert terms == [
        {"matchExpressions": [{"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]}]}
    ]


async def test_its_own_constraints_travel(home: Cluster, remote: Cluster, namespace: str) -> None:
    selector = {"type": "virtual-kubelet", "vkubelet.io/peering": NODE}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "type", "operator": "In", "values": ["virtual-kubelet"]},
                        ]
                    }
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "preference": {
                        "matchExpressions": [
                            {"key": "disktype", "operator": "In", "values": ["hdd"]}
                        ]
                    },
                }
            ],
        }
    }
    pod = await run_pod(home, "picky", namespace, nodeSelector=selector, affinity=affinity)
    (there,) = await find_remote_pods(remote, pod)
    assert there["spec"]["nodeName"] == "hdd-1"
    assert "nodeSelector" not in there["spec"]


async def test_a_keyless_toleration_is_no_way_out(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    pods = [
        await run_pod(home, f"out-{number}", namespace, tolerations=[{"operator": "Exists"}])
        for number in range(3)
    ]
    for pod in pods:
        (there,) = await find_remote_pods(remote, pod)
        assert there["spec"]["nodeName"] != "control-plane"


async def test_a_default_pods_token_stays_at_home(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    pod = await run_pod(home, "default", namespace)
    assert any(volume["name"].startswith("kube-api-access") for volume in pod["spec"]["volumes"])
    (there,) = await find_remote_pods(remote, pod)
    assert there["spec"]["automountServiceAccountToken"] is False
    assert not there["spec"].get("volumes")
    assert not there["spec"]["containers"][0].get("volumeMounts")


async def test_its_own_end_is_shown(home: Cluster, namespace: str) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "spec": build_pod("x", namespace, command=["sh", "-c", "exit 3"])["spec"]
                | {"restartPolicy": "Never"}
            },
        },
    }
    await create(home, job)

    async def failed() -> bool:
        return condition_of(await get(home, "job", "job", f"-n={namespace}"), "Failed") != {}

    await wait_until(failed, "the job has failed")
    selector = "--selector=job-name=job"
    listed = await home.kubectl("get", "pods", f"-n={namespace}", selector, "-o", "json")
    (pod,) = listed.json()["items"]
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


async def test_is_gone_at_home_only_after_it_is_gone_there(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    trap = ["sh", "-c", "trap 'sleep 2; exit 0' TERM; echo up; while :; do sleep 0.1; done"]
    pod = await run_pod(home, "slow", namespace, command=trap, terminationGracePeriodSeconds=30)
    await home.kubectl("delete", "pod", "slow", f"-n={namespace}", "--wait=false")
    async with asyncio.timeout(30):
        while await get_pod(home, "slow", namespace):
            still_there = bool(await find_remote_pods(remote, pod))
            if not still_there:
                break
    await wait_gone(home, "slow", namespace)
    assert await find_remote_pods(remote, pod) == []


async def test_a_forced_deletion_ends_it_there_too(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    pod = await run_pod(home, "forced", namespace)
    await home.kubectl("delete", "pod", "forced", f"-n={namespace}", "--force", "--grace-period=0")

    async def gone() -> bool:
        return not await find_remote_pods(remote, pod)

    await wait_until(gone, "the orphan is removed")


PENDING: list[tuple[str, dict[str, Any], str]] = [
    # The documented rights at home don't hold those of docs/rbac/home-namespace.yaml.
    ("config-map", {"volumes": [{"name": "c", "configMap": {"name": "a"}}]}, "watch configmaps"),
    ("secret", {"volumes": [{"name": "s", "secret": {"secretName": "a"}}]}, "watch secrets"),
    (
        "claim",
        {
            # The scheduler leaves a pod alone whose claim it doesn't find.
            "nodeName": NODE,
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}],
        },
        "PersistentVolumeClaim a",
    ),
    ("host-network", {"hostNetwork": True}, "hostNetwork"),
    ("host-path", {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}, "hostPath"),
]


@pytest.mark.parametrize(("name", "spec", "named"), PENDING, ids=[case[0] for case in PENDING])
async def test_what_cannot_travel_leaves_it_pending_with_a_reason(
    home: Cluster, namespace: str, name: str, spec: dict[str, Any], named: str
) -> None:
    await create(home, build_pod(name, namespace, **spec))

    async def explained() -> bool:
        status = (await get_pod(home, name, namespace)).get("status", {})
        return bool(
            status.get("phase") == "Pending"
            and status.get("reason")
            and named in status.get("message", "")
        )

    await wait_until(explained, "the reason is in the status")

    async def told() -> bool:
        listed = await home.kubectl(
            "get", "events", f"-n={namespace}", "--field-selector=type=Warning", "-o", "json"
        )
        return any(named in event["message"] for event in listed.json()["items"])

    await wait_until(told, "an event says why")
    await home.kubectl("delete", "pod", name, f"-n={namespace}", "--timeout=20s")


async def test_a_remote_pod_of_somebody_else_is_never_touched(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    pod = await run_pod(home, "first", namespace)
    (there,) = await find_remote_pods(remote, pod)
    remote_namespace = there["metadata"]["namespace"]
    foreign = build_pod("taken", remote_namespace, nodeSelector={"disktype": "hdd"}, tolerations=[])
    await remote.kubectl(
        "create", "serviceaccount", "default", f"-n={remote_namespace}", check=False
    )
    await create(remote, foreign)
    await create(home, build_pod("taken", namespace))

    async def explained() -> bool:
        status = (await get_pod(home, "taken", namespace)).get("status", {})
        return "not of this peering" in status.get("message", "")

    await wait_until(explained, "the reason names the conflict")
    before = await get_pod(remote, "taken", remote_namespace)
    await home.kubectl("delete", "pod", "taken", f"-n={namespace}", "--timeout=20s")
    after = await get_pod(remote, "taken", remote_namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "deletionTimestamp" not in after["metadata"]


async def test_an_unschedulable_pod_shows_the_remote_reason(home: Cluster, namespace: str) -> None:
    await create(home, build_pod("nowhere", namespace, affinity=_only("none")))

    async def explained() -> bool:
        status = (await get_pod(home, "nowhere", namespace)).get("status", {})
        return status.get("reason") == "RemoteUnschedulable" and bool(status.get("message"))

    await wait_until(explained, "the remote scheduler's reason is shown")


def _only(disktype: str) -> dict[str, Any]:
    """Require a label that home's scheduler doesn't look for: virtual nodes have it not."""
    # NotIn is true of the virtual node, and false of the physical nodes that have the value.
    values = ["ssd", "hdd", disktype]
    term = {"matchExpressions": [{"key": "disktype", "operator": "NotIn", "values": values}]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    }


async def test_daemonset_pods_are_shown_without_being_run(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    pod = build_pod("x", namespace, tolerations=[{"operator": "Exists"}])
    daemonset = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": pod["spec"]},
        },
    }
    await create(home, daemonset)
    await home.kubectl("rollout", "status", "daemonset/agent", f"-n={namespace}", "--timeout=25s")
    listed = await home.kubectl("get", "pods", f"-n={namespace}", "-o", "json")
    (shown,) = listed.json()["items"]
    assert condition_of(shown, "vkubelet.io/Placeholder")["status"] == "True"
    assert await find_remote_pods(remote, shown) == []
    await home.kubectl("delete", "daemonset", "agent", f"-n={namespace}", "--timeout=25s")


async def test_pods_of_a_replica_set_of_the_remote_cluster_stay_apart(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    pod = await run_pod(home, "alike", namespace)
    (there,) = await find_remote_pods(remote, pod)
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "alike", "namespace": there["metadata"]["namespace"]},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "alike"}},
            "template": {
                "metadata": {"labels": {"app": "alike"}},
                "spec": {"containers": [{"name": "c", "image": "any"}]},
            },
        },
    }
    await create(remote, replica_set)

    async def observed() -> bool:
        found = await get(remote, "replicaset", "alike", f"-n={there['metadata']['namespace']}")
        return bool(found.get("status", {}).get("observedGeneration"))

    await wait_until(observed, "the ReplicaSet was looked at")
    (after,) = await find_remote_pods(remote, pod)
    assert after["metadata"]["uid"] == there["metadata"]["uid"]
    assert "deletionTimestamp" not in after["metadata"]


async def test_a_pod_lost_over_there_is_made_again(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    pod = await run_pod(home, "lost", namespace)
    (there,) = await find_remote_pods(remote, pod)
    await remote.kubectl(
        "delete", "pod", "lost", f"-n={there['metadata']['namespace']}", "--grace-period=1"
    )

    async def again() -> bool:
        found = await find_remote_pods(remote, pod)
        return bool(found) and found[0]["metadata"]["uid"] != there["metadata"]["uid"]

    await wait_until(again, "another remote pod")
    after = await wait_pod(home, "lost", namespace, "the home pod", phase="Running")
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
