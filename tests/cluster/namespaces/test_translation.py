"""What pods say, and what becomes of it over there."""

import secrets
from collections.abc import Mapping
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.namespaces.conftest import NODE
from tests.cluster.namespaces.peerings import (
    build_for,
    find_there,
    read_labels,
    wait_event,
    wait_pending,
)
from tests.cluster.product.cloud import create, find_remote_pods, get, get_pod, wait_pod
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("vkubelet")]

REGION = "topology.kubernetes.io/region"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SLEEP = "exec sleep 3600"


def build_deployment(name: str, namespace: str, replicas: int, **spec: Any) -> dict[str, Any]:
    pod = build_for(NODE, name, namespace, **spec)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod["spec"]},
        },
    }


async def wait_placed(
    home: Cluster, remote: Cluster, app: str, namespace: str, count: int
) -> list[str]:
    """Wait until so many pods of an app run; returns the physical nodes that they are on."""

    async def available() -> bool:
        found = await get(home, "deployment", app, f"-n={namespace}")
        return bool(found.get("status", {}).get("availableReplicas") == count)

    await wait_until(available, f"{count} pods of {app} are available", timeout_seconds=60)
    listed = await home.kubectl("get", "pods", f"-n={namespace}", f"-l=app={app}", "-o=json")
    pods = [pod for pod in listed.json()["items"] if not pod["metadata"].get("deletionTimestamp")]
    return [(await find_there(remote, pod))["spec"]["nodeName"] for pod in pods]


