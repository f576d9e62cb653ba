"""What a namespace holds that isn't ours."""

import pytest

from provider.pods.remnants import discover_kinds, remove_namespace
from tests.provider.teardown.worlds import build, open_world
from tests.provider.values import PEERING
from vkubelet.kube.errors import ConflictError
from vkubelet.kube.objects import NAMESPACES, SECRETS


async def test_kinds_are_those_that_namespaces_hold() -> None:
    async with open_world() as world:
        kinds = await discover_kinds(world.remote_client)
        assert [resource.kind for resource in kinds.resources] == [
            "Pod",
            "ConfigMap",
            "Secret",
            "Deployment",
        ]


async def test_what_is_ours_or_the_clusters_own_is_nothing_foreign() -> None:
    async with open_world() as world:
        world.leave_peering("web")
        kinds = await discover_kinds(world.remote_client)
        assert await kinds.find_foreign(world.remote_client, "demo-home", PEERING) is None
        world.remote.put(build("Secret", "theirs", "demo-home", ours=False))
        found = await kinds.find_foreign(world.remote_client, "demo-home", PEERING)
        assert found == "Secret theirs"


async def test_a_namespace_goes_only_without_anything_foreign() -> None:
    async with open_world() as world:
        world.leave_peering("web")
        client = world.remote_client
        kinds = await discover_kinds(client)
        uid = world.remote.get(NAMESPACES, "", "demo-home")["metadata"]["uid"]
        with pytest.raises(ConflictError):
            await remove_namespace(client, "demo-home", kinds, PEERING, uid="another")
        world.remote.put(build("Secret", "theirs", "demo-home", ours=False))
        kept = await remove_namespace(client, "demo-home", kinds, PEERING, uid=uid)
        assert kept == "Secret theirs"
        world.remote.remove(SECRETS, "demo-home", "theirs")
        assert await remove_namespace(client, "demo-home", kinds, PEERING, uid=uid) is None
        assert world.remote.find(NAMESPACES, "", "demo-home") is None
