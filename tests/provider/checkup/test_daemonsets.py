"""DaemonSets that come, and the patch that keeps them off."""

import json
from typing import Any

import pytest

from provider.checkup.daemonsets import build_patch, check_daemonsets, judge_daemonsets
from tests.fakes.node_affinity import allows
from tests.provider.checkup.world import open_world, show
from vkubelet.config import DaemonSetPolicy
from vkubelet.interface import Taint, VirtualNode
from vkubelet.kube.objects import KubeObject

EXISTS = [{"operator": "Exists"}]


def daemon_set(name: str = "agent", **spec: Any) -> KubeObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": [], **spec}}},
    }


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    selector = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


NODE = VirtualNode(
    name="cloud",
    labels={"type": "virtual-kubelet", "kubernetes.io/os": "linux"},
    annotations={},
    taints=(Taint(key="virtual-kubelet.io/provider", value="cloud", effect="NoSchedule"),),
    capacity={},
    allocatable={},
    conditions=(),
    node_info={},
)


@pytest.mark.parametrize(
    ("spec", "comes"),
    [
        ({}, False),
        ({"tolerations": EXISTS}, True),
        ({"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}, False),
        ({"tolerations": [{"key": "virtual-kubelet.io/provider", "operator": "Exists"}]}, True),
        ({"tolerations": [{"key": "virtual-kubelet.io/provider", "value": "cloud"}]}, True),
        ({"tolerations": [{"key": "virtual-kubelet.io/provider", "value": "other"}]}, False),
        ({"tolerations": [{"key": "other", "operator": "Exists"}]}, False),
        ({"tolerations": EXISTS, "nodeSelector": {"kubernetes.io/os": "linux"}}, True),
        ({"tolerations": EXISTS, "nodeSelector": {"kubernetes.io/os": "windows"}}, False),
        ({"tolerations": EXISTS, "affinity": required(expression("type", "Exists"))}, True),
        (
            {
                "tolerations": EXISTS,
                "affinity": required(expression("type", "NotIn", "virtual-kubelet")),
            },
            False,
        ),
        (
            {
                "tolerations": EXISTS,
                "affinity": required(
                    expression("type", "NotIn", "virtual-kubelet"),
                    {"matchFields": expression("metadata.name", "In", "cloud")["matchExpressions"]},
                ),
            },
            True,
        ),
        ({"tolerations": EXISTS, "affinity": required({})}, False),
    ],
)
def test_which_ones_come(spec: dict[str, Any], *, comes: bool) -> None:
    found = judge_daemonsets([daemon_set(**spec)], [NODE], DaemonSetPolicy.PLACEHOLDER)
    assert bool(found) is comes


@pytest.mark.parametrize(
    "affinity",
    [
        {},
        required(expression("kubernetes.io/os", "In", "linux")),
        required(expression("a", "Exists"), expression("b", "DoesNotExist"), {}),
    ],
)
def test_the_patch_keeps_them_off_virtual_nodes_only(affinity: dict[str, Any]) -> None:
    template: dict[str, Any] = {"affinity": affinity} if affinity else {}
    patch = build_patch(daemon_set(**template))
    patched = patch["spec"]["template"]["spec"]
    assert not allows(patched, "cloud", {"type": "virtual-kubelet", "a": "", **NODE.labels})
    for labels in ({"kubernetes.io/os": "linux"}, {"a": "1"}, {"b": "1"}):
        before = allows(template, "real", labels)
        assert allows(patched, "real", labels) is before


def test_what_is_said_of_them() -> None:
    (finding,) = judge_daemonsets(
        [daemon_set(tolerations=EXISTS)], [NODE, NODE], DaemonSetPolicy.PENDING
    )
    assert finding.message == (
        "DaemonSet kube-system/agent would come to 2 of 2 virtual nodes: its pods there stay"
        " Pending, which holds up its rollouts everywhere"
    )
    head, _, patch = finding.command.partition(" --patch=")
    assert head == "kubectl patch daemonset agent --namespace=kube-system --type=merge"
    assert json.loads(patch.strip("'")) == build_patch(daemon_set())


async def test_in_a_cluster() -> None:
    async with open_world() as world:
        world.home.put(daemon_set("one", tolerations=EXISTS))
        world.home.put(daemon_set("two"))
        (found,) = show(await check_daemonsets(world.around()))
        assert found.startswith("warning: DaemonSet kube-system/one would come to 1 of 1")
        world.home.fail_next("list daemonsets", 403, reason="Forbidden")
        assert show(await check_daemonsets(world.around())) == [
            "skipped: DaemonSets may not be listed"
        ]
