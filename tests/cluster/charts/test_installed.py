"""What the installed charts let the process do, and what they keep it from."""

import secrets
from typing import Any

import msgspec
import pytest

from tests.cluster.charts.conftest import PEERING
from tests.cluster.charts.installation import NAMESPACE, Installation, make_kubeconfig
from tests.cluster.charts.rendered import apply, read_hooks
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import Completed
from tests.cluster.mapping.pool import run_command
from tests.cluster.peering import Vkubelet
from tests.cluster.product.cloud import (
    build_pod,
    create,
    find_remote_pods,
    get,
    get_pod,
    run_pod,
    wait_gone,
)
from tests.cluster.waiting import wait_until
from vkubelet.kube.client import PatchType
from vkubelet.kube.errors import ForbiddenError
from vkubelet.kube.objects import NODES, PODS, NamespacedName, Resource

pytestmark = pytest.mark.cluster

THERE = {"vkubelet.io/peering": PEERING}


async def test_pods_run_with_the_rights_of_the_charts(
    home: Cluster, remote: Cluster, process: Vkubelet, reflected: str
) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    await home.kubectl(
        "apply", f"-n={reflected}", "-f", "-", stdin=msgspec.json.encode(secret).decode()
    )
    volumes = [{"name": "v", "secret": {"secretName": "s"}}]
    pod = await run_pod(home, "web", reflected, nodeSelector=THERE, volumes=volumes)
    (behind,) = await find_remote_pods(remote, pod)
    log = await home.kubectl("logs", "web", f"-n={reflected}")
    assert log.stdout == "started\n"
    done = await home.kubectl("exec", "web", f"-n={reflected}", "--", "echo", "hello")
    assert done.stdout == "hello\n"
    assert behind["metadata"]["labels"]["vkubelet.io/peering"] == PEERING
    await home.kubectl("delete", "pod", "web", f"-n={reflected}", "--wait=false")
    await wait_gone(home, "web", reflected)


async def test_the_test_of_the_release(
    installation: Installation, home: Cluster, process: Vkubelet, reflected: str
) -> None:
    """As `helm test` does it: its objects, its arguments, its service account."""
    hooks = await read_hooks(installation.values, "test")
    pod = next(found for found in hooks if found["kind"] == "Pod")
    others = [found for found in hooks if found["kind"] != "Pod"]
    await apply(home, others)
    kubeconfig = installation.account_kubeconfig("-test")
    await make_kubeconfig(home, f"{installation.name}-test", kubeconfig)
    (container,) = pod["spec"]["containers"]
    arguments = [
        f"--config={await installation.read_configuration()}"
        if "--config" in argument
        else argument
        for argument in container["args"]
    ]
    code, output = await run_command(
        *arguments,
        f"--kubeconfig={kubeconfig}",
        f"--remote-kubeconfig={installation.remote_kubeconfig}",
        "--pod-command=echo hello",
    )
    assert code == 0, output
    assert "its log says 'hello'" in " ".join(output.split())


class Refused:
    """Tries things with the process's own credentials that it may not do."""

    def __init__(self, cluster: Cluster, kubeconfig: Any) -> None:
        self._cluster = cluster
        self._kubeconfig = kubeconfig

    async def try_it(self, *args: str, stdin: str = "") -> Completed:
        return await self._cluster.kubectl(
            *args, stdin=stdin, kubeconfig=self._kubeconfig, check=False
        )

    async def expect(self, said: str, *args: str, body: dict[str, Any] | None = None) -> None:
        """Expect that the policy refuses it, and the rights alone wouldn't have."""
        stdin = "" if body is None else msgspec.json.encode(body).decode()
        done = await self.try_it(*args, stdin=stdin)
        assert done.returncode != 0, f"{args} was let through"
        assert "ValidatingAdmissionPolicy" in done.stderr, done.stderr
        assert said in done.stderr

    async def expect_patch(
        self, said: str, resource: Resource, key: tuple[str, str], patch: dict[str, Any]
    ) -> None:
        """Expect it of a patch of a status; kubectl would want to read that first."""
        async with self._cluster.client(self._kubeconfig) as client:
            with pytest.raises(ForbiddenError, match=f"ValidatingAdmissionPolicy.*{said}"):
                await client.patch(
                    resource, NamespacedName(*key), patch, PatchType.MERGE, subresource="status"
                )


@pytest.fixture
def at_home(installation: Installation, process: Vkubelet) -> Refused:
    return Refused(installation.home, installation.account_kubeconfig())


@pytest.fixture
def at_remote(installation: Installation, process: Vkubelet) -> Refused:
    return Refused(installation.remote, installation.remote_kubeconfig)


async def test_nodes_of_others(home: Cluster, at_home: Refused) -> None:
    real = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}}
    await create(home, real)
    try:
        for patch in (
            '{"spec":{"unschedulable":true}}',
            '{"metadata":{"labels":{"vkubelet.io/peering":"sea"}}}',
        ):
            await at_home.expect("not of the peering", "patch", "node", "real", f"--patch={patch}")
        status: dict[str, Any] = {"status": {"conditions": []}}
        await at_home.expect_patch("not of the peering", NODES, ("", "real"), status)
        await at_home.expect("not of the peering", "delete", "node", "real")
    finally:
        await home.kubectl("delete", "node", "real")


async def test_nodes_that_are_not_to_be(at_home: Refused) -> None:
    labels = {"vkubelet.io/peering": PEERING, "vkubelet.io/home-cluster": "x"}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other", "labels": labels}}
    await at_home.expect("not among those", "create", "-f", "-", body=body)
    unlabelled = {**body, "metadata": {"name": "sea-9"}}
    await at_home.expect("keeps the label", "create", "-f", "-", body=unlabelled)
    await at_home.expect(
        "keeps the label",
        "patch",
        "node",
        PEERING,
        '--patch={"metadata":{"labels":{"vkubelet.io/peering":"mine"}}}',
    )


