"""What a namespace holds that isn't ours."""

from provider.teardown.remnants import discover_kinds
from tests.provider.teardown.worlds import build, open_world
from tests.provider.values import PEERING


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
