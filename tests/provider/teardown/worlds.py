"""A peering as it was left: two fake API servers with what a process made there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from provider.labels import HOME_POD_UID
from provider.pods.namespaces import build_namespace
from provider.teardown.inventory import Inventory, take_inventory
from provider.teardown.steps import Teardown
from tests.fakes.api_server import ApiCall, FakeApiServer
from tests.provider.values import PEERING
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import CONFIG_MAPS, LEASES, NAMESPACES, NODES, PODS, KubeObject


def build(
    kind: str, name: str, namespace: str = "", *, ours: bool = True, **parts: Any
) -> KubeObject:
    labels = PEERING.labels if ours else {}
    version = "coordination.k8s.io/v1" if kind == "Lease" else "v1"
    metadata: KubeObject = {"name": name, "uid": f"uid-{kind}-{name}", "labels": labels}
    if namespace:
        metadata["namespace"] = namespace
    metadata |= parts.pop("metadata", {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def build_home_pod(name: str, node: str = "cloud", **metadata: object) -> KubeObject:
    spec = {"nodeName": node, "containers": [], "terminationGracePeriodSeconds": 7}
    return build("Pod", name, "demo", ours=False, metadata=metadata, spec=spec)


def build_remote_pod(name: str) -> KubeObject:
    labels = {**PEERING.labels, HOME_POD_UID: f"uid-Pod-{name}"}
    spec = {"nodeName": "n1", "containers": [], "terminationGracePeriodSeconds": 7}
    metadata = {"labels": labels, "uid": f"uid-remote-{name}"}
    return build("Pod", name, "demo-home", metadata=metadata, spec=spec)


_CORE = [
    {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list"]},
    {"name": "pods/log", "kind": "Pod", "namespaced": True, "verbs": ["get"]},
    {"name": "configmaps", "kind": "ConfigMap", "namespaced": True, "verbs": ["list"]},
    {"name": "secrets", "kind": "Secret", "namespaced": True, "verbs": ["list"]},
    {"name": "events", "kind": "Event", "namespaced": True, "verbs": ["list"]},
    {"name": "nodes", "kind": "Node", "namespaced": False, "verbs": ["list"]},
]
_GROUPS = [
    {"name": name, "preferredVersion": {"version": "v1"}} for name in ("apps", "metrics.k8s.io")
]
_APPS = [{"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": ["list"]}]


def serve_discovery(fake: FakeApiServer) -> None:
    fake.handle("GET /apis", lambda _: {"groups": _GROUPS})
    fake.handle("GET /api/v1", lambda _: {"resources": _CORE})
    fake.handle("GET /apis/apps/v1", lambda _: {"resources": _APPS})


@dataclass
class World:
    """Both sides."""

    home: FakeApiServer
    remote: FakeApiServer
    home_client: KubeClient
    remote_client: KubeClient
    said: list[str] = field(default_factory=list)

    def leave_peering(self, *pods: str) -> None:
        """Have both sides as a process left them."""
        self.home.put(build("Node", "cloud"))
        self.home.put(build("Node", "real", ours=False))
        self.home.put(build("Lease", "cloud", "kube-node-lease", ours=False))
        self.remote.put(build_namespace("demo-home", "demo", PEERING))
        self.remote.put(build("ConfigMap", "vkubelet-cloud", "demo-home"))
        self.remote.put(build("ConfigMap", "kube-root-ca.crt", "demo-home", ours=False))
        for name in pods:
            self.home.put(build_home_pod(name))
            self.remote.put(build_remote_pod(name))

    def run_remote_kubelet(self) -> None:
        """Let pods that are being deleted in the remote cluster go, as a kubelet there does."""

        def end(call: ApiCall) -> KubeObject:
            path = call.resource
            self.remote.remove(path.resource, path.namespace, path.name)
            return {}

        self.remote.handle("delete pods", end)

    async def look(self, *, home_only: bool = False) -> Inventory:
        remote = None if home_only else self.remote_client
        return await take_inventory(self.home_client, remote, PEERING)

    async def tear_down(self, *, home_only: bool = False, drain_seconds: float = 60) -> bool:
        remote = None if home_only else self.remote_client
        teardown = Teardown(self.home_client, remote, PEERING, self.said.append)
        inventory = await self.look(home_only=home_only)
        return await teardown.run(inventory, drain_seconds=drain_seconds)

    def names(self, fake: FakeApiServer) -> list[str]:
        """What there is, by kind and name."""
        resources = (NODES, LEASES, PODS, CONFIG_MAPS, NAMESPACES)
        return [
            f"{resource.kind} {obj['metadata']['name']}"
            for resource in resources
            for obj in fake.objects(resource)
        ]


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    async with (
        FakeApiServer() as home,
        FakeApiServer() as remote,
        home.client("home") as home_client,
        remote.client("remote") as remote_client,
    ):
        serve_discovery(remote)
        yield World(home, remote, home_client, remote_client)
