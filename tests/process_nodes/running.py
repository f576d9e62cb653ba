"""What the tests of process nodes share: pods, a provider, and the events that it yields."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.cluster.process_nodes.provider import ProcessProvider, open_provider
from tests.process_nodes.streams import RecordedStreams
from vkubelet.interface import ExitStatus, Gone, LogOptions, PodRef, PodStatus
from vkubelet.kube.objects import KubeObject

NODE = "node-a"
ADDRESS = "192.0.2.7"
DEADLINE_SECONDS = 10.0


def build_container(script: str = "", *, name: str = "main", **fields: Any) -> KubeObject:
    """A container that runs a shell script; the default command without one."""
    command = {"command": ["/bin/sh", "-c", script]} if script else {}
    return {"name": name, "image": "busybox", **command, **fields}


def build_pod(
    *containers: KubeObject, name: str = "web", uid: str = "uid-1", **spec: Any
) -> KubeObject:
    """A pod as the API server gives it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": uid},
        "spec": {"nodeName": NODE, "containers": list(containers), **spec},
    }


def refer(pod: KubeObject) -> PodRef:
    """The reference to a pod."""
    metadata = pod["metadata"]
    return PodRef(metadata["namespace"], metadata["name"], metadata["uid"])


class RunningProvider:
    """A provider with what a test asks of it."""

    def __init__(self, provider: ProcessProvider) -> None:
        self.provider = provider

    async def start(self, pod: KubeObject) -> PodRef:
        """Apply a pod."""
        await self.provider.apply_pod(NODE, pod)
        return refer(pod)

    async def wait_status(self, ref: PodRef, wanted: Callable[[KubeObject], bool]) -> KubeObject:
        """Wait until the pod's status is as wanted."""
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            aclosing(self.provider.watch_statuses()) as events,
        ):
            async for event in events:
                if isinstance(event, PodStatus) and event.ref == ref and wanted(event.status):
                    return event.status
        raise AssertionError

    async def wait_phase(self, ref: PodRef, phase: str) -> KubeObject:
        """Wait for a phase."""
        return await self.wait_status(ref, lambda status: status["phase"] == phase)

    async def read_log(self, ref: PodRef, container: str = "main", **options: Any) -> bytes:
        """Read a container's log."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            chunks = self.provider.logs(ref, container, LogOptions(**options))
            return b"".join([chunk async for chunk in chunks])

    def follow(self, ref: PodRef, container: str = "main") -> AsyncGenerator[bytes, None]:
        """Follow a container's log."""
        return self.provider.logs(ref, container, LogOptions(follow=True))

    async def run(self, ref: PodRef, script: str, *, container: str = "main") -> RecordedStreams:
        """Run a shell script beside a container, and return what it wrote."""
        streams = RecordedStreams()
        async with asyncio.timeout(DEADLINE_SECONDS):
            status = await self.provider.exec(
                ref, container, ["/bin/sh", "-c", script], streams, tty=False
            )
        assert status == ExitStatus(0)
        return streams

    async def wait_gone(self, ref: PodRef, *, grace_period_seconds: int | None = None) -> None:
        """Delete a pod and wait for its end."""
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            aclosing(self.provider.watch_statuses()) as events,
        ):
            await anext(events)
            await self.provider.delete_pod(ref, grace_period_seconds=grace_period_seconds)
            async for event in events:
                if event == Gone(ref):
                    return


@asynccontextmanager
async def run_provider(folder: Path, **options: Any) -> AsyncIterator[RunningProvider]:
    """A provider whose containers are restarted quickly."""
    async with open_provider(
        nodes_file=folder / "nodes.yaml",
        folder=folder / "pods",
        address=ADDRESS,
        restart_backoff_seconds=0.05,
        **options,
    ) as provider:
        yield RunningProvider(provider)
