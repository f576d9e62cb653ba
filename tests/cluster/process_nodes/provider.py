"""The provider of process nodes."""

import asyncio
import ipaddress
import itertools
import sys
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cluster.process_nodes import reaper
from tests.cluster.process_nodes.commands import Command, run_command
from tests.cluster.process_nodes.containers import Container, Instance
from tests.cluster.process_nodes.dependents import bring_dependents
from tests.cluster.process_nodes.nodes import watch_nodes
from tests.cluster.process_nodes.pods import ProcessPod
from tests.cluster.process_nodes.ports import connect_to_port
from tests.cluster.process_nodes.spec import Placement, list_warnings
from tests.cluster.process_nodes.usage import UsageMeter
from vkubelet.errors import RequestError
from vkubelet.interface import (
    ByteStream,
    CommandStreams,
    ExitStatus,
    Gone,
    LogOptions,
    NodeUsage,
    PodRef,
    StatusEvent,
    Synced,
    VirtualNode,
)
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import KubeObject

# Labels only: nothing listens there. EndpointSlices would refuse loopback addresses.
_POD_NETWORK = ipaddress.IPv4Network("10.199.0.0/16")

_REAPER_SECONDS = 10.0


class ProcessProvider:
    """
    Runs the containers of pods as child processes; `open_provider` makes one.

    It implements `vkubelet.interface.Provider`.

    Attributes:
        marker: What the environment of all its processes has; see `reaper`.
    """

    def __init__(
        self,
        tasks: asyncio.TaskGroup,
        *,
        marker: str,
        nodes_file: Path,
        folder: Path,
        address: str,
        restart_backoff_seconds: float,
        client: KubeClient | None,
    ) -> None:
        self._client = client
        self._task_group = tasks
        self.marker = marker
        self._nodes_file = nodes_file
        self._folder = folder
        self._address = address
        self._restart_backoff_seconds = restart_backoff_seconds
        self._pods: dict[str, ProcessPod] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._pod_addresses = itertools.cycle(_POD_NETWORK.hosts())
        self._watches: list[_StatusWatch] = []
        self._meter = UsageMeter(marker)

    def watch_nodes(self) -> AsyncIterator[Sequence[VirtualNode]]:
        """Yield the nodes of the file, at each change of it."""
        return watch_nodes(self._nodes_file)

    async def apply_pod(self, node: str, pod: KubeObject) -> Sequence[str]:
        """Start the pod's containers, once; of later changes of its spec only note is taken."""
        metadata = pod["metadata"]
        ref = PodRef(metadata["namespace"], metadata["name"], metadata["uid"])
        if ref.uid not in self._pods:
            pod_ip = str(next(self._pod_addresses))
            placement = Placement(
                node=node,
                pod_ip=self._address if pod["spec"].get("hostNetwork") else pod_ip,
                host_ip=self._address,
                folder=self._folder / ref.uid,
            )
            if self._client is not None:
                pod = await bring_dependents(pod, self._client, placement.folder)
            process_pod = ProcessPod(
                ref,
                pod,
                placement,
                marker_prefix=self.marker,
                backoff_seconds=self._restart_backoff_seconds,
                publish=self._publish,
            )
            self._pods[ref.uid] = process_pod
            self._tasks[ref.uid] = self._task_group.create_task(
                self._run_pod(process_pod), name=f"pod {ref}"
            )
        else:
            self._pods[ref.uid].take_note(pod)
        return list_warnings(pod)

    async def delete_pod(self, ref: PodRef, *, grace_period_seconds: int | None) -> None:
        """End the pod's containers; `Gone` follows, also for a pod that isn't there."""
        pod = self._pods.get(ref.uid)
        if pod is None:
            self._tell(ref, Gone(ref))
        else:
            pod.stop(grace_period_seconds)

    async def watch_statuses(self) -> AsyncGenerator[StatusEvent, None]:
        """Yield the pods there are, Synced, then changes; of several changes of a pod the last."""
        watch = _StatusWatch()
        self._watches.append(watch)
        try:
            for pod in list(self._pods.values()):
                yield pod.build_status()
            yield Synced()
            while True:
                yield await watch.next()
        finally:
            self._watches.remove(watch)

    async def logs(
        self, ref: PodRef, container: str, options: LogOptions
    ) -> AsyncGenerator[bytes, None]:
        """Yield the container's log; see `ContainerLog.read`."""
        pod = self._pods.get(ref.uid)
        if pod is None:  # it's on this node, as the server knows, but wasn't accepted (yet)
            raise RequestError(400, f'container "{container}" in pod "{ref.name}" is not available')
        instance = _choose_instance(pod.find_container(container), ref, previous=options.previous)
        async for chunk in instance.log.read(options):
            yield chunk

    async def exec(
        self,
        ref: PodRef,
        container: str,
        command: Sequence[str],
        streams: CommandStreams,
        *,
        tty: bool,
    ) -> ExitStatus:
        """Run a command with the container's environment and working directory."""
        found, instance = self._find_running(ref, container)
        started = Command(
            arguments=command,
            environment=found.spec.environment,
            folder=found.spec.folder,
            marker=f"{instance.marker}/{uuid.uuid4()}",
        )
        return await run_command(started, streams, tty=tty)

    async def attach(
        self, ref: PodRef, container: str, streams: CommandStreams, *, tty: bool
    ) -> ExitStatus:
        """Attach to the container's main process."""
        found, instance = self._find_running(ref, container)
        return await instance.console.attach(
            streams, tty=tty and found.spec.tty, stdin_once=found.spec.stdin_once
        )

    @asynccontextmanager
    async def port_forward(self, ref: PodRef, port: int) -> AsyncIterator[ByteStream]:
        """Connect to a port; see `ports`."""
        if ref.uid not in self._pods:
            raise RequestError(404, f'pod "{ref.name}" doesn\'t run')
        async with connect_to_port(port) as stream:
            yield stream

    async def stats(self, node: str) -> NodeUsage:
        """Tell what the processes use; see `UsageMeter`."""
        return await self._meter.measure(node, self._pods.values())

    def _find_running(self, ref: PodRef, container: str) -> tuple[Container, Instance]:
        pod = self._pods.get(ref.uid)
        found = pod.find_container(container) if pod else None
        instance = found.running if found else None
        if found is None or instance is None:
            raise RequestError(500, f'container not found ("{container}")')
        return found, instance

    def close(self) -> None:
        """Kill all pods."""
        for task in self._tasks.values():
            task.cancel()

    async def _run_pod(self, pod: ProcessPod) -> None:
        await pod.run()
        del self._pods[pod.ref.uid], self._tasks[pod.ref.uid]
        self._tell(pod.ref, Gone(pod.ref))

    def _publish(self, pod: ProcessPod) -> None:
        self._tell(pod.ref, pod.build_status())

    def _tell(self, ref: PodRef, event: StatusEvent) -> None:
        for watch in self._watches:
            watch.put(ref, event)