async def test_a_rollout_is_spread_over_physical_nodes_revision_by_revision(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    """For home's scheduler the virtual node is one host: only the remote one can spread."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    spread = build_deployment("spread", namespace, 3, topologySpreadConstraints=[constraint])
    await create(home, spread)
    nodes = await wait_placed(home, remote, "spread", namespace, 3)
    assert sorted(nodes) == ["hdd-1", "ssd-1", "ssd-2"]
    await home.kubectl("delete", "deployment", "spread", f"-n={namespace}")


async def test_pods_that_must_be_apart_are_apart_over_there(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    """Apart by a label that only physical nodes have."""
    term = {
        "labelSelector": {"matchLabels": {"app": "apart"}},
        "topologyKey": "disktype",
        "matchLabelKeys": ["pod-template-hash"],
    }
    affinity = {"podAntiAffinity": {REQUIRED: [term]}}
    await create(home, build_deployment("apart", namespace, 2, affinity=affinity))
    nodes = await wait_placed(home, remote, "apart", namespace, 2)
    assert sorted(node[:3] for node in nodes) == ["hdd", "ssd"]
    await home.kubectl("delete", "deployment", "apart", f"-n={namespace}")


async def test_pods_of_another_namespace_are_kept_close(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    other = f"test-{secrets.token_hex(4)}"
    await home.make_namespace(other)
    place = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [in_list("disktype", "hdd")]}}}
    await create(home, build_for(NODE, "cache", other, affinity=place, nodeName=NODE))
    await wait_pod(home, "cache", other, "cache", phase="Running")
    term = {
        "labelSelector": {"matchLabels": {"app": "cache"}},
        "topologyKey": "kubernetes.io/hostname",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": other}},
    }
    affinity = {"podAffinity": {REQUIRED: [term]}}
    await create(home, build_for(NODE, "client", namespace, affinity=affinity))
    pod = await wait_pod(home, "client", namespace, "client", phase="Running")
    assert (await find_there(remote, pod))["spec"]["nodeName"] == "hdd-1"
    await home.kubectl("delete", "namespace", other, "--wait=false")


def in_list(key: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [*values]}]}


async def test_a_constraint_that_no_physical_node_can_meet_is_left_out_and_told(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "example.com/rack",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "racked"}},
    }
    await create(home, build_for(NODE, "racked", namespace, topologySpreadConstraints=[constraint]))
    pod = await wait_pod(home, "racked", namespace, "racked", phase="Running")
    assert "topologySpreadConstraints" not in (await find_there(remote, pod))["spec"]
    message = await wait_event(home, "racked", namespace, "PartlyReflected")
    assert "topologySpreadConstraint on example.com/rack doesn't travel" in message


async def test_the_longest_names(home: Cluster, remote: Cluster) -> None:
    """A namespace of 63 characters, pods of 253 with dots that differ at the end only."""
    namespace = f"test-{secrets.token_hex(4)}-".ljust(63, "n")
    names = [f"{'a.b-' * 62}{end:05}" for end in (1, 2)]
    assert [len(name) for name in names] == [253, 253]
    await home.make_namespace(namespace)
    for name in names:
        pod = build_for(NODE, name, namespace)
        pod["metadata"]["labels"] = {"app": "long"}
        container = pod["spec"]["containers"][0]
        container["command"] = ["sh", "-c", f"echo $NAME $NAMESPACE $UID_ $NODE; {SLEEP}"]
        container["env"] = [
            field("NAME", "metadata.name"),
            field("NAMESPACE", "metadata.namespace"),
            field("UID_", "metadata.uid"),
            field("NODE", "spec.nodeName"),
        ]
        await create(home, pod)
    places = set()
    for name in names:
        pod = await wait_pod(home, name, namespace, "the pod", phase="Running")
        there = await find_there(remote, pod)
        assert there["metadata"]["name"] == name
        places.add(there["metadata"]["namespace"])
        logs = await home.kubectl("logs", name, f"-n={namespace}")
        assert logs.stdout.split() == [name, namespace, pod["metadata"]["uid"], NODE]
    (place,) = places
    assert len(place) == 63
    await home.kubectl("delete", "namespace", namespace, "--wait=false")


def field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


HOST_ACCESS: Mapping[str, tuple[dict[str, Any], str]] = {
    "network": ({"hostNetwork": True}, "hostNetwork"),
    "capability": (
        {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}},
        "container 'main' adds the capability SYS_ADMIN",
    ),
    "probe": (
        {"livenessProbe": {"tcpSocket": {"host": "10.0.0.1", "port": 80}}},
        "container 'main' has a livenessProbe that asks host 10.0.0.1",
    ),
}


@pytest.mark.parametrize("name", HOST_ACCESS)
async def test_access_to_hosts_is_refused(
    home: Cluster, remote: Cluster, namespace: str, name: str
) -> None:
    wish, said = HOST_ACCESS[name]
    pod = build_for(NODE, name, namespace)
    if name == "network":
        pod["spec"] |= wish
    else:
        pod["spec"]["containers"][0] |= wish
    await create(home, pod)
    message = await wait_pending(home, name, namespace, "HostAccessNotAllowed")
    assert message == f"{said}: host access isn't allowed"
    assert await find_remote_pods(remote, await get_pod(home, name, namespace)) == []


async def test_labels_of_home_do_not_raise_what_pod_security_allows(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    level = "pod-security.kubernetes.io/enforce"
    await home.kubectl("label", "namespace", namespace, f"{level}=privileged")
    await create(home, build_for(NODE, "first", namespace))
    pod = await wait_pod(home, "first", namespace, "first", phase="Running")
    place = (await find_there(remote, pod))["metadata"]["namespace"]
    labels = await read_labels(remote, place)
    assert labels[level] == "baseline"
    assert labels["vkubelet.io/peering"] == NODE
    seccomp = {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}
    with pytest.raises(ClusterError, match="violates PodSecurity"):
        await create(remote, build_for(NODE, "around", place, **seccomp))
    await create(home, build_for(NODE, "unconfined", namespace, **seccomp))
    message = await wait_pending(home, "unconfined", namespace, "RemotePodForbidden")
    assert 'violates PodSecurity "baseline:latest": seccompProfile' in message


async def test_pull_secrets_of_the_service_account_are_copied(
    home: Cluster, remote: Cluster, granted: str
) -> None:
    await home.kubectl(
        "create", "secret", "docker-registry", "registry", f"-n={granted}",
        "--docker-server=r.example", "--docker-username=u", "--docker-password=p",
    )  # fmt: skip
    await create(
        home,
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "puller", "namespace": granted},
            "imagePullSecrets": [{"name": "registry"}],
        },
    )
    await create(home, build_for(NODE, "pulls", granted, serviceAccountName="puller"))
    pod = await wait_pod(home, "pulls", granted, "pulls", phase="Running")
    there = await find_there(remote, pod)
    (reference,) = there["spec"]["imagePullSecrets"]
    place = f"-n={there['metadata']['namespace']}"
    copy = await get(remote, "secret", reference["name"], place)
    original = await get(home, "secret", "registry", f"-n={granted}")
    assert copy["type"] == "kubernetes.io/dockerconfigjson"
    assert copy["data"] == original["data"]
    message = await wait_event(home, "pulls", granted, "PartlyReflected")
    assert "serviceAccountName puller doesn't travel" in message


async def test_a_pod_is_labelled_by_where_it_is_over_there(
    home: Cluster, remote: Cluster, namespace: str
) -> None:
    await create(home, build_for(NODE, "labelled", namespace))
    pod = await wait_pod(home, "labelled", namespace, "labelled", phase="Running")
    assert pod["metadata"]["labels"][REGION] == NODE  # put by home's API server
    labels = (await find_there(remote, pod))["metadata"]["labels"]
    assert REGION not in labels, "no physical node has a region"
    await home.kubectl("label", "pod", "labelled", "tier=new", f"-n={namespace}")

    async def changed() -> bool:
        nonlocal labels
        labels = (await find_there(remote, pod))["metadata"]["labels"]
        return bool(labels.get("tier") == "new")

    await wait_until(changed, "the label travels")
    assert REGION not in labels
