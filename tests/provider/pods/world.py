"""Remote pods that run against a fake."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from provider.pods.namespaces import RemoteNamespaces
from provider.pods.remote_pods import RemotePods
from provider.reflection.dependents import Dependents
from provider.translation.affinity import VirtualNodeView
from provider.translation.pod import TranslatedPod, TranslationContext, translate_pod
from provider.translation.selection import Selection
from provider.translation.status import translate_status
from tests.fakes.api_server import FakeApiServer
from tests.provider.values import PEERING
from vkubelet.interface import (
    PodRef,
    StatusEvent,
)
from vkubelet.kube.objects import KubeObject, NamespacedName
from vkubelet.kube.selector import parse_selector

REF = PodRef("demo", "web", "uid-web")


@dataclass
class Running:
    """Remote pods that run against a fake, and their feed."""

    fake: FakeApiServer
    pods: RemotePods
    feed: AsyncIterator[StatusEvent]

    async def next(self) -> StatusEvent:
        async with asyncio.timeout(5):
            return await anext(self.feed)

    async def until(self, kind: type[StatusEvent]) -> StatusEvent:
        while True:
            event = await self.next()
            if isinstance(event, kind):
                return event


def translate(node: str, pod: KubeObject, *, remote_namespace: str) -> TranslatedPod:
    context = TranslationContext(
        home_cluster_uid=PEERING.home_uid,
        peering=PEERING.remote_cluster,
        remote_namespace=remote_namespace,
        node=VirtualNodeView(node),
        selection=Selection.of_selector(parse_selector("type notin (virtual-kubelet)")),
    )
    return translate_pod(pod, context)


@asynccontextmanager
async def run(fake: FakeApiServer) -> AsyncIterator[Running]:
    async with fake.client("remote") as client:
        namespaces = RemoteNamespaces(client, PEERING, template="{namespace}-r", adopt=False)
        pods = RemotePods(
            client,
            PEERING,
            namespaces,
            Dependents(client, client, PEERING, namespaces),
            translate=translate,
            translate_status=lambda pod: translate_status(pod, host_address="192.0.2.1"),
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(pods.run())
            yield Running(fake, pods, aiter(pods.watch_statuses()))
            task.cancel()


async def apply_and_wait(running: Running, pod: KubeObject) -> None:
    await running.pods.apply("cloud", pod)
    await wait_known(running, lambda known: True)


async def wait_known(running: Running, wanted: Callable[[KubeObject], bool]) -> None:
    """Wait until the watch has told of the pod as wanted."""
    async with asyncio.timeout(5):
        while True:
            known = running.pods.followed.get(NamespacedName("demo-r", "web"))
            if known is not None and wanted(known.decode()):
                return
            await running.next()
