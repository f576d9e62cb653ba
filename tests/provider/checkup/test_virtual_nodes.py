"""Whether the virtual nodes can be registered."""

from provider.checkup.virtual_nodes import check_virtual_nodes
from tests.fakes.physical_nodes import raw_node
from tests.provider.checkup.world import open_world, show
from tests.provider.values import PEERING


async def test_all_can() -> None:
    async with open_world() as world:
        ours = raw_node("cloud-n1", dict(PEERING.labels))
        world.home.put(ours)
        around = world.around(nodes={"mapping": "per-node"})
        assert show(await check_virtual_nodes(around)) == [
            "ok: 2 over 2 physical nodes: cloud-n1, cloud-n2"
        ]


async def test_a_name_that_is_taken() -> None:
    async with open_world() as world:
        world.home.put(raw_node("n1"))
        around = world.around(nodes={"mapping": "per-node", "exactNames": True})
        (found,) = show(await check_virtual_nodes(around))
        assert found == "failure: home has a Node n1 that isn't ours: it's never touched"


async def test_more_nodes_than_ports() -> None:
    async with open_world() as world:
        around = world.around(nodes={"mapping": "per-node"}, kubelet={"ports": "10250-10250"})
        (found,) = show(await check_virtual_nodes(around))
        assert found == (
            "failure: 2 virtual nodes need a port each, and --kubelet-ports 10250-10250 are 1"
        )
        around = world.around(nodes={"mapping": "per-node"}, kubelet={"ports": "10250-10251"})
        (found,) = show(await check_virtual_nodes(around))
        assert found.startswith("warning: the virtual nodes take all of --kubelet-ports")


async def test_none_at_all() -> None:
    async with open_world() as world:
        around = world.around(nodes={"mapping": "per-node", "selector": "zone=z"})
        (finding,) = await check_virtual_nodes(around)
        assert finding.message == "no virtual node would be made"
        assert "n1 is left out: " in finding.advice


async def test_warnings_of_the_mapping() -> None:
    async with open_world() as world:
        nodes = {"mapping": "selector", "virtualNodes": ["fast=disk=ssd"]}
        (found,) = show(await check_virtual_nodes(world.around(nodes=nodes)))
        assert found == "warning: no physical node stands behind virtual node fast"


async def test_what_is_left_out_is_counted() -> None:
    async with open_world() as world:
        around = world.around(nodes={"selector": "zone=a"})
        (found,) = show(await check_virtual_nodes(around))
        assert (
            found == "ok: 1 over 1 physical nodes: cloud; 1 are left out (vkubelet plan tells why)"
        )