async def test_pods_of_others(home: Cluster, at_home: Refused, reflected: str) -> None:
    pods = [build_pod(name, reflected) for name in ("bound", "unbound")]
    pods[0]["spec"] |= {"nodeName": "real", "nodeSelector": {}}
    pods[1]["spec"] |= {"schedulerName": "nobody"}
    await create(home, *pods)
    for name in ("bound", "unbound"):
        await at_home.expect(
            "not on a Node of the process", "delete", "pod", name, f"-n={reflected}"
        )
        status = {"status": {"message": "x"}}
        await at_home.expect_patch("not on a Node of the", PODS, (reflected, name), status)
    await home.kubectl(
        "delete", "pod", "bound", "unbound", f"-n={reflected}", "--grace-period=0", "--force"
    )


async def test_leases_of_other_nodes(at_home: Refused) -> None:
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "real", "namespace": "kube-node-lease"},
    }
    await at_home.expect("not of a Node of the process", "create", "-f", "-", body=body)
    body["metadata"] = {"name": "other", "namespace": NAMESPACE}
    await at_home.expect("not the lock of the peering", "create", "-f", "-", body=body)


async def test_certificates_of_others(home: Cluster, at_home: Refused) -> None:
    found = await home.kubectl("get", "csr", "-o", "json")
    request = found.json()["items"][0]["spec"]["request"]

    def build(name: str, **spec: Any) -> dict[str, Any]:
        usages = ["digital signature", "server auth"]
        return {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {
                "request": request,
                "signerName": "kubernetes.io/kubelet-serving",
                "usages": usages,
                **spec,
            },
        }

    client = {
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["digital signature", "client auth"],
    }
    await at_home.expect(
        "asks this signer for nothing", "create", "-f", "-", body=build("a", **client)
    )
    usages = ["digital signature", "client auth"]
    await at_home.expect(
        "serving certificates only", "create", "-f", "-", body=build("b", usages=usages)
    )
    name = f"theirs-{secrets.token_hex(3)}"
    await create(home, build(name))
    # kubectl reads the request first, which isn't among the rights.
    theirs = await get(home, "csr", name)
    approval = {"type": "Approved", "status": "True", "reason": "x", "message": "x"}
    theirs["status"] = {"conditions": [approval]}
    path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}/approval"
    await at_home.expect(
        "approves its own requests only", "replace", f"--raw={path}", "-f", "-", body=theirs
    )


async def test_remote_objects_of_others(
    remote: Cluster, at_remote: Refused, process: Vkubelet
) -> None:
    pod = build_pod("theirs", "default", nodeSelector={}, tolerations=[])
    await create(remote, pod)
    await at_remote.expect("not of the peering", "delete", "pod", "theirs", "-n=default")
    await at_remote.expect(
        "with the labels of its peering", "create", "-f", "-", body=build_pod("mine", "default")
    )
    labelled = build_pod("mine", "default")
    labelled["metadata"]["labels"] = {
        "vkubelet.io/peering": PEERING,
        "vkubelet.io/home-cluster": "x",
    }
    await at_remote.expect("namespace is not of the peering", "create", "-f", "-", body=labelled)
    for kind in ("ConfigMap", "Secret"):
        metadata = {"name": "x", "namespace": "default"}
        body = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
        await at_remote.expect("with the labels of its peering", "create", "-f", "-", body=body)
    await at_remote.expect(
        "namespace is not of the peering", "exec", "theirs", "-n=default", "--", "true"
    )
    await remote.kubectl("delete", "pod", "theirs", "--wait=false")


async def test_remote_namespaces_that_are_not_to_be(at_remote: Refused) -> None:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
    await at_remote.expect("labels of its peering only", "create", "-f", "-", body=body)
    labels = {"vkubelet.io/peering": PEERING, "vkubelet.io/home-cluster": "x"}
    body["metadata"]["labels"] = labels
    await at_remote.expect("Pod Security level", "create", "-f", "-", body=body)
    enforce = "pod-security.kubernetes.io/enforce"
    body["metadata"]["labels"] = {**labels, enforce: "privileged"}
    await at_remote.expect("Pod Security level", "create", "-f", "-", body=body)


async def test_the_policies_are_free_of_type_errors(
    home: Cluster, remote: Cluster, installation: Installation
) -> None:
    for cluster, count in ((home, 5), (remote, 3)):

        async def checked(cluster: Cluster = cluster, count: int = count) -> bool:
            found = await cluster.kubectl("get", "validatingadmissionpolicies", "-o", "json")
            policies = found.json()["items"]
            assert len(policies) == count
            return all("typeChecking" in policy.get("status", {}) for policy in policies)

        await wait_until(checked, "the policies are type-checked")
        found = await cluster.kubectl("get", "validatingadmissionpolicies", "-o", "json")
        for policy in found.json()["items"]:
            warnings = policy["status"]["typeChecking"].get("expressionWarnings")
            assert not warnings, (policy["metadata"]["name"], warnings)


async def test_a_daemonset_pod_and_a_pod_elsewhere_are_finalised(
    home: Cluster, process: Vkubelet, namespace: str
) -> None:
    """In a namespace that isn't reflected: such pods are deleted by us, too."""
    await create(home, build_pod("lost", namespace, nodeSelector=THERE))

    async def told() -> bool:
        pod = await get_pod(home, "lost", namespace)
        return bool(pod.get("status", {}).get("reason") == "NamespaceNotReflected")

    await wait_until(told, "it says why it doesn't run")
    await home.kubectl("delete", "pod", "lost", f"-n={namespace}", "--wait=false")
    await wait_gone(home, "lost", namespace)
