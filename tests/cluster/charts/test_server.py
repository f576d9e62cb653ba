"""Real API servers take what Helm renders, for many sets of values, and none they warn of."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.charts.rendering import HOME, LEAST, NAMESPACE, REMOTE, merge, render
from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster

OF_OTHERS = ("ServiceMonitor", "PodMonitor")
"""Kinds that a cluster has only by an add-on."""

VALUES: dict[str, tuple[dict[str, Any], str]] = {
    "least": ({}, "peering"),
    "numeric release": ({}, "123"),
    "release like a number": ({}, "1e3"),
    "everything": (
        {
            "teardownOnUninstall": True,
            "hostNetwork": True,
            "persistence": {"enabled": True, "storageClass": "fast"},
            "serviceMonitor": {"enabled": True},
            "podMonitor": {"enabled": True},
            "dashboard": {"enabled": True},
            "networkPolicy": {
                "apiServerCIDRs": ["10.0.0.0/8"],
                "metricsFrom": [{"namespaceSelector": {}}],
            },
            "imagePullSecrets": [{"name": "pull"}],
            "image": {"digest": "sha256:" + "0" * 64},
            "env": [{"name": "VKUBELET_LOG_LEVEL", "value": "debug"}],
            "extraVolumes": [{"name": "tls", "secret": {"secretName": "tls"}}],
            "extraVolumeMounts": [{"name": "tls", "mountPath": "/etc/tls"}],
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"operator": "Exists"}],
            "podAnnotations": {"number": "1"},
            "podLabels": {"truth": "true"},
            "serviceAccount": {"annotations": {"a": "b"}},
            "test": {"image": "busybox:1", "command": ["sh", "-c", "echo 'it''s'; true"]},
            "config": {
                "home": {"cluster": "here", "systemNamespace": "kube-system"},
                "kubelet": {"approveCsr": True, "ports": "20000-20099"},
                "pods": {"apiAccess": "home", "homeApiServer": "api.example:6443"},
                "process": {"logLevel": "debug"},
            },
        },
        "peering",
    ),
    "selector": ({"config": {"namespaces": {"names": [], "selector": "team in (a,b)"}}}, "peering"),
    "all namespaces": ({"config": {"namespaces": {"names": ["*"]}}}, "peering"),
    "named twice": ({"config": {"namespaces": {"names": ["demo", "demo"]}}}, "peering"),
    "numeric cluster": ({"config": {"remote": {"cluster": "1"}}}, "peering"),
    "long cluster": ({"config": {"remote": {"cluster": "x" * 63}}}, "peering"),
    "label mapping": (
        {
            "config": {
                "nodes": {"mapping": "label", "mappingLabel": "zone", "namePrefix": "z-"},
                "capacity": {"limits": ["nvidia.com/gpu=1"], "percent": 50},
            }
        },
        "peering",
    ),
    "exact names": (
        {
            "config": {"nodes": {"mapping": "per-node", "exactNames": True}},
            "admissionPolicy": {"nodeNames": [r"node-\d+", 'a"b']},
        },
        "peering",
    ),
    "little": (
        {
            "admissionPolicy": {"enabled": False},
            "networkPolicy": {"enabled": False},
            "podDisruptionBudget": {"enabled": False},
            "priorityClass": {"create": False},
            "rbac": {"create": False},
            "resources": {},
        },
        "peering",
    ),
    "named priority class": ({"priorityClass": {"name": "system-cluster-critical"}}, "peering"),
}
REMOTE_VALUES: dict[str, dict[str, Any]] = {
    "least": {"peering": "cloud"},
    "numeric": {"peering": "1"},
    "long": {"peering": "x" * 63},
    "teardown": {"peering": "cloud", "teardown": True, "metrics": False},
    "namespaces": {
        "peering": "cloud",
        "namespaces": ["demo", "other"],
        "createNamespaces": False,
        "homeClusterUID": "0" * 36,
        "podSecurity": "restricted",
        "resourceQuota": {"hard": {"requests.cpu": 10, "pods": "5"}},
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def namespaces(home: Cluster, remote: Cluster) -> AsyncIterator[None]:
    """The namespaces that the values name."""
    names = (NAMESPACE, "demo", "other")
    for cluster in (home, remote):
        for name in names:
            await cluster.kubectl("create", "namespace", name)
    yield
    for cluster in (home, remote):
        await cluster.kubectl("delete", "namespace", *names, "--wait=false")


async def _try(cluster: Cluster, objects: list[dict[str, Any]]) -> None:
    ours = [found for found in objects if found["kind"] not in OF_OTHERS]
    for found in ours:
        if found["kind"] == "Pod":  # its service account has to be there before
            found["spec"]["serviceAccountName"] = "default"
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": ours}).decode()
    done = await cluster.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "--filename=-", stdin=text
    )
    assert len(done.stdout.splitlines()) == len(ours)
    assert done.stderr == ""


@pytest.mark.parametrize("name", VALUES)
async def test_at_home(home: Cluster, namespaces: None, name: str) -> None:
    values, release = VALUES[name]
    await _try(home, render(HOME, merge(LEAST, values), release=release))


@pytest.mark.parametrize("name", REMOTE_VALUES)
async def test_in_the_remote_cluster(remote: Cluster, namespaces: None, name: str) -> None:
    await _try(remote, render(REMOTE, REMOTE_VALUES[name]))
