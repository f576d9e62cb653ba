"""Two fakes with what a peering runs for pods between them, in virtual time."""

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from provider.pods.namespaces import RemoteNamespaces
from provider.pods.remote_pods import RemotePods
from provider.reflection.dependents import Dependents
from provider.reflection.events import RemoteEvents
from provider.translation.affinity import VirtualNodeView
from provider.translation.dependents import DependentNames
from provider.translation.pod import (
    ApiServerAddress,
    TranslatedPod,
    TranslationContext,
    translate_pod,
)
from provider.translation.selection import Selection
from provider.translation.status import translate_status
from provider.translation.tokens import ApiAccess
from tests.fakes.api_server import FakeApiServer
from tests.provider.values import PEERING, build_home_pod
from vkubelet.interface import PodRef, StatusEvent
from vkubelet.kube.objects import PODS, SECRETS, KubeObject
from vkubelet.kube.selector import parse_selector
from vkubelet.pods.home import HomePods

NAMES = DependentNames(PEERING.home_uid, PEERING.remote_cluster, "demo")
START = datetime(2026, 1, 1, tzinfo=UTC)


def build_config_map(name: str = "settings", **data: str) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "demo", "labels": {"team": "a"}},
        "data": data or {"key": "value"},
    }


def build_secret(name: str = "key", *, kind: str = "Opaque", **data: str) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": "demo",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "c2VjcmV0"},
        },
        "type": kind,
        "data": data or {"password": "czNjcjN0"},
    }


def use_config_map(name: str = "settings", **more: Any) -> dict[str, Any]:
    """The part of a pod's spec that has it as a volume."""
    return {"volumes": [{"name": "v", "configMap": {"name": name, **more}}]}


def use_secret(name: str = "key", **more: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "secret": {"secretName": name, **more}}]}


@dataclass
class World:
    """
    What runs.

    Attributes:
        home: The home API server.
        remote: The remote one.
        told: What the feed has told so far.
    """

    home: FakeApiServer
    remote: FakeApiServer
    dependents: Dependents
    pods: RemotePods
    told: list[StatusEvent] = field(default_factory=list)

    async def apply(self, pod: KubeObject) -> list[str]:
        """Have the pod at home, and apply it."""
        stored = self.home.put(copy.deepcopy(pod))
        await settle()
        return list(await self.pods.apply("cloud", stored))

    async def end(self, pod: KubeObject) -> None:
        """Remove a pod on both sides."""
        metadata = pod["metadata"]
        ref = PodRef(metadata["namespace"], metadata["name"], metadata["uid"])
        await self.pods.delete(ref, grace_period_seconds=0)
        self.home.remove(PODS, "demo", metadata["name"])
        await settle()

    def copies(self, kind: str) -> dict[str, KubeObject]:
        """Our copies of a kind, by the name of the original or the pod."""
        resource = {"ConfigMap": "configmaps", "Secret": "secrets"}[kind]
        found = self.remote.objects(type(SECRETS)("", "v1", resource, kind), "demo-r")
        return {
            body["metadata"]["annotations"]["vkubelet.io/home-name"]: body
            for body in found
            if "vkubelet.io/dependent" in body["metadata"].get("labels", {})
        }

    def events_of(self, kind: type[Any]) -> list[Any]:
        """What was told of a kind."""
        return [event for event in self.told if isinstance(event, kind)]


async def settle(seconds: float = 1.0) -> None:
    """Let everything happen that is about to; takes no time."""
    await asyncio.sleep(seconds)


def clock() -> datetime:
    """The wall clock in step with the loop's."""
    return START + timedelta(seconds=asyncio.get_running_loop().time())


@asynccontextmanager
async def run_world(
    home: FakeApiServer,
    remote: FakeApiServer,
    *,
    access: ApiAccess = ApiAccess.NONE,
    token: str = "",
) -> AsyncIterator[World]:
    """Run one process between two fakes until the end of the context."""
    server = ApiServerAddress("api.home.example", 6443) if access is ApiAccess.HOME else None

    def translate(node: str, pod: KubeObject, *, remote_namespace: str) -> TranslatedPod:
        context = TranslationContext(
            home_cluster_uid=PEERING.home_uid,
            peering=PEERING.remote_cluster,
            remote_namespace=remote_namespace,
            node=VirtualNodeView(node),
            selection=Selection.of_selector(parse_selector("type notin (virtual-kubelet)")),
            api_access=access,
            home_api_server=server,
        )
        return translate_pod(pod, context)

    async with home.client("home", token=token) as at_home, remote.client("remote") as over_there:
        namespaces = RemoteNamespaces(over_there, PEERING, template="{namespace}-r", adopt=False)
        dependents = Dependents(
            at_home, over_there, PEERING, namespaces, api_access=access, now=clock
        )
        pods = RemotePods(
            over_there,
            PEERING,
            namespaces,
            dependents,
            translate=translate,
            translate_status=lambda pod: translate_status(pod, host_address="192.0.2.1"),
        )
        events = RemoteEvents(over_there, pods.tell, now=clock)
        pods.followed.add_handler(events.handle_remote_pod)
        home_pods = HomePods(at_home)
        home_pods.set_nodes(["cloud"])
        dependents.follow_home_pods(home_pods)
        events.follow_home_pods(home_pods)
        world = World(home, remote, dependents, pods)

        async def listen() -> None:
            async for event in pods.watch_statuses():
                world.told.append(event)

        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(run)
                for run in (home_pods.run(), pods.run(), dependents.run(), events.run(), listen())
            ]
            await settle()
            yield world
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def open_world(access: ApiAccess = ApiAccess.NONE) -> AsyncIterator[World]:
    """Run one process between two empty fakes."""
    async with (
        FakeApiServer() as home,
        FakeApiServer() as remote,
        run_world(home, remote, access=access) as world,
    ):
        yield world


__all__ = [
    "NAMES",
    "START",
    "World",
    "build_config_map",
    "build_home_pod",
    "build_secret",
    "clock",
    "open_world",
    "run_world",
    "settle",
    "use_config_map",
    "use_secret",
]
