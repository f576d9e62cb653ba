"""A pod as a trial."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from provider.checkup.trial import build_pod, try_pod
from provider.labels import HOME_POD_UID
from tests.fakes.physical_nodes import raw_node
from tests.provider.checkup.world import World, open_world, show
from tests.provider.values import PEERING
from vkubelet.kube.objects import PODS, KubeObject

pytestmark = pytest.mark.virtual_time


async def run(world: World, status: dict[str, Any], log: str = "hello\n") -> str:
    """Try a pod; what becomes of it, and what it logs, is given."""
    world.home.put(raw_node("cloud", dict(PEERING.labels)))

    async def play() -> None:
        while not world.home.objects(PODS):
            await asyncio.sleep(0.1)
        (pod,) = world.home.objects(PODS)
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        world.home.handle("get pods/log", lambda _: web.Response(text=log))
        labels = {HOME_POD_UID: uid}
        spec = {**pod["spec"], "nodeName": "n1"}
        metadata = {"name": name, "namespace": "demo-home", "labels": labels}
        world.remote.put({**pod, "metadata": metadata, "spec": spec})
        spec = {**pod["spec"], "nodeName": "cloud"}
        world.home.put({**pod, "spec": spec, "status": status})

    async with asyncio.TaskGroup() as group:
        group.create_task(play())
        findings = await try_pod(world.around(), "any", ["echo", "hello"])
    (found,) = show(findings)
    left = world.home.objects(PODS)
    assert all(pod["metadata"].get("deletionTimestamp") for pod in left)
    return found


async def test_it_runs_and_its_log_is_read() -> None:
    async with open_world() as world:
        found = await run(world, {"phase": "Succeeded"})
        assert found.startswith("ok: a pod ran on cloud (n1) after ")
        assert found.endswith("its log says 'hello'")


async def test_a_log_that_stays_empty() -> None:
    async with open_world() as world:
        assert (await run(world, {"phase": "Running"}, "")).endswith("; its log is empty")


async def test_it_fails() -> None:
    async with open_world() as world:
        ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
        status = {"phase": "Failed", "containerStatuses": [{"state": ended}]}
        assert await run(world, status) == (
            "failure: the pod is Failed on cloud: Error: exit code 3"
        )


async def test_it_never_starts() -> None:
    async with open_world() as world:
        status = {"phase": "Pending", "reason": "MissingRight", "message": "no get"}
        assert await run(world, status) == (
            "failure: the pod is Pending on cloud after 120 s: MissingRight: no get"
        )


async def test_nothing_runs_yet() -> None:
    async with open_world() as world:
        (found,) = show(await try_pod(world.around(), "any", []))
        assert found == "failure: there is no virtual node yet"
        around = world.around(namespaces={"names": [], "selector": "a=b"})
        (found,) = show(await try_pod(around, "any", []))
        assert found == "skipped: no namespace is reflected yet"


def test_the_pod_is_let_in_by_level_restricted() -> None:
    pod: KubeObject = build_pod("demo", "cloud", "any")
    (container,) = pod["spec"]["containers"]
    assert "command" not in container
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["spec"]["automountServiceAccountToken"] is False
