"""The remote cluster as a provider: what it waits for, and what it says of pods it doesn't know."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from provider.app import build_provider
from provider.config import Config
from provider.errors import MissingRightsError, StartError
from provider.node_plan import build_mapping, build_node_plan
from provider.remote import RemoteProvider
from tests.fakes.api_server import ApiCall, FakeApiServer
from tests.fakes.physical_nodes import raw_node
from tests.provider.values import PEERING
from vkubelet.errors import RequestError
from vkubelet.interface import LogOptions, PodRef, Unreachable
from vkubelet.kube.objects import KubeObject
from vkubelet.pods.home import HomePods
from vkubelet.supervision import run_component

pytestmark = pytest.mark.virtual_time

REF = PodRef("demo", "web", "uid-web")
CONFIG = Config.model_validate(
    {
        "remote": {"cluster": "cloud", "kubeconfig": "unused"},
        "namespaces": {"names": ["demo"]},
        "kubelet": {"address": "127.0.0.1"},
    }
)


@dataclass
class World:
    """A provider between two fakes, and its view of the home pods."""

    home: FakeApiServer
    remote: FakeApiServer
    provider: RemoteProvider
    home_pods: HomePods


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    async with (
        FakeApiServer() as home,
        FakeApiServer() as remote,
        home.client("home") as home_client,
        remote.client("remote") as client,
    ):
        remote.put(raw_node("n1"))
        mapping = build_mapping(CONFIG.nodes, "cloud")
        plan = build_node_plan(CONFIG.nodes, CONFIG.capacity, mapping, PEERING)
        provider = build_provider(home_client, client, PEERING, CONFIG, plan)
        pods = HomePods(home_client)
        provider.follow_home_pods(pods)
        yield World(home, remote, provider, pods)


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(run_component("provider", world.provider.run)),
            group.create_task(run_component("home pods", world.home_pods.run)),
        ]
        yield
        for task in tasks:
            task.cancel()


async def test_no_node_is_told_before_the_home_pods_are_known() -> None:
    async with open_world() as world, running(world):
        nodes = world.provider.watch_nodes()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await anext(nodes)
        world.home_pods.set_nodes([])
        async with asyncio.timeout(5):
            (node,) = await anext(world.provider.watch_nodes())
        assert node.name == "cloud"


async def test_it_waits_for_a_remote_cluster_that_cannot_be_reached_yet() -> None:
    async with open_world() as world:
        await world.remote.stop()
        async with running(world):
            await asyncio.sleep(20)
            assert world.provider.trouble
            event = await anext(world.provider.watch_statuses())
            assert isinstance(event, Unreachable)
            await world.remote.start()
            world.home_pods.set_nodes([])
            async with asyncio.timeout(60):
                await anext(world.provider.watch_nodes())
            assert world.provider.trouble is None


async def test_missing_rights_end_it() -> None:
    def refuse(call: ApiCall) -> KubeObject:
        return {**call.body, "status": {"allowed": False}}

    async with open_world() as world:
        world.remote.handle("create selfsubjectaccessreviews", refuse)
        with pytest.raises(ExceptionGroup) as caught:
            await world.provider.run()
        assert caught.group_contains(MissingRightsError, match="list nodes")


async def test_credentials_that_are_not_accepted_end_it() -> None:
    async with open_world() as world:
        world.remote.fail_next("create selfsubjectaccessreviews", 401, times=100)
        with pytest.raises(ExceptionGroup) as caught:
            await world.provider.run()
        assert caught.group_contains(StartError, match="aren't accepted")


async def test_a_pod_that_is_not_there_yet_has_no_logs() -> None:
    async with open_world() as world:
        with pytest.raises(RequestError, match='container "main" in pod "web" is not available'):
            world.provider.logs(REF, "main", LogOptions())
