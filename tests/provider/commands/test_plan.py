"""`vkubelet plan` against a remote API server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from provider.commands.plan import make_report
from provider.config import PlanConfig
from provider.configuration import load_config
from provider.errors import StartError
from provider.node_plan import build_mapping
from provider.node_report import NodeReport, encode_node_report
from tests.fakes.api_server import ApiCall, FakeApiServer
from tests.fakes.physical_nodes import raw_node
from vkubelet.kube.objects import KubeObject


@pytest_asyncio.fixture
async def remote() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as fake:
        fake.put(raw_node("n1", {"zone": "a"}))
        fake.put(raw_node("n2", {"zone": "b"}))
        yield fake


async def plan(kubeconfig: Path, **flags: Any) -> NodeReport:
    given = {f"--{name.replace('_', '-')}": value for name, value in flags.items()}
    base = {"--remote-cluster": "cloud", "--remote-kubeconfig": str(kubeconfig)}
    config = load_config(PlanConfig, file=None, environment={}, flags={**base, **given})
    return await make_report(config, build_mapping(config.nodes, config.remote.cluster))


def pod(name: str, node: str, *, phase: str = "Running", **labels: str) -> KubeObject:
    resources = {"requests": {"cpu": "1"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": phase},
    }


async def test_subtracts_all_pods_and_changes_nothing(remote: FakeApiServer) -> None:
    remote.put(pod("running", "n1"))
    remote.put(pod("done", "n1", phase="Succeeded"))
    remote.put(pod("waiting", ""))
    report = await plan(remote.write_kubeconfig(), node_mapping="per-node")
    first, second = encode_node_report(report)["virtualNodes"]
    assert first["allocatable"]["cpu"] == "3"
    assert second["allocatable"]["cpu"] == "4"
    verbs = {call.verb for call in remote.requests if call.target is not None}
    assert verbs == {"create", "list"}
    assert {call.what for call in remote.requests if call.verb == "create"} == {
        "create selfsubjectaccessreviews"
    }


async def test_others_are_not_looked_at_if_told_so(remote: FakeApiServer) -> None:
    remote.put(pod("running", "n1"))
    report = await plan(remote.write_kubeconfig(), foreign_use="ignore")
    (node,) = encode_node_report(report)["virtualNodes"]
    assert node["allocatable"]["cpu"] == "8"
    assert remote.calls("list pods") == []


async def test_a_right_that_is_missing_is_named_with_the_flag_that_does_without(
    remote: FakeApiServer,
) -> None:
    def review(call: ApiCall) -> KubeObject:
        allowed = call.body["spec"]["resourceAttributes"]["resource"] != "pods"
        return {**call.body, "status": {"allowed": allowed}}

    remote.handle("create selfsubjectaccessreviews", review)
    with pytest.raises(StartError, match="lack these rights: list pods; --foreign-use ignore"):
        await plan(remote.write_kubeconfig())


async def test_a_remote_cluster_that_cannot_be_reached(remote: FakeApiServer) -> None:
    kubeconfig = remote.write_kubeconfig()
    await remote.stop()
    with pytest.raises(StartError, match=r"127\.0\.0\.1"):
        await plan(kubeconfig)


async def test_a_kubeconfig_that_is_not_there() -> None:
    with pytest.raises(StartError, match="/none"):
        await plan(Path("/none"))


async def test_pages_that_expire_are_listed_at_once(remote: FakeApiServer) -> None:
    for number in range(501):
        remote.put(pod(f"p{number}", "n1"))
    remote.fail_next(lambda call: "continue" in call.query, 410, reason="Expired")
    report = await plan(remote.write_kubeconfig())
    (node,) = encode_node_report(report)["virtualNodes"]
    assert node["allocatable"]["pods"] == "0"
