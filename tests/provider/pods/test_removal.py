"""Remote namespaces go with their home namespaces, and only if nothing of others is in them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from provider.pods.followed import FollowedPods
from provider.pods.namespaces import RemoteNamespaces, build_anchor, build_namespace
from provider.pods.removal import HELD_SECONDS, LOOK_SECONDS, NamespaceRemoval
from tests.fakes.api_server import FakeApiServer
from tests.provider.teardown.worlds import build, build_remote_pod, serve_discovery
from tests.provider.values import PEERING
from vkubelet.kube.objects import NAMESPACES, PODS, SECRETS
from vkubelet.supervision import run_component

pytestmark = pytest.mark.virtual_time


@dataclass
class World:
    """Both sides while remote namespaces are looked after."""

    home: FakeApiServer
    remote: FakeApiServer
    namespaces: RemoteNamespaces

    def is_there(self) -> bool:
        return self.remote.find(NAMESPACES, "", "demo-home") is not None


@asynccontextmanager
async def open_world(*pods: str) -> AsyncIterator[World]:
    """A home namespace with its remote one, and pods in it; then the removal runs."""
    async with (
        FakeApiServer() as home,
        FakeApiServer() as remote,
        home.client("home") as home_client,
        remote.client("remote") as client,
    ):
        serve_discovery(remote)
        home.put(build("Namespace", "demo", ours=False))
        remote.put(build_namespace("demo-home", "demo", PEERING))
        remote.put(build_anchor("demo-home", PEERING))
        for name in pods:
            remote.put(build_remote_pod(name))
        namespaces = RemoteNamespaces(
            client, PEERING, template="{namespace}-{home_cluster}", adopt=False
        )
        followed = FollowedPods(client, label_selector=PEERING.label_selector)
        removal = NamespaceRemoval(home_client, client, PEERING, namespaces, followed)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(run_component("pods", followed.run)),
                group.create_task(run_component("removal", removal.run)),
            ]
            await asyncio.sleep(1)
            yield World(home, remote, namespaces)
            for task in tasks:
                task.cancel()


async def test_it_goes_soon_after_its_last_pod() -> None:
    async with open_world("a", "b") as world:
        world.home.remove(NAMESPACES, "", "demo")
        world.remote.remove(PODS, "demo-home", "a")
        await asyncio.sleep(90)
        assert world.is_there()
        world.remote.remove(PODS, "demo-home", "b")
        await asyncio.sleep(90)
        assert not world.is_there()
        [delete] = world.remote.calls("delete namespaces")
        assert delete.body["preconditions"]["uid"]


async def test_a_home_namespace_that_ends_slowly_is_waited_for() -> None:
    async with open_world("a") as world:
        ending = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
        world.home.put(build("Namespace", "demo", ours=False, metadata=ending))
        world.remote.remove(PODS, "demo-home", "a")
        await asyncio.sleep(120)
        assert world.is_there()
        world.home.remove(NAMESPACES, "", "demo")
        await asyncio.sleep(30)
        assert not world.is_there()


async def test_an_empty_one_is_found_in_time_and_so_is_one_of_earlier() -> None:
    async with open_world() as world:
        await asyncio.sleep(2 * LOOK_SECONDS)
        assert world.is_there()
        assert len(world.home.calls("get namespaces")) <= 3
        world.home.remove(NAMESPACES, "", "demo")
        await asyncio.sleep(LOOK_SECONDS)
        assert not world.is_there()


async def test_it_is_made_again_when_it_is_needed_again() -> None:
    async with open_world("a") as world:
        await world.namespaces.ensure("demo")
        world.home.remove(NAMESPACES, "", "demo")
        world.remote.remove(PODS, "demo-home", "a")
        await asyncio.sleep(90)
        assert not world.is_there()
        await world.namespaces.ensure("demo")
        assert world.is_there()


async def test_what_holds_something_of_others_stays(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "provider")
    async with open_world() as world:
        world.remote.put(build("Secret", "theirs", "demo-home", ours=False))
        world.home.remove(NAMESPACES, "", "demo")
        await asyncio.sleep(HELD_SECONDS - LOOK_SECONDS)
        assert world.is_there()
        assert "it holds Secret theirs, which isn't ours" in caplog.text
        assert len(world.remote.calls("GET /apis")) == 1
        world.remote.remove(SECRETS, "demo-home", "theirs")
        await asyncio.sleep(3 * LOOK_SECONDS)
        assert not world.is_there()


async def test_what_we_have_not_made_stays() -> None:
    async with open_world() as world:
        for name, ours in (("labelled", True), ("foreign", False)):
            world.remote.put(build("Namespace", name, ours=ours))
        world.home.remove(NAMESPACES, "", "demo")
        await asyncio.sleep(2 * LOOK_SECONDS)
        assert not world.is_there()
        names = [found["metadata"]["name"] for found in world.remote.objects(NAMESPACES)]
        assert names == ["foreign", "labelled"]


@pytest.mark.parametrize("right", ["list namespaces", "list deployments", "delete namespaces"])
async def test_without_a_right_it_stays_and_that_is_told_once(
    right: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "provider")
    async with open_world("a") as world:
        world.remote.fail_next(right, 403, times=100)
        world.home.remove(NAMESPACES, "", "demo")
        if right == "list namespaces":
            await asyncio.sleep(3 * LOOK_SECONDS)
        world.remote.remove(PODS, "demo-home", "a")
        await asyncio.sleep(3 * LOOK_SECONDS)
        assert world.is_there() == (right != "list namespaces")
    told = [record.levelname for record in caplog.records if "a right is missing" in record.message]
    assert told == ["INFO"]


async def test_trouble_passes() -> None:
    async with open_world("a") as world:
        world.home.remove(NAMESPACES, "", "demo")
        world.remote.fail_next("delete namespaces", 500)
        world.home.fail_next("get namespaces", 500)
        world.remote.remove(PODS, "demo-home", "a")
        await asyncio.sleep(120)
        assert not world.is_there()
