"""What several checks need is asked once."""

from provider.checkup.surroundings import read_version
from tests.provider.checkup.world import open_world
from vkubelet.kube.objects import NamespacedName


async def test_asked_once() -> None:
    async with open_world() as world:
        around = world.around(nodes={"mapping": "per-node"})
        for _ in range(2):
            assert sorted((await around.planned()).nodes) == ["cloud-n1", "cloud-n2"]
            assert await around.versions() == ("v1.37.2", "v1.37.2")
            assert await around.our_nodes() == []
        assert len(world.remote.calls("list nodes")) == 1
        assert len(world.home.calls("get namespaces")) == 1
        assert len(world.home.calls("GET /version")) == 1


async def test_where_the_lock_is() -> None:
    async with open_world() as world:
        assert world.around().lock == NamespacedName("kube-system", "vkubelet-cloud")
        account = NamespacedName("vk", "cloud")
        assert world.around(service_account=account).lock.namespace == "vk"


async def test_a_server_without_a_version() -> None:
    async with open_world() as world:
        world.home.handle("GET /version", lambda _: {})
        assert await read_version(world.home_client) == "unknown"
