"""Every right that the charts grant is used: the API servers' audit logs against the roles."""

from collections.abc import Mapping

import aiohttp
import pytest

from tests.charts.rules import read_grants
from tests.cluster.charts.conftest import PEERING
from tests.cluster.charts.installation import NAMESPACE, Installation
from tests.cluster.cluster import Cluster
from tests.cluster.peering import Vkubelet
from tests.cluster.product.cloud import create, get, run_pod, wait_gone
from tests.cluster.waiting import wait_until

pytestmark = pytest.mark.cluster

THERE = {"vkubelet.io/peering": PEERING}
Grants = set[tuple[str, str]]
"""Verb, and group/resource[/subresource]."""

STREAMED = "where the API server doesn't stream lists"
RARELY_USED_AT_HOME: Mapping[tuple[str, str], str] = {
    ("get", "/nodes"): "the name of a Node is taken",
    ("delete", "/nodes"): "a virtual node isn't wanted any more",
    ("get", "/pods"): "what a cache lacks is no reason to delete",
    ("create", "/pods/eviction"): "a virtual node isn't wanted any more",
    ("patch", "/events"): "an event happens again",
    ("approve", "certificates.k8s.io/signers"): "asked of the authorizer at an approval",
    ("list", "/pods"): STREAMED,
    ("list", "/configmaps"): STREAMED,
    ("list", "/secrets"): STREAMED,
    ("list", "certificates.k8s.io/certificatesigningrequests"): STREAMED,
}
RARELY_USED_OVER_THERE: Mapping[tuple[str, str], str] = {
    ("get", "/pods"): "a name is taken, or an answer was lost",
    ("get", "/configmaps"): "a name is taken",
    ("get", "/secrets"): "a name is taken",
    ("patch", "/pods/resize"): "resources change, which the kubelets here don't do",
    ("create", "/pods/exec"): "by SPDY, where a server doesn't do WebSockets",
    ("create", "/pods/attach"): "by SPDY, where a server doesn't do WebSockets",
    ("create", "/pods/portforward"): "by SPDY, where a server doesn't do WebSockets",
    ("list", "metrics.k8s.io/nodes"): "one node to one: the node's own use",
    ("list", "metrics.k8s.io/pods"): "while somebody asks what pods use",
    ("list", "/nodes"): STREAMED,
    ("list", "/pods"): STREAMED,
    ("list", "/configmaps"): STREAMED,
    ("list", "/secrets"): STREAMED,
    ("list", "/events"): STREAMED,
}


async def test_at_home(
    home: Cluster, installation: Installation, process: Vkubelet, reflected: str
) -> None:
    await _run_with_dependents(home, "used", reflected)
    await _ask_by_token(home, installation)
    await _cordon_for_a_moment(home, installation)
    await _remove(home, "used", reflected)
    await _check(home, installation.name, RARELY_USED_AT_HOME)


async def test_over_there(
    home: Cluster, remote: Cluster, installation: Installation, process: Vkubelet, reflected: str
) -> None:
    where = f"--namespace={reflected}"
    await _run_with_dependents(home, "busy", reflected)
    await home.kubectl("logs", "busy", where)
    await home.kubectl("exec", "busy", where, "--", "true")
    async with home.kubectl_process("attach", "busy", where) as attached:
        await _wait_used(remote, installation.remote_name, ("get", "/pods/attach"))
        attached.terminate()
    async with home.kubectl_process("port-forward", "busy", ":80", where) as forwarding:
        assert forwarding.stdout is not None
        line = (await forwarding.stdout.readline()).decode()
        port = int(line.split(" -> ")[0].rpartition(":")[2])
        await _connect(port)
        await _wait_used(remote, installation.remote_name, ("get", "/pods/portforward"))
    await home.kubectl("label", "pod", "busy", "changed=yes", where)
    await home.kubectl("patch", "secret", "busy", where, '--patch={"stringData":{"key":"new"}}')
    await home.kubectl("patch", "configmap", "busy", where, '--patch={"data":{"key":"new"}}')
    debugger = ["--image=any", "--profile=baseline", "--", "true"]
    await home.kubectl("debug", "busy", where, *debugger)
    for used in (
        ("patch", "/pods/ephemeralcontainers"),
        ("update", "/configmaps"),
        ("update", "/secrets"),
    ):
        await _wait_used(remote, installation.remote_name, used)
    await _remove(home, "busy", reflected)
    await _check(remote, installation.remote_name, RARELY_USED_OVER_THERE, seconds=60)


