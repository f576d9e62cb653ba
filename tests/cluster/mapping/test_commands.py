"""`vkubelet plan` and `teardown`, and rights that are missing, on real clusters."""

import asyncio
from typing import Any

import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.mapping.pool import (
    TAINT,
    build_pool_pod,
    list_virtual_nodes,
    run_command,
    run_peering,
    tear_down,
    wait_allocatable,
    wait_placed,
)
from tests.cluster.peering import RIGHTS, USER, Vkubelet, run_vkubelet
from tests.cluster.product.cloud import create, get, get_pod, wait_pod
from tests.cluster.waiting import wait_until

pytestmark = pytest.mark.cluster


async def _plan(remote: Cluster, *arguments: str, user: str = USER) -> tuple[int, str]:
    return await run_command(
        "plan",
        f"--remote-kubeconfig={remote.kubeconfig_for(user)}",
        "--remote-cluster=cloud",
        "--tolerate=mapping-test",
        *arguments,
    )


async def test_a_plan_for_people(both: tuple[Cluster, Cluster]) -> None:
    _, remote = both
    code, output = await _plan(
        remote, "--node-selector=suite=mapping", "--node-mapping=label", "--mapping-label=zone"
    )
    assert code == 0, output
    assert max(map(len, output.splitlines())) <= 80
    words = " ".join(output.split())
    assert "2 virtual nodes over 3 of" in words
    assert "cloud-a behind it (2): m-a1, m-a2" in words
    assert "its pods can go to: (zone=a, suite=mapping, type!=virtual-kubelet)" in words
    assert "m-dedicated taint dedicated=db:NoSchedule" in words


async def test_a_plan_for_programs_is_what_the_process_then_makes(
    both: tuple[Cluster, Cluster],
) -> None:
    home, remote = both
    code, output = await _plan(
        remote, "--node-selector=suite=mapping", "--node-mapping=per-node", "-o", "yaml"
    )
    assert code == 0
    planned = {node["name"]: node for node in yaml.safe_load(output)["virtualNodes"]}
    async with run_peering(home, remote, "cloud2", "--node-mapping=per-node"):
        made = await list_virtual_nodes(home, "cloud2")
    for name, node in made.items():
        plan = planned[name.replace("cloud2", "cloud")]
        assert node["status"]["allocatable"] == plan["allocatable"]


@pytest.mark.parametrize(
    ("arguments", "user", "code", "said"),
    [
        (["--virtual-node=gpu"], USER, 2, "--virtual-node: 'gpu' is not NAME=SELECTOR"),
        (["--node-mapping=zones"], USER, 2, "--node-mapping: there is no node mapping 'zones'"),
        ([], "nobody", 1, "the remote credentials lack these rights: list nodes, list pods"),
        (["--foreign-use=ignore"], "nobody", 1, "lack these rights: list nodes"),
        (["--remote-context=nowhere"], USER, 1, "nowhere"),
    ],
)
async def test_plans_that_cannot_be_made(
    both: tuple[Cluster, Cluster], arguments: list[str], user: str, code: int, said: str
) -> None:
    _, remote = both
    ended, output = await _plan(remote, *arguments, user=user)
    assert ended == code
    assert said in output
    assert output.count("\n") == 1


async def _grant_teardown(home: Cluster, remote: Cluster) -> None:
    await home.kubectl("apply", "-f", str(RIGHTS / "teardown-home.yaml"))
    await remote.kubectl("apply", "-f", str(RIGHTS / "teardown-remote.yaml"))


async def test_a_teardown_removes_all_of_a_peering(
    both: tuple[Cluster, Cluster], namespace: str
) -> None:
    home, remote = both
    await _grant_teardown(home, remote)
    user = (
        home.kubeconfig_for("vkubelet-teardown"),
        remote.kubeconfig_for("vkubelet-teardown"),
    )
    async with run_peering(home, remote, "gone") as process:
        await create(home, build_pool_pod("web", namespace, "gone"))
        await wait_pod(home, "web", namespace, "the pod", phase="Running")
        there = f"{namespace}-" + await _home_name(home)
        assert await get(remote, "namespace", there)

        code, output = await tear_down(home, remote, "gone", "--yes", kubeconfigs=user)
        assert code == 1
        assert "a process of this peering runs (" in output
        assert "stop it first" in output

        await process.stop()
        code, output = await tear_down(home, remote, "gone", "--dry-run", kubeconfigs=user)
        assert code == 0, output
        assert "home: Node gone" in output
        assert f"remote: Namespace {there}" in output
        assert await get(home, "node", "gone")

        code, output = await tear_down(home, remote, "gone", "--drain-timeout=1m", kubeconfigs=user)
        assert code == 2  # nobody to ask
        assert "--yes" in output

        code, output = await tear_down(home, remote, "gone", "--yes", kubeconfigs=user)
        assert code == 0, output
        assert output.splitlines()[-1] == "done"
        assert await get(home, "node", "gone") == {}
        assert await get_pod(home, "web", namespace) == {}
        assert await get(home, "lease", "gone", "-n=kube-node-lease") == {}
        assert await get(home, "lease", "vkubelet-gone", "-n=kube-system") == {}

        async def removed() -> bool:
            return not await get(remote, "namespace", there)

        await wait_until(removed, "the remote namespace is gone")
        code, output = await tear_down(home, remote, "gone", "--yes", kubeconfigs=user)
        assert (code, output) == (0, "nothing of the peering with gone is left\n")


