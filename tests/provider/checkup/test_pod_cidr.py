"""Room for more Nodes."""

from typing import Any

import pytest

from provider.checkup.pod_cidr import check_pod_cidr, judge_headroom, parse_networks
from tests.fakes.physical_nodes import raw_node
from tests.provider.checkup.world import World, open_world, show

FOUR = "10.1.0.0/22"


@pytest.mark.parametrize(
    ("taken", "coming", "said"),
    [
        (["10.1.0.0/24"], 3, "warning: 10.1.0.0/22 has 3 of 4 pod CIDRs (/24) left for Nodes; 3"),
        (["10.1.0.0/24"], 4, "failure: 10.1.0.0/22 has 3 of 4 pod CIDRs (/24) left for Nodes, and"),
        (["10.2.0.0/24"], 4, "skipped: Nodes have pod CIDRs from elsewhere"),
        (["10.1.0.0/28"], 4, "ok: 10.1.0.0/22 has 63 of 64 pod CIDRs (/28) left for Nodes; 4"),
        (["fd00::/64"], 4, "skipped: "),
    ],
)
def test_headroom(taken: list[str], coming: int, said: str) -> None:
    clusters = parse_networks(FOUR)
    (found,) = show(judge_headroom(clusters, parse_networks(",".join(taken)), coming))
    assert found.startswith(said)


def test_both_families() -> None:
    clusters = parse_networks("10.1.0.0/16, fd00::/48,nonsense")
    found = show(judge_headroom(clusters, parse_networks("10.1.3.0/24,fd00:0:0:3::/64"), 1))
    assert [text.partition(" has ")[0] for text in found] == ["ok: 10.1.0.0/16", "ok: fd00::/48"]


def put_real_node(world: World) -> None:
    node: dict[str, Any] = raw_node("real")
    node["spec"]["podCIDRs"] = ["10.1.0.0/24"]
    world.home.put(node)


async def test_nodes_without_cidrs() -> None:
    async with open_world() as world:
        world.home.put(raw_node("real"))
        assert show(await check_pod_cidr(world.around())) == ["ok: home's Nodes get no pod CIDRs"]


async def test_it_is_not_known() -> None:
    async with open_world() as world:
        put_real_node(world)
        world.home.fail_next("list pods", 403, reason="Forbidden")
        for _ in range(2):
            (finding,) = await check_pod_cidr(world.around())
            assert finding.message.startswith("each Node takes a pod CIDR (/24), and it isn't")
            assert finding.advice == "see that --cluster-cidr has 1 left"


async def test_as_kubeadm_wrote_it() -> None:
    async with open_world() as world:
        put_real_node(world)
        text = "networking:\n  podSubnet: 10.1.0.0/22\n"
        world.home.put(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "kubeadm-config", "namespace": "kube-system"},
                "data": {"ClusterConfiguration": text},
            }
        )
        (found,) = show(await check_pod_cidr(world.around()))
        assert found.startswith("warning: 10.1.0.0/22 has 3 of 4")


async def test_as_the_controller_manager_was_told() -> None:
    async with open_world() as world:
        put_real_node(world)
        command = ["kube-controller-manager", "--cluster-cidr=10.1.0.0/16"]
        world.home.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "kube-controller-manager-a",
                    "namespace": "kube-system",
                    "labels": {"component": "kube-controller-manager"},
                },
                "spec": {"containers": [{"name": "main", "command": command}]},
            }
        )
        (found,) = show(await check_pod_cidr(world.around()))
        assert found.startswith("ok: 10.1.0.0/16 has 255 of 256")
