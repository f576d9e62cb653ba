"""What befalls the process, and its pods over there don't notice."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cluster.charts.installation import NAMESPACE
from tests.cluster.cluster import Cluster
from tests.cluster.product.cloud import create, get, wait_gone, wait_pod
from tests.cluster.waiting import wait_until
from tests.e2e.installed.conftest import HOME_NODES
from tests.e2e.installed.release import Release, Trace, build_far_pod, trace

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PODS = 50
MISSING = 'Container image "vkubelet:0.0.1" is not present with pull policy of Never'
_PODS_SECONDS = 150.0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def many(
    home: Cluster, remote: Cluster, release: Release, reflected: str
) -> AsyncIterator[Trace]:
    """A Deployment's pods that run over there; what they are is returned."""
    template = build_far_pod("many", reflected)
    del template["apiVersion"], template["kind"]
    template["metadata"] = {"labels": {"app": "many"}}
    spec = {
        "replicas": PODS,
        "selector": {"matchLabels": {"app": "many"}},
        "template": template,
    }
    metadata = {"name": "many", "namespace": reflected}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    await create(home, deployment)
    await home.kubectl(
        *("rollout", "status", "deployment/many", f"-n={reflected}", f"--timeout={_PODS_SECONDS}s"),
        timeout=_PODS_SECONDS + 10,
    )
    traced = await trace(remote, "many")
    assert len(traced) == PODS
    yield traced
    await home.kubectl("delete", "deployment", "many", f"-n={reflected}")


async def _read_ready(home: Cluster, namespace: str) -> int:
    deployment = await get(home, "deployment", "many", f"-n={namespace}")
    return int(deployment["status"].get("readyReplicas", 0))


async def _run_one(home: Cluster, name: str, namespace: str) -> None:
    """Run a pod, have a word with it, and delete it: the process does its work."""
    await create(home, build_far_pod(name, namespace))
    await wait_pod(home, name, namespace, name, phase="Running", seconds=60)
    said = await home.kubectl("exec", name, f"-n={namespace}", "--", "echo", "hello")
    assert said.stdout == "hello\n"
    await home.kubectl("delete", "pod", name, f"-n={namespace}", "--wait=false")
    await wait_gone(home, name, namespace)


async def test_upgraded_while_pods_run(
    home: Cluster, remote: Cluster, release: Release, many: Trace, reflected: str
) -> None:
    old = await release.find_process()
    await release.change({"config": {"capacity": {"percent": 90}}})
    new = await release.find_process()
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    await _run_one(home, "upgraded", reflected)
    assert await _read_ready(home, reflected) == PODS
    assert await trace(remote, "many") == many


async def test_an_image_of_another_version(
    home: Cluster, remote: Cluster, release: Release, many: Trace, reflected: str
) -> None:
    """There is none of it here: the upgrade doesn't end, pods run on, and a rollback heals it."""
    await release.upgrade({"image": {"tag": "0.0.1", "pullPolicy": "Never"}})

    async def told() -> bool:
        try:
            pod = await release.find_process()
        except ValueError:  # none yet
            return False
        (status, *_) = pod["status"].get("containerStatuses", [{}])
        waiting = status.get("state", {}).get("waiting", {})
        return bool(waiting.get("message") == MISSING)

    await wait_until(told, "the pod says what is missing", timeout_seconds=60)
    await release.roll_back()
    await _run_one(home, "rolled-back", reflected)
    assert await _read_ready(home, reflected) == PODS
    assert await trace(remote, "many") == many


async def test_the_pod_of_the_process_is_killed(
    home: Cluster, remote: Cluster, release: Release, many: Trace, reflected: str
) -> None:
    old = await release.find_process()
    await home.kubectl(
        *("delete", "pod", old["metadata"]["name"], f"-n={NAMESPACE}"),
        *("--force", "--grace-period=0"),
    )
    await release.wait_other_process(old)
    await _run_one(home, "killed", reflected)
    assert await _read_ready(home, reflected) == PODS
    assert await trace(remote, "many") == many


async def test_the_node_of_the_process_is_drained(
    home: Cluster, remote: Cluster, release: Release, many: Trace, reflected: str
) -> None:
    old = await release.find_process()
    node = old["spec"]["nodeName"]
    try:
        await home.kubectl(
            *("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s"),
            timeout=70,
        )
        new = await release.wait_other_process(old)
        assert {node, new["spec"]["nodeName"]} == set(HOME_NODES)
        assert new["status"]["podIP"] != old["status"]["podIP"]
        await _run_one(home, "drained", reflected)
    finally:
        await home.kubectl("uncordon", node)
    assert await _read_ready(home, reflected) == PODS
    assert await trace(remote, "many") == many


async def test_credentials_are_rotated_while_streams_are_open(
    home: Cluster, remote: Cluster, release: Release, reflected: str
) -> None:
    ticks = "n=0; while :; do n=$((n+1)); echo tick $n; sleep 0.2; done"
    await create(home, build_far_pod("ticks", reflected, script=ticks))
    await wait_pod(home, "ticks", reflected, "ticks", phase="Running", seconds=60)
    process = await release.find_process()
    async with (
        home.kubectl_process("logs", "-f", "ticks", f"-n={reflected}") as follow,
        home.kubectl_process("exec", "-i", "ticks", f"-n={reflected}", "--", "cat") as shell,
    ):
        assert follow.stdout is not None
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write(b"before\n")
        async with asyncio.timeout(20):
            assert await shell.stdout.readline() == b"before\n"
            assert (await follow.stdout.readline()).startswith(b"tick")
        await release.end_token()
        await release.rotate()
        await _run_one(home, "rotated", reflected)
        shell.stdin.write(b"after\n")
        async with asyncio.timeout(20):
            assert await shell.stdout.readline() == b"after\n"
            for _ in range(20):
                assert (await follow.stdout.readline()).startswith(b"tick")
    found = await release.find_process()
    assert found["metadata"]["uid"] == process["metadata"]["uid"]
    assert [status["restartCount"] for status in found["status"]["containerStatuses"]] == [0]
    await home.kubectl("delete", "pod", "ticks", f"-n={reflected}", "--wait=false")
    await wait_gone(home, "ticks", reflected)