async def _home_name(home: Cluster) -> str:
    system = await get(home, "namespace", "kube-system")
    return str(system["metadata"]["uid"]).partition("-")[0]


async def test_a_teardown_when_the_remote_cluster_is_gone(
    both: tuple[Cluster, Cluster], namespace: str
) -> None:
    home, remote = both
    async with run_peering(home, remote, "lost") as process:
        await create(home, build_pool_pod("web", namespace, "lost"))
        await wait_placed(home, remote, "web", namespace)
        await process.stop()
        config = yaml.safe_load(remote.admin_kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
        file = home.folder / "lost.kubeconfig"
        file.write_text(yaml.safe_dump(config))
        kubeconfigs = (home.admin_kubeconfig, file)
        code, output = await tear_down(home, remote, "lost", "--yes", kubeconfigs=kubeconfigs)
        assert code == 1
        assert "the remote cluster can't be reached" in output
        assert "--home-only" in output
        code, output = await run_command(
            "teardown",
            f"--kubeconfig={home.admin_kubeconfig}",
            "--remote-cluster=lost",
            "--home-only",
            "--yes",
        )
        assert code == 0, output
        assert await get(home, "node", "lost") == {}
        assert await get_pod(home, "web", namespace) == {}


def _role(kind: str, name: str, rules: list[dict[str, Any]], **where: str) -> list[dict[str, Any]]:
    api_version = "rbac.authorization.k8s.io/v1"
    metadata = {"name": name, **where}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    return [
        {"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules},
        {
            "apiVersion": api_version,
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": reference,
            "subjects": [subject],
        },
    ]


def _rule(resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": resources, "verbs": verbs}


async def test_without_the_right_to_list_all_pods(
    both: tuple[Cluster, Cluster], namespace: str
) -> None:
    home, remote = both
    there = f"tenant-{namespace}"
    await remote.kubectl("create", "namespace", there)
    await create(
        remote,
        *_role("ClusterRole", "tenant", [_rule(["nodes"], ["list", "watch"])]),
        *_role(
            "Role",
            "tenant",
            [
                _rule(["pods"], ["get", "list", "watch", "create", "patch", "delete"]),
                _rule(["pods/ephemeralcontainers", "pods/resize"], ["patch"]),
                _rule(["pods/log", "pods/exec", "pods/attach", "pods/portforward"], ["get"]),
                _rule(["pods/exec", "pods/attach", "pods/portforward"], ["create"]),
                _rule(["namespaces"], ["get"]),
                _rule(
                    ["configmaps", "secrets"],
                    ["get", "list", "watch", "create", "update", "delete"],
                ),
                _rule(["events"], ["list", "watch"]),
            ],
            namespace=there,
        ),
    )
    arguments = [
        f"--namespace={namespace}",
        "--remote-namespace=tenant-{namespace}",
        "--adopt-namespaces",
        "--node-selector=suite=mapping",
        f"--tolerate={TAINT['key']}",
        f"--remote-kubeconfig={remote.kubeconfig_for('tenant')}",
    ]
    process = Vkubelet(home, remote, remote_cluster="tenant", arguments=arguments)
    code, output = await run_command(*process.command[3:])
    assert code == 1
    assert "list pods" in output
    assert "--foreign-use ignore" in output
    try:
        arguments.append("--foreign-use=ignore")
        async with run_vkubelet(home, remote, remote_cluster="tenant", arguments=arguments):
            await wait_allocatable(home, "tenant", "12")
            await create(home, build_pool_pod("own", namespace, "tenant", cpu="1"))
            await wait_pod(home, "own", namespace, "the tenant's pod", phase="Running")
            await asyncio.sleep(2)  # what would be counted twice would be by now
            await wait_allocatable(home, "tenant", "12")
            logs = await home.kubectl("logs", "own", f"-n={namespace}")
            assert logs.stdout == "started\n"
    finally:
        await tear_down(home, remote, "tenant")
        await remote.kubectl("delete", "namespace", there, "--wait=false")


async def test_names_of_253_characters(both: tuple[Cluster, Cluster]) -> None:
    home, remote = both
    name = ".".join(["n" * 61] * 4)[:253]
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"length": "long"}},
        "spec": {"taints": [TAINT]},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    await create(remote, node)
    try:
        arguments = [
            "--namespace=*",
            "--node-selector=length=long",
            "--tolerate=mapping-test",
            "--node-mapping=per-node",
            "--node-name-prefix=a-long-prefix-",
        ]
        async with run_vkubelet(home, remote, remote_cluster="long", arguments=arguments):
            (made,) = (await list_virtual_nodes(home, "long")).values()
            assert len(made["metadata"]["name"]) <= 253
            assert made["metadata"]["name"].startswith("a-long-prefix-nnn")
            assert len(made["metadata"]["labels"]["kubernetes.io/hostname"]) <= 63
    finally:
        await remote.kubectl("delete", "node", name)
        await tear_down(home, remote, "long")
