"""A pod controller between a fake API server and a provider in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.fakes.api_server import FakeApiServer
from tests.fakes.provider import FakeProvider
from vkubelet.config import KubeletPolicy, NamespaceFilter
from vkubelet.interface import PodRef
from vkubelet.kube.events import EventRecorder
from vkubelet.kube.objects import EVENTS, PODS, KubeObject
from vkubelet.pods.controller import PodController
from vkubelet.pods.home import HomePods

ADDRESS = "10.0.0.9"
REF = PodRef("a", "p", "uid-p")
DAEMON_SET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "name": "d",
    "uid": "d",
    "controller": True,
}


def build_policy(**fields: Any) -> KubeletPolicy:
    values = {"namespaces": NamespaceFilter(names=frozenset({"a"})), **fields}
    return KubeletPolicy(owner_labels={"owner": "us"}, address=ADDRESS, **values)


def build_pod(
    name: str = "p", *, namespace: str = "a", node: str = "n", uid: str = "", **fields: Any
) -> KubeObject:
    metadata = {"namespace": namespace, "name": name, "uid": uid or f"uid-{name}"}
    metadata |= fields.pop("metadata", {})
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}], **fields.pop("spec", {})}
    status = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {**status, **fields.pop("status", {})},
    }


class World:
    """A controller between a fake API server and a fake provider."""

    def __init__(self, fake: FakeApiServer, provider: FakeProvider, home: HomePods) -> None:
        self.fake = fake
        self.provider = provider
        self.home = home
        self.controller: PodController

    async def settle(self, seconds: float = 2.0) -> None:
        """Let everything that is to happen soon happen."""
        await asyncio.sleep(seconds)

    def pod(self, name: str = "p", namespace: str = "a") -> KubeObject:
        return self.fake.get(PODS, namespace, name)

    def find(self, name: str = "p", namespace: str = "a") -> KubeObject | None:
        return self.fake.find(PODS, namespace, name)

    def status(self, name: str = "p", namespace: str = "a") -> KubeObject:
        found: KubeObject = self.pod(name, namespace)["status"]
        return found

    def condition(self, kind: str, name: str = "p") -> str:
        found = {c["type"]: c["status"] for c in self.status(name)["conditions"]}
        return str(found.get(kind, ""))

    def writes(self) -> list[str]:
        """What was written at home, events apart."""
        verbs = {"create", "update", "patch", "apply", "delete"}
        return [
            call.what
            for call in self.fake.requests
            if call.verb in verbs and not call.what.endswith(" events")
        ]

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.fake.objects(EVENTS)]

    async def delete(self, *, grace: int = 30, name: str = "p") -> None:
        """Delete at home as a user does."""
        async with self.fake.client("user") as client:
            await client.delete(PODS, self.home_key(name), grace_period_seconds=grace)

    def home_key(self, name: str) -> Any:
        return PodRef("a", name, "").key


@asynccontextmanager
async def open_world(
    *pods: KubeObject,
    provider: FakeProvider | None = None,
    fake: FakeApiServer | None = None,
    **policy: Any,
) -> AsyncIterator[World]:
    if fake is None:
        async with (
            FakeApiServer() as fresh,
            open_world(*pods, provider=provider, fake=fresh, **policy) as world,
        ):
            yield world
        return
    provider = provider or FakeProvider()
    for pod in pods:
        fake.put(pod)
    async with fake.client("home") as client:
        home = HomePods(client)
        world = World(fake, provider, home)
        events = EventRecorder(client, component="test")
        controller = PodController(provider, client, home, events, build_policy(**policy))
        world.controller = controller
        home.set_nodes({"n"})

        async def feed() -> None:
            async for event in provider.watch_statuses():
                controller.handle_status(event)

        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(run()) for run in (events.run, home.run, controller.run, feed)
            ]
            await world.settle()
            yield world
            for task in tasks:
                task.cancel()
