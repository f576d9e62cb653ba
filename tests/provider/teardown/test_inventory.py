"""What there is of a peering."""

from tests.provider.teardown.worlds import build, build_home_pod, open_world


async def test_finds_what_is_ours_on_both_sides() -> None:
    async with open_world() as world:
        world.leave_peering("web")
        world.home.put(build_home_pod("elsewhere", node="real"))
        world.remote.put(build("Namespace", "made-beforehand-with-our-labels"))
        found = await world.look()
        assert [str(node) for node in found.nodes] == ["Node cloud"]
        assert [pod["metadata"]["name"] for pod in found.home_pods] == ["web"]
        assert [pod["metadata"]["name"] for pod in found.remote_pods] == ["web"]
        assert [str(anchor) for anchor in found.config_maps] == [
            "ConfigMap demo-home/vkubelet-cloud"
        ]
        assert [str(name) for name in found.namespaces] == ["Namespace demo-home"]


async def test_pods_of_many_nodes_are_listed_at_once() -> None:
    async with open_world() as world:
        for number in range(20):
            world.home.put(build("Node", f"cloud-{number}"))
            world.home.put(build_home_pod(f"p{number}", node=f"cloud-{number}"))
        world.home.put(build_home_pod("elsewhere", node="real"))
        found = await world.look(home_only=True)
        assert len(found.home_pods) == 20
        assert len(world.home.calls("list pods")) == 1


async def test_nothing_is_left() -> None:
    async with open_world() as world:
        assert (await world.look()).is_empty
