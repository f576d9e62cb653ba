"""Pods by phase, as a metric."""

import asyncio
from typing import Any

import pytest
from prometheus_client import REGISTRY

from tests.fakes.api_server import FakeApiServer
from vkubelet.kube.objects import PODS, KubeObject
from vkubelet.pods.home import HomePods
from vkubelet.pods.phases import PodPhases

pytestmark = pytest.mark.virtual_time


def build_pod(name: str, phase: str | None) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "a", "name": name, "uid": f"u-{name}"},
        "spec": {"nodeName": "n"},
        "status": {} if phase is None else {"phase": phase},
    }


def read(phase: str) -> float | None:
    return REGISTRY.get_sample_value("vkubelet_pods", {"phase": phase})


async def test_phases() -> None:
    async with FakeApiServer() as fake, fake.client("home") as client:
        for name, phase in (("a", "Pending"), ("b", "Running"), ("c", "Running"), ("d", None)):
            fake.put(build_pod(name, phase))
        home = HomePods(client)
        PodPhases(home)
        home.set_nodes(["n"])

        async def expect(**counts: Any) -> None:
            await asyncio.sleep(1)
            assert {phase: read(phase) for phase in counts} == counts

        async with asyncio.TaskGroup() as group:
            task = group.create_task(home.run())
            await home.wait_synced()
            await expect(Pending=1, Running=2, Succeeded=0, Failed=0, Unknown=1)
            fake.put(build_pod("a", "Running"))
            fake.put(build_pod("b", "Failed"))
            await expect(Pending=0, Running=2, Failed=1)
            fake.remove(PODS, "a", "c")
            await expect(Running=1)
            task.cancel()