async def _run_with_dependents(home: Cluster, name: str, namespace: str) -> None:
    metadata = {"name": name, "namespace": namespace}
    objects = [
        {"apiVersion": "v1", "kind": kind, "metadata": metadata} for kind in ("ConfigMap", "Secret")
    ]
    await create(home, *objects)
    sources = [{"configMap": {"name": name}}, {"secret": {"name": name}}]
    volumes = [{"name": "v", "projected": {"sources": sources}}]
    pod = await run_pod(home, name, namespace, nodeSelector=THERE, volumes=volumes)
    assert pod["spec"]["nodeName"] == PEERING


async def _remove(home: Cluster, name: str, namespace: str) -> None:
    await home.kubectl("delete", "pod", name, f"-n={namespace}", "--wait=false")
    await wait_gone(home, name, namespace)


async def _connect(port: int) -> None:
    """Go through a port-forward; whether somebody listens behind doesn't matter."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://127.0.0.1:{port}")


async def _cordon_for_a_moment(home: Cluster, installation: Installation) -> None:
    """Have the virtual node change: one of the physical nodes takes no pods."""

    async def noticed() -> bool:
        annotations = (await get(home, "node", installation.peering))["metadata"]["annotations"]
        return bool(annotations["vkubelet.io/members"] == '{"eligible":2,"members":3}')

    await installation.remote.kubectl("cordon", "hdd-1")
    try:
        await wait_until(noticed, "the cordon is noticed")
    finally:
        await installation.remote.kubectl("uncordon", "hdd-1")


async def _ask_by_token(home: Cluster, installation: Installation) -> None:
    """Ask the kubelet port as somebody with a token, who is reviewed."""
    made = await home.kubectl("create", "token", "default", f"--namespace={NAMESPACE}")
    node = await get(home, "node", installation.peering)
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"https://127.0.0.1:{port}/pods", ssl=False) as response,
    ):
        assert response.status == 403


async def _check(
    cluster: Cluster, account: str, rarely: Mapping[tuple[str, str], str], *, seconds: float = 20
) -> None:
    """Wait until all that an account is granted has been used, but for what rarely is."""
    granted = await _read_granted(cluster, account)
    assert rarely.keys() <= granted

    async def all_used() -> bool:
        return granted - _read_used(cluster, account) <= rarely.keys()

    try:
        await wait_until(all_used, "all rights are used", timeout_seconds=seconds)
    finally:
        used = _read_used(cluster, account)
        print("not used:", sorted(granted - used - rarely.keys()))
    assert used - granted <= await _read_rights_of_everybody(cluster)


async def _read_rights_of_everybody(cluster: Cluster) -> Grants:
    """Read what whoever is authenticated may do, as `vkubelet check` asks who it is."""
    role = await get(cluster, "clusterrole", "system:basic-user")
    return {
        (verb, f"{group}/{resource}")
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


async def _wait_used(cluster: Cluster, account: str, used: tuple[str, str]) -> None:
    async def is_used() -> bool:
        return used in _read_used(cluster, account)

    await wait_until(is_used, f"{used} is used", timeout_seconds=20)


async def _read_granted(cluster: Cluster, account: str) -> Grants:
    found = await cluster.kubectl(
        "get", "clusterroles,clusterrolebindings,roles,rolebindings", "-A", "-o", "json"
    )
    grants = read_grants(found.json()["items"], account)
    assert grants
    return {(grant.verb, grant.resource) for grant in grants if grant.namespace != "kube-system"}


def _read_used(cluster: Cluster, account: str) -> Grants:
    used = set()
    for event in cluster.read_audit_log():
        reference = event.get("objectRef", {})
        ours = event["user"]["username"].endswith(f":{account}")
        if not ours or not reference or event["responseStatus"]["code"] in (401, 403):
            continue
        if reference["resource"] == "configmaps" and reference.get("namespace") == "kube-system":
            continue
        resource = f"{reference.get('apiGroup', '')}/{reference['resource']}"
        if reference.get("subresource"):
            resource += f"/{reference['subresource']}"
        used.add((event["verb"], resource))
    return used
