"""Our remote pods, in the whole cluster or namespace by namespace."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from provider.pods.followed import FollowedPods
from tests.fakes.api_server import FakeApiServer
from tests.provider.values import PEERING
from vkubelet.kube.informer import FailureHandler
from vkubelet.kube.objects import PODS, CachedObject, KubeObject, NamespacedName
from vkubelet.supervision import run_component


def build_pod(namespace: str, name: str) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": PEERING.labels},
        "spec": {"containers": []},
    }


@asynccontextmanager
async def following(fake: FakeApiServer, *namespaces: str) -> AsyncIterator[FollowedPods]:
    async with fake.client("remote") as client:
        pods = FollowedPods(client, label_selector=PEERING.label_selector, namespaces=namespaces)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(run_component("followed", pods.run))
            async with asyncio.timeout(5):
                await pods.wait_synced()
            yield pods
            task.cancel()


@pytest.mark.parametrize("namespaces", [(), ("a", "b", "a")])
async def test_knows_the_pods_and_tells_of_changes(namespaces: tuple[str, ...]) -> None:
    async with FakeApiServer() as fake:
        fake.put(build_pod("a", "one"))
        async with following(fake, *namespaces) as pods:
            assert pods.synced
            told: asyncio.Queue[NamespacedName] = asyncio.Queue()

            def on_change(_: CachedObject | None, new: CachedObject | None) -> None:
                assert new is not None
                told.put_nowait(new.metadata.key)

            pods.add_handler(on_change)
            assert await told.get() == ("a", "one")
            fake.put(build_pod("b", "two"))
            async with asyncio.timeout(5):
                assert await told.get() == ("b", "two")
            assert pods.get(NamespacedName("b", "two")) is not None


async def test_looks_nowhere_else() -> None:
    async with FakeApiServer() as fake:
        fake.put(build_pod("c", "three"))
        async with following(fake, "a", "b") as pods:
            assert pods.namespaces == ("a", "b")
            assert pods.get(NamespacedName("c", "three")) is None
        assert {call.resource.namespace for call in fake.requests} == {"a", "b"}


async def test_a_failure_names_the_namespace() -> None:
    async with FakeApiServer() as fake:
        async with fake.client("remote") as client:
            pods = FollowedPods(client, label_selector="", namespaces=("a", "b"))
            names: list[str] = []

            def handlers(name: str) -> FailureHandler:
                names.append(name)
                return lambda _: None

            pods.report_failures(handlers)
        assert names == ["pods a", "pods b"]
        assert fake.objects(PODS) == []
