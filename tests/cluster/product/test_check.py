"""`vkubelet check` against real API servers: before anything runs, and beside what does."""

import json
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.mapping.pool import run_command
from tests.cluster.metrics_server import find_address
from tests.cluster.peering import USER, PhysicalNodes, Vkubelet
from tests.cluster.product.cloud import create
from tests.cluster.waiting import wait_until

pytestmark = pytest.mark.cluster


def _flags(home: Cluster, remote: Cluster, cluster: str = "cloud") -> list[str]:
    return [
        f"--kubeconfig={home.admin_kubeconfig}",
        f"--remote-kubeconfig={remote.kubeconfig_for(USER)}",
        f"--remote-cluster={cluster}",
    ]


async def _check(*arguments: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    code, output = await run_command("check", *arguments, "-o", "json")
    found = {item["name"]: item["findings"] for item in json.loads(output)["checks"]}
    return code, found


def _messages(findings: list[dict[str, Any]], level: str) -> list[str]:
    return [item["message"] for item in findings if item["level"] == level]


async def test_for_people(
    home: Cluster, remote: Cluster, vkubelet: Vkubelet, namespace: str
) -> None:
    code, output = await run_command(
        "check", *_flags(home, remote), f"--namespace={namespace}", "--approve-csr"
    )
    assert code == 0, output
    lines = output.splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("  $ "))
    words = " ".join(output.split())
    assert f"ok home-api {home.server} answers, v1." in words
    assert "ok clocks the clocks agree" in words
    assert "ok versions home v1." in words
    assert "ok home-rights all " in words
    assert "rights are there for the remote credentials" in words
    # Pools that other tests added are left out, too: their taints aren't tolerated.
    assert "ok virtual-nodes 1 over 3 physical nodes: cloud; " in words
    assert "ok certificates kubernetes.io/kubelet-serving signs" in words
    assert "serves it, version" in words


async def test_a_pod_is_run(
    home: Cluster, remote: Cluster, vkubelet: Vkubelet, namespace: str
) -> None:
    code, found = await _check(
        *_flags(home, remote),
        f"--namespace={namespace}",
        "--only=pod",
        "--run-pod=any",
        "--pod-command=echo 'hello there'",
    )
    assert code == 0, found
    (said,) = _messages(found["pod"], "ok")
    assert said.startswith("a pod ran on cloud (")
    assert said.endswith("its log says 'hello there'")

    async def removed() -> bool:
        return (await home.kubectl("get", "pods", "-n", namespace, "-o", "name")).stdout == ""

    await wait_until(removed, "the pod is removed")


async def test_a_pod_that_cannot_run(
    home: Cluster, remote: Cluster, vkubelet: Vkubelet, namespace: str
) -> None:
    code, found = await _check(
        *_flags(home, remote),
        f"--namespace={namespace}",
        "--only=pod",
        "--run-pod=any",
        "--pod-command=false",
    )
    assert code == 1
    (said,) = _messages(found["pod"], "failure")
    assert "the pod is Failed on cloud: Error: exit code 1" in said


async def test_daemonsets_that_would_come_and_the_command_that_keeps_them_off(
    home: Cluster, remote: Cluster, vkubelet: Vkubelet, namespace: str
) -> None:
    labels = {"app": "agent"}
    pod = {
        "metadata": {"labels": labels},
        "spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "any"}],
        },
    }
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    metadata = {"name": "agent", "namespace": namespace}
    await create(
        home, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}
    )
    arguments = [*_flags(home, remote), f"--namespace={namespace}", "--only=daemonsets"]
    _, found = await _check(*arguments)
    (finding,) = found["daemonsets"]
    assert finding["level"] == "warning"
    assert f"DaemonSet {namespace}/agent would come to 1 of 1 virtual nodes" in finding["message"]
    words = finding["command"].split(" ", 5)
    patch = words[-1].removeprefix("--type=merge --patch=").strip("'")
    await home.kubectl(*words[1:5], "--type=merge", f"--patch={patch}")
    _, found = await _check(*arguments)
    assert found["daemonsets"][0]["level"] == "ok"


async def test_what_is_missing_is_named(
    home: Cluster, remote: Cluster, vkubelet: Vkubelet, namespace: str
) -> None:
    real = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "taken"}}
    await create(home, real)
    try:
        code, found = await _check(
            *_flags(home, remote, "other"),
            f"--namespace={namespace}",
            "--namespace=not-there",
            f"--remote-kubeconfig={remote.kubeconfig_for('nobody')}",
            f"--service-account={namespace}/default",
            "--node-name=taken",
        )
    finally:
        await home.kubectl("delete", "node", "taken")
    assert code == 1
    missing = _messages(found["home-rights"], "failure")
    assert f"service account {namespace}/default may not patch nodes/status" in missing
    assert "the remote credentials may not create pods" in _messages(
        found["remote-rights"], "failure"
    )
    assert found["virtual-nodes"][0]["level"] == "skipped"  # nobody may list nodes
    (gone,) = _messages(found["namespaces"], "warning")
    assert gone == "home has no namespace not-there"


async def test_a_name_that_is_taken_and_too_few_ports(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes, namespace: str
) -> None:
    await create(home, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "ssd-1"}})
    try:
        code, found = await _check(
            *_flags(home, remote, "other"),
            f"--namespace={namespace}",
            "--node-mapping=per-node",
            "--exact-node-names",
            "--kubelet-ports=10250-10251",
            "--only=virtual-nodes",
        )
    finally:
        await home.kubectl("delete", "node", "ssd-1")
    assert code == 1
    assert _messages(found["virtual-nodes"], "failure") == [
        "home has a Node ssd-1 that isn't ours: it's never touched",
        "3 virtual nodes need a port each, and --kubelet-ports 10250-10251 are 2",
    ]


async def test_a_probe_of_an_address(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes, namespace: str
) -> None:
    address = find_address()
    arguments = [
        *_flags(home, remote, "other"),
        f"--namespace={namespace}",
        "--only=kubelet-port",
        "--probe",
        "--kubelet-ports=23500-23599",
    ]
    code, found = await _check(*arguments, f"--kubelet-address={address}")
    assert code == 0, found
    assert found["kubelet-port"][0]["message"].startswith(
        f"the home API server reaches {address}:235"
    )
    nodes = (await home.kubectl("get", "nodes", "-o", "name")).stdout
    assert "vkubelet-check" not in nodes
    code, found = await _check(*arguments, "--kubelet-address=192.0.2.1")
    assert code == 1
    assert "192.0.2.1 can't be listened on here" in found["kubelet-port"][0]["message"]


async def test_the_port_of_a_node_that_runs(
    home: Cluster, remote: Cluster, vkubelet: Vkubelet, namespace: str
) -> None:
    _, found = await _check(
        *_flags(home, remote), f"--namespace={namespace}", "--only=kubelet-port"
    )
    (finding,) = found["kubelet-port"]  # its address is a loopback one in these tests
    assert finding["level"] == "skipped"
    assert "doesn't proxy to a loopback address" in finding["message"]


async def test_an_api_server_that_is_not_there(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    code, found = await _check(
        f"--kubeconfig={home.admin_kubeconfig}",
        "--remote-kubeconfig=/no/such/file",
        "--remote-cluster=cloud",
        f"--namespace={namespace}",
    )
    assert code == 1
    assert found["home-api"][0]["level"] == "ok"
    assert "/no/such/file" in found["remote-api"][0]["message"]
