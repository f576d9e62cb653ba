"""A node controller, and what drains its nodes, at a fake API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fakes.api_server import FakeApiServer
from vkubelet.config import KubeletPolicy
from vkubelet.interface import Synced, VirtualNode
from vkubelet.kube.events import EventRecorder
from vkubelet.kube.objects import NODES, KubeObject
from vkubelet.node.controller import NodeController
from vkubelet.pods.drain import PodDrain
from vkubelet.pods.home import HomePods

START = datetime(2026, 1, 1, tzinfo=UTC)


def build_policy(**fields: Any) -> KubeletPolicy:
    return KubeletPolicy(owner_labels={"owner": "us"}, address="10.0.0.9", **fields)


class Clock:
    """The wall clock, in step with the loop; across loops of one test it goes on."""

    def __init__(self) -> None:
        self.offset = START

    def now(self) -> datetime:
        return self.offset + timedelta(seconds=asyncio.get_running_loop().time())


class World:
    """A node controller, and what drains its nodes, at a fake API server."""

    def __init__(self, fake: FakeApiServer, controller: NodeController) -> None:
        self.fake = fake
        self.controller = controller

    async def settle(self, seconds: float = 3.0) -> None:
        await asyncio.sleep(seconds)

    def node(self, name: str = "n") -> KubeObject:
        return self.fake.get(NODES, "", name)

    def find(self, name: str = "n") -> KubeObject | None:
        return self.fake.find(NODES, "", name)

    def condition(self, kind: str = "Ready", name: str = "n") -> tuple[str, str]:
        for condition in self.node(name)["status"]["conditions"]:
            if condition["type"] == kind:
                return condition["status"], condition["reason"]
        return "", ""

    def taints(self) -> list[str]:
        return [taint["key"] for taint in self.node()["spec"].get("taints") or ()]

    def edit(self, part: str, **fields: Any) -> None:
        """As another client: change keys of metadata, spec or status."""
        node = self.node()
        changed = {
            key: value for key, value in {**node[part], **fields}.items() if value is not None
        }
        self.fake.put({**node, part: changed})

    def writes(self) -> list[str]:
        verbs = {"create", "update", "patch", "apply", "delete"}
        return [
            call.what
            for call in self.fake.requests
            if call.verb in verbs and not call.what.endswith(" events")
        ]

    def forget_writes(self) -> None:
        self.fake.requests.clear()


@asynccontextmanager
async def open_world(
    *nodes: VirtualNode,
    fake: FakeApiServer | None = None,
    synced: bool = True,
    port: int | None = 10250,
    **policy: Any,
) -> AsyncIterator[World]:
    """Without `nodes` the provider hasn't spoken yet."""
    if fake is None:
        async with (
            FakeApiServer() as fresh,
            open_world(*nodes, fake=fresh, synced=synced, port=port, **policy) as world,
        ):
            yield world
        return
    async with fake.client("home") as client:
        events = EventRecorder(client, component="test")
        pods = HomePods(client)
        drain = PodDrain(client, pods)
        controller = NodeController(client, events, build_policy(**policy), drain, now=Clock().now)
        controller.add_handler(lambda: pods.set_nodes(controller.names))
        world = World(fake, controller)
        runs = (events.run, pods.run, drain.run, controller.run)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run()) for run in runs]
            await controller.wait_synced()
            if synced:
                controller.handle_status(Synced())
            if nodes:
                controller.set_desired(nodes)
            for name in controller.names if port else ():
                controller.set_port(name, port)
            await world.settle()
            yield world
            for task in tasks:
                task.cancel()
