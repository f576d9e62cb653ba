"""Remote namespaces that aren't the peering's alone."""

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.namespaces.peerings import (
    build_for,
    config_map,
    find_there,
    read_labels,
    run_peering,
    wait_pending,
)
from tests.cluster.peering import RIGHTS
from tests.cluster.product.cloud import build_pod, create, get_pod, wait_pod
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("physical_nodes")]

USES_SETTINGS = {"volumes": [{"name": "v", "configMap": {"name": "settings"}}]}


async def test_a_namespace_of_somebody_else_is_used_only_when_asked_for(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    there = f"theirs-{namespace}"
    await remote.kubectl("create", "namespace", there)
    before = await read_labels(remote, there)
    arguments = (f"--namespace={namespace}", "--remote-namespace=theirs-{namespace}")
    async with run_peering(home, remote, "adopting", *arguments):
        await create(home, build_for("adopting", "web", namespace))
        message = await wait_pending(home, "web", namespace, "RemoteNamespaceNotOurs")
        assert f"remote namespace {there} exists and is not of this peering" in message
        assert "--adopt-namespaces" in message
    async with run_peering(home, remote, "adopting", *arguments, "--adopt-namespaces"):
        pod = await wait_pod(home, "web", namespace, "web", phase="Running", seconds=60)
        assert (await find_there(remote, pod))["metadata"]["namespace"] == there
    assert await read_labels(remote, there) == before
    await home.kubectl("delete", "node", "adopting", "--wait=false")


async def test_two_peerings_in_one_namespace(home: Cluster, remote: Cluster, granted: str) -> None:
    """Copies are apart, pods of one name conflict visibly, and neither takes the other's."""
    there = f"shared-{granted}"
    arguments = (
        f"--namespace={granted}",
        "--remote-namespace=shared-{namespace}",
        "--adopt-namespaces",
    )
    await create(home, config_map("settings", granted, a="b"))
    async with (
        run_peering(home, remote, "left", *arguments),
        run_peering(home, remote, "right", *arguments),
    ):
        for side in ("left", "right"):
            await create(home, build_for(side, f"on-{side}", granted, **USES_SETTINGS))
            await wait_pod(home, f"on-{side}", granted, side, phase="Running")
        listed = await remote.kubectl("get", "configmaps", f"-n={there}", "-o=json")
        by_side: dict[str, set[str]] = {"left": set(), "right": set()}
        for item in listed.json()["items"]:
            side = item["metadata"].get("labels", {}).get("vkubelet.io/peering")
            if side:
                by_side[side].add(item["metadata"]["name"])
        assert [len(names) for names in by_side.values()] == [2, 2]  # an anchor and a copy each
        assert not by_side["left"] & by_side["right"]

        # A pod of another home cluster, as it were.
        await create(remote, build_pod("taken", there, nodeSelector={}))
        await create(home, build_for("left", "taken", granted))
        message = await wait_pending(home, "taken", granted, "RemotePodNotOurs")
        assert f"remote pod {there}/taken exists and is not of this peering" in message
        assert (await get_pod(remote, "taken", there))["metadata"].get("ownerReferences") is None
    await home.kubectl("delete", "node", "left", "right", "--wait=false")


async def test_rights_in_one_namespace_are_enough(
    home: Cluster, remote: Cluster, granted: str
) -> None:
    there = f"given-{granted}"
    text = (RIGHTS / "remote-namespace.yaml").read_text().replace("name: vkubelet\n", "name: one\n")
    await remote.kubectl("create", "namespace", there)
    await remote.kubectl("apply", f"-n={there}", "-f", "-", stdin=text)
    arguments = (
        f"--remote-kubeconfig={remote.kubeconfig_for('one')}",
        f"--namespace={granted}",
        "--remote-namespace=given-{namespace}",
        "--adopt-namespaces",
        "--foreign-use=ignore",
    )
    await create(home, config_map("settings", granted, a="b"))
    async with run_peering(home, remote, "given", *arguments) as process:
        await create(home, build_for("given", "web", granted, **USES_SETTINGS))
        pod = await wait_pod(home, "web", granted, "web", phase="Running")
        assert (await find_there(remote, pod))["metadata"]["namespace"] == there
        logs = await home.kubectl("logs", "web", f"-n={granted}")
        assert logs.stdout == "started\n"
        said = await home.kubectl("exec", "web", f"-n={granted}", "--", "echo", "hello")
        assert said.stdout == "hello\n"
        await home.kubectl("delete", "pod", "web", f"-n={granted}")

        async def gone() -> bool:
            return not await get_pod(remote, "web", there)

        await wait_until(gone, "the remote pod is gone")
        assert process.component is not None
        log = process.component.read_log().splitlines()
        assert [line for line in log if " WARNING" in line or " ERROR" in line] == []
    await home.kubectl("delete", "node", "given", "--wait=false")


async def test_a_namespace_that_cannot_be_made_is_told(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    """With rights in one namespace the process can't make it."""
    there = f"absent-{namespace}"
    text = (RIGHTS / "remote-namespace.yaml").read_text().replace("name: vkubelet\n", "name: two\n")
    await remote.kubectl("create", "namespace", there)
    await remote.kubectl("apply", f"-n={there}", "-f", "-", stdin=text)
    arguments = (
        f"--remote-kubeconfig={remote.kubeconfig_for('two')}",
        f"--namespace={namespace}",
        "--remote-namespace=absent-{namespace}",
        "--adopt-namespaces",
        "--foreign-use=ignore",
    )
    async with run_peering(home, remote, "absent", *arguments):
        await remote.kubectl("delete", "namespace", there)
        await create(home, build_for("absent", "web", namespace))
        message = await wait_pending(home, "web", namespace, "RemoteNamespaceForbidden")
        assert f"remote namespace {there} can't be read" in message
    await home.kubectl("delete", "node", "absent", "--wait=false")
