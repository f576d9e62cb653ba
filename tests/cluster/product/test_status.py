"""`vkubelet status` of a peering that runs, with no rights but those it needs."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.mapping.pool import run_command
from tests.cluster.peering import RIGHTS, Vkubelet, build_environment
from tests.cluster.product.cloud import build_pod, create, run_pod, wait_pod
from tests.cluster.waiting import wait_until
from vkubelet import __version__

pytestmark = pytest.mark.cluster


@pytest_asyncio.fixture(loop_scope="session")
async def viewer(home: Cluster) -> AsyncIterator[str]:
    """A flag: the kubeconfig of somebody who may look."""
    await home.kubectl("apply", "-f", str(RIGHTS / "viewer.yaml"))
    yield f"--kubeconfig={home.kubeconfig_for('vkubelet-viewer')}"
    await home.kubectl("delete", "-f", str(RIGHTS / "viewer.yaml"))


async def test_for_people(home: Cluster, vkubelet: Vkubelet, namespace: str, viewer: str) -> None:
    await run_pod(home, "web", namespace)
    volumes = [{"name": "v", "secret": {"secretName": "none"}}]
    await create(home, build_pod("stuck", namespace, volumes=volumes))

    async def told() -> bool:
        code, output = await run_command("status", viewer, "--remote-cluster=cloud")
        assert code == 0, output
        assert max(map(len, output.splitlines())) <= 80
        words = " ".join(output.split())
        return f"1 Pending MissingRight {namespace}/stuck" in words

    await wait_until(told, "it says why the pod doesn't run")
    _, output = await run_command("status", viewer)
    words = " ".join(output.split())
    assert f"Peering cloud: ready; version {__version__}, up " in words
    assert "lock: kube-system/vkubelet-cloud, held by " in words
    assert "cloud True 3/3 " in words
    assert "warning: cloud:" not in words  # other tests' peerings have ended


async def test_for_programs(home: Cluster, vkubelet: Vkubelet, namespace: str, viewer: str) -> None:
    await run_pod(home, "web", namespace)
    code, output = await run_command("status", viewer, "--remote-cluster=cloud", "-o", "json")
    assert code == 0
    (peering,) = json.loads(output)["peerings"]
    (node,) = peering["virtualNodes"]
    assert (node["ready"], node["members"], node["eligible"]) == ("True", 3, 3)
    assert node["certificateExpires"] is not None
    assert node["largestFreeNode"]["name"] in ("ssd-1", "ssd-2", "hdd-1")
    assert peering["process"]["notReady"] == ""
    assert peering["process"]["createLag"]["p50"] is not None
    assert peering["pods"]["Running"] >= 1


async def test_watching(home: Cluster, vkubelet: Vkubelet, namespace: str, viewer: str) -> None:
    command = [sys.executable, "-m", "provider", "status", viewer, "--watch"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, env=build_environment()
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            while "Peering cloud" not in (await process.stdout.readline()).decode():
                pass
            await create(
                home, build_pod("runs", namespace, command=["false"], restartPolicy="Never")
            )
            await wait_pod(home, "runs", namespace, "it fails", phase="Failed")
            while f"{namespace}/runs" not in (await process.stdout.readline()).decode():
                pass
    finally:
        process.terminate()
        await process.wait()


async def test_rights_that_are_missing(home: Cluster, vkubelet: Vkubelet) -> None:
    code, output = await run_command("status", f"--kubeconfig={home.kubeconfig_for('nobody')}")
    assert code == 1
    assert "nodes is forbidden" in output
    assert output.count("\n") == 1
