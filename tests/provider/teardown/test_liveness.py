"""Whether somebody still serves a peering."""

import asyncio
from datetime import UTC, datetime

import pytest

from provider.teardown.liveness import find_running_process
from tests.fakes.api_server import FakeApiServer
from vkubelet.kube.objects import KubeObject, NamespacedName

pytestmark = pytest.mark.virtual_time

LOCK = NamespacedName("kube-system", "vkubelet-cloud")
OLD = "2026-01-01T00:00:00.000000Z"


def lease(key: NamespacedName, holder: str, renewed: str) -> KubeObject:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": key.namespace, "name": key.name},
        "spec": {"holderIdentity": holder, "renewTime": renewed},
    }


def now() -> str:
    return datetime.now(UTC).isoformat()


async def find(fake: FakeApiServer, told: list[str] | None = None) -> str | None:
    said: list[str] = [] if told is None else told
    async with fake.client("home") as client:
        return await find_running_process(client, LOCK, ["cloud"], said.append)


async def test_without_leases_nobody_does() -> None:
    async with FakeApiServer() as fake:
        assert await find(fake) is None


async def test_a_lock_that_was_given_back_is_no_sign() -> None:
    async with FakeApiServer() as fake:
        fake.put(lease(LOCK, "", now()))
        fake.put(lease(NamespacedName("kube-node-lease", "cloud"), "cloud", now()))
        told: list[str] = []
        assert await find(fake, told) is None
        assert told == []


async def test_a_lock_that_nobody_renews_is_no_sign_after_a_while() -> None:
    async with FakeApiServer() as fake:
        fake.put(lease(LOCK, "host_1", OLD))
        told: list[str] = []
        assert await find(fake, told) is None
        assert told == ["Lease kube-system/vkubelet-cloud, held by host_1"]


async def test_who_renews_the_lock_is_named() -> None:
    async with FakeApiServer() as fake, asyncio.TaskGroup() as group:
        fake.put(lease(LOCK, "host_1", OLD))
        found = group.create_task(find(fake))
        await asyncio.sleep(5)
        fake.put(lease(LOCK, "host_1", now()))
        assert await found == "host_1 renews Lease kube-system/vkubelet-cloud"


async def test_a_node_lease_tells_of_a_process_whose_lock_is_elsewhere() -> None:
    key = NamespacedName("kube-node-lease", "cloud")
    async with FakeApiServer() as fake, asyncio.TaskGroup() as group:
        fake.put(lease(key, "cloud", now()))
        found = group.create_task(find(fake))
        await asyncio.sleep(10)
        fake.put(lease(key, "cloud", now()))
        assert await found == "cloud renews Lease kube-node-lease/cloud"


async def test_a_node_lease_that_has_expired_is_no_sign() -> None:
    async with FakeApiServer() as fake:
        fake.put(lease(NamespacedName("kube-node-lease", "cloud"), "cloud", OLD))
        told: list[str] = []
        assert await find(fake, told) is None
        assert told == []


async def test_a_holder_that_gives_the_lock_back_meanwhile_is_gone() -> None:
    async with FakeApiServer() as fake, asyncio.TaskGroup() as group:
        fake.put(lease(LOCK, "host_1", OLD))
        found = group.create_task(find(fake))
        await asyncio.sleep(5)
        fake.put(lease(LOCK, "", now()))
        assert await found is None
