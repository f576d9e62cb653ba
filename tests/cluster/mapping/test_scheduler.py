"""The tests' own evaluator of node affinity says what the real scheduler does."""

import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.product.cloud import condition_of, create
from tests.cluster.waiting import wait_until
from tests.fakes.node_affinity import allows

pytestmark = pytest.mark.cluster

TAINT = "evaluator"
NODES: Mapping[str, dict[str, str]] = {
    "e-1": {"zone": "a", "disk": "ssd", "size": "8"},
    "e-2": {"zone": "b", "size": "16"},
    "e-3": {"zone": "a", "size": "many"},
    "e-4": {},
}
SPECS = 40
RESOURCE = "example.com/evaluator"
"""Only these nodes have it: the pods can't go anywhere else."""


def _expression(chance: random.Random) -> dict[str, Any]:
    key = chance.choice(["zone", "disk", "size", "absent"])
    operator = chance.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        return {"key": key, "operator": operator, "values": [str(chance.choice([4, 8, 12]))]}
    values = chance.sample(["a", "b", "ssd", "8", "many"], chance.randint(1, 3))
    return {"key": key, "operator": operator, "values": values}


def _field(chance: random.Random) -> dict[str, Any]:
    return {
        "key": "metadata.name",
        "operator": chance.choice(["In", "NotIn"]),
        "values": [chance.choice([*NODES, "other"])],
    }


def _term(chance: random.Random) -> dict[str, Any]:
    term: dict[str, Any] = {}
    if count := chance.choice([0, 1, 1, 2]):
        term["matchExpressions"] = [_expression(chance) for _ in range(count)]
    if chance.random() < 0.3:
        term["matchFields"] = [_field(chance)]
    return term


def _spec(chance: random.Random) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if chance.random() < 0.3:
        spec["nodeSelector"] = {"zone": chance.choice(["a", "b"])}
    if chance.random() < 0.9:
        terms = [_term(chance) for _ in range(chance.randint(1, 3))]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    return spec


@pytest_asyncio.fixture(loop_scope="session")
async def nodes(remote: Cluster) -> AsyncIterator[None]:
    """Nodes without a kubelet, each with a taint that only the pods meant for it tolerate."""
    amounts = {"cpu": "1k", "memory": "1Ti", "pods": "1k", RESOURCE: "1k"}
    for name, labels in NODES.items():
        taints = [{"key": TAINT, "value": name, "effect": "NoSchedule"}]
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        await create(remote, node)
    yield
    await remote.kubectl("delete", "node", *NODES)


def _build_pod(name: str, namespace: str, node: str, spec: dict[str, Any]) -> dict[str, Any]:
    lifecycle = [
        {"key": f"node.kubernetes.io/{what}", "operator": "Exists"}
        for what in ("not-ready", "unreachable")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            **spec,
            "tolerations": [{"key": TAINT, "operator": "Equal", "value": node}, *lifecycle],
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "main", "image": "any", "resources": {"limits": {RESOURCE: "1"}}}
            ],
        },
    }


async def test_allows_what_the_scheduler_allows(remote: Cluster, nodes: None) -> None:
    chance = random.Random(4)
    specs = [_spec(chance) for _ in range(SPECS)]
    await remote.make_namespace(TAINT)
    try:
        pods = [
            _build_pod(f"{number}-{node}", TAINT, node, spec)
            for number, spec in enumerate(specs)
            for node in NODES
        ]
        await create(remote, *pods)
        said: dict[str, str] = {}

        async def decided() -> bool:
            listed = await remote.kubectl("get", "pods", f"-n={TAINT}", "-o", "json")
            for pod in listed.json()["items"]:
                condition = condition_of(pod, "PodScheduled")
                if condition.get("status") == "True" or condition.get("reason") == "Unschedulable":
                    said[pod["metadata"]["name"]] = pod["spec"].get("nodeName", "")
            return len(said) == len(pods)

        await wait_until(decided, "the scheduler has looked at every pod", timeout_seconds=60)
        expected = {
            f"{number}-{node}": node if allows(spec, node, labels) else ""
            for number, spec in enumerate(specs)
            for node, labels in NODES.items()
        }
        assert said == expected
        assert len(pods) // 4 < list(expected.values()).count("") < len(pods) * 3 // 4
    finally:
        await remote.kubectl("delete", "namespace", TAINT, "--wait=false")