class _StatusWatch:
    """Events that a watcher hasn't taken yet, one a pod."""

    def __init__(self) -> None:
        self._events: dict[PodRef, StatusEvent] = {}
        self._filled = asyncio.Event()

    def put(self, ref: PodRef, event: StatusEvent) -> None:
        """Replace what waits for this pod."""
        self._events.pop(ref, None)
        self._events[ref] = event
        self._filled.set()

    async def next(self) -> StatusEvent:
        """Take the oldest event."""
        while not self._events:
            self._filled.clear()
            await self._filled.wait()
        return self._events.pop(next(iter(self._events)))


@asynccontextmanager
async def open_provider(
    *,
    nodes_file: Path,
    folder: Path,
    address: str,
    restart_backoff_seconds: float = 10.0,
    client: KubeClient | None = None,
) -> AsyncIterator[ProcessProvider]:
    """
    Yield a provider; at the end all its processes are killed.

    Should this process be killed, another that watches it does it.

    Args:
        nodes_file: The file of nodes.
        folder: Where the pods' folders are made.
        address: Address of all nodes.
        restart_backoff_seconds: The first back-off of a container that ends again and again.
        client: Of the cluster, to read ConfigMaps and Secrets; without it pods get none.
    """
    folder = await asyncio.to_thread(folder.resolve)
    marker = str(uuid.uuid4())
    async with _reaped(marker), asyncio.TaskGroup() as tasks:
        provider = ProcessProvider(
            tasks,
            marker=marker,
            nodes_file=nodes_file,
            folder=folder,
            address=address,
            restart_backoff_seconds=restart_backoff_seconds,
            client=client,
        )
        yield provider
        provider.close()


@asynccontextmanager
async def _reaped(marker: str) -> AsyncIterator[None]:
    """Keep a process that kills what is marked: at the end, or when this process dies."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", reaper.__file__, marker),
        stdin=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        yield
    finally:
        process.stdin.close()
        async with asyncio.timeout(_REAPER_SECONDS):
            await process.wait()


def _choose_instance(container: Container, ref: PodRef, *, previous: bool) -> Instance:
    """Choose whose log is meant, with the kubelet's order of cases and its sentences."""
    where = f'container "{container.spec.name}" in pod "{ref.name}"'
    chosen = container.previous if previous else container.current or container.previous
    if previous and chosen is None:
        raise RequestError(400, f"previous terminated {where} not found")
    if chosen is None:
        raise RequestError(400, f"{where} is waiting to start: {container.waiting.reason}")
    return chosen
