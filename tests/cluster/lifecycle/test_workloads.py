"""Deployments, StatefulSets, Jobs and CronJobs, as on any node."""

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.lifecycle.workloads import (
    NODE,
    build_job,
    build_template,
    build_workload,
    list_pods,
    remote_pod,
    wait_job,
    wait_replaced,
    wait_rolled_out,
)
from tests.cluster.product.cloud import create
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("vkubelet")]


async def test_deployment_rolls_out_and_back(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    deployment = build_workload(
        "Deployment", "web", namespace, build_template({"app": "web"}), replicas=2
    )
    await create(home, deployment)
    await wait_rolled_out(home, "deployment/web", namespace)
    for change in (
        ("set", "image", "deployment/web", "main=v2"),
        ("rollout", "undo", "deploy/web"),
    ):
        await home.kubectl(*change, f"-n={namespace}")
        await wait_rolled_out(home, "deployment/web", namespace)
    wanted = "any"

    async def settled() -> bool:
        pods = await list_pods(home, namespace, "app=web")
        images = [(await remote_pod(remote, pod)) for pod in pods]
        return len(pods) == 2 and all(
            pod and pod["spec"]["containers"][0]["image"] == wanted for pod in images
        )

    await wait_until(settled, "two pods with the first image on both sides")


async def test_stateful_set_that_is_deleted_fast_comes_back(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    template = build_template({"app": "db"})
    stateful = build_workload(
        "StatefulSet", "db", namespace, template, replicas=3, serviceName="db"
    )
    stateful["spec"]["podManagementPolicy"] = "Parallel"
    await create(home, stateful)
    await wait_rolled_out(home, "statefulset/db", namespace)
    before = {pod["metadata"]["uid"] for pod in await list_pods(home, namespace, "app=db")}
    await home.kubectl("delete", "pods", "-l=app=db", f"-n={namespace}", "--wait=false")

    async def back() -> bool:
        pods = await list_pods(home, namespace, "app=db")
        there = [await remote_pod(remote, pod) for pod in pods]
        return (
            len(pods) == 3
            and not before & {pod["metadata"]["uid"] for pod in pods}
            and all(pod["status"]["phase"] == "Running" for pod in pods)
            and all(there)
        )

    await wait_until(back, "three new pods run under the old names", timeout_seconds=60)


async def test_jobs_end_as_their_containers_do(home: Cluster, namespace: str) -> None:
    policy = {
        "rules": [
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        ]
    }
    await create(
        home,
        build_job("done", namespace, "exit 0", completions=3, parallelism=2),
        build_job("fails", namespace, "exit 3", backoffLimit=1),
        build_job("hopeless", namespace, "exit 42", backoffLimit=6, podFailurePolicy=policy),
    )
    assert (await wait_job(home, "done", namespace, "Complete"))["succeeded"] == 3
    fails = await wait_job(home, "fails", namespace, "Failed")
    assert fails["failed"] == 2
    assert fails["conditions"][-1]["reason"] == "BackoffLimitExceeded"
    hopeless = await wait_job(home, "hopeless", namespace, "Failed")
    assert hopeless["failed"] == 1
    assert hopeless["conditions"][-1]["reason"] == "PodFailurePolicy"
    assert "exit code 42" in hopeless["conditions"][-1]["message"]


async def test_cron_job_runs(home: Cluster, namespace: str) -> None:
    job = build_job("tick", namespace, "echo tick")
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": namespace},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job["spec"]}},
    }
    await create(home, cron)

    async def ran() -> bool:
        pods = await list_pods(home, namespace, "job=tick")
        return any(pod["status"]["phase"] == "Succeeded" for pod in pods)

    await wait_until(ran, "a pod of the CronJob has ended", timeout_seconds=100)


async def test_drain_honours_disruption_budgets(home: Cluster, namespace: str) -> None:
    deployment = build_workload(
        "Deployment", "kept", namespace, build_template({"app": "kept"}), replicas=2
    )
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "kept", "namespace": namespace},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "kept"}}},
    }
    await create(home, budget, deployment)
    await wait_rolled_out(home, "deployment/kept", namespace)

    async def guarded() -> bool:
        got = await home.kubectl("get", "pdb", "kept", f"-n={namespace}", "-o=json")
        return bool(got.json().get("status", {}).get("currentHealthy") == 2)

    await wait_until(guarded, "the budget counts both pods")
    drain = ("drain", NODE, "--ignore-daemonsets", "--pod-selector=app=kept")
    try:
        held = await home.kubectl(*drain, "--timeout=6s", check=False)
        assert held.returncode != 0
        assert len(await list_pods(home, namespace, "app=kept")) == 2
        await home.kubectl("delete", "pdb", "kept", f"-n={namespace}")
        await home.kubectl(*drain, "--timeout=25s")
    finally:
        await home.kubectl("uncordon", NODE)
    await wait_rolled_out(home, "deployment/kept", namespace)


async def test_job_is_spared_what_befalls_its_pod_over_there(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    pattern = {"type": "DisruptionTarget", "status": "True"}
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [pattern]}]}
    job = build_job("spared", namespace, "exec sleep 600", podFailurePolicy=policy)
    await create(home, job)

    async def runs() -> bool:
        pods = await list_pods(home, namespace, "job=spared")
        return any(pod["status"]["phase"] == "Running" for pod in pods)

    await wait_until(runs, "its first pod runs")
    (first,) = await list_pods(home, namespace, "job=spared")
    there = (await remote_pod(remote, first))["metadata"]
    where = ("pod", there["name"], f"-n={there['namespace']}", "--grace-period=1")
    await remote.kubectl("delete", *where, "--wait=false")
    await wait_replaced(home, namespace, "job=spared", first["metadata"]["uid"])
    got = await home.kubectl("get", "job", "spared", f"-n={namespace}", "-o=json")
    status = got.json()["status"]
    assert not status.get("failed")
    assert not status.get("conditions")
    await home.kubectl("delete", "job", "spared", f"-n={namespace}", "--wait=false")
