"""A provider in memory: what is behind changes when a test, or `auto`, says so."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from vkubelet.errors import RequestError
from vkubelet.interface import (
    ByteStream,
    CommandStreams,
    ExitStatus,
    Gone,
    LogOptions,
    NodeCondition,
    NodeUsage,
    PodRef,
    PodStatus,
    Reachable,
    StatusEvent,
    Synced,
    Taint,
    Unreachable,
    VirtualNode,
)
from vkubelet.kube.objects import KubeObject

STARTED_AT = "2026-01-01T00:00:00Z"


def build_virtual_node(name: str, **fields: Any) -> VirtualNode:
    """A virtual node that is Ready, with a taint and some capacity."""
    values: dict[str, Any] = {
        "labels": {"type": "virtual-kubelet", "kubernetes.io/hostname": name},
        "taints": (Taint(key="virtual", value="yes", effect="NoSchedule"),),
        "capacity": {"cpu": "8", "pods": "110"},
        "allocatable": {"cpu": "7", "pods": "110"},
        "conditions": (NodeCondition(type="Ready", status="True", reason="AllGood"),),
        "node_info": {"operatingSystem": "linux", "architecture": "amd64"},
        **fields,
    }
    return VirtualNode(name=name, **values)


def build_running_status(*, phase: str = "Running", restarts: int = 0, **fields: Any) -> KubeObject:
    """Status of a pod with one container `c`."""
    running = phase == "Running"
    ended = {"exitCode": 0 if phase == "Succeeded" else 1}
    state = {"running": {"startedAt": STARTED_AT}} if running else {"terminated": ended}
    value = "True" if running else "False"
    return {
        "phase": phase,
        "startTime": STARTED_AT,
        "conditions": [
            {"type": "Initialized", "status": "True"},
            {"type": "ContainersReady", "status": value},
            {"type": "Ready", "status": value},
        ],
        "containerStatuses": [
            {"name": "c", "state": state, "ready": running, "restartCount": restarts}
        ],
        **fields,
    }


@dataclass
class FakeProvider:
    """
    A `Provider`; what it was asked for is recorded.

    Attributes:
        nodes: First set of virtual nodes; None: none comes until `set_nodes`.
        auto: Pods run as soon as they are applied, and are gone as soon as they are deleted.
        synced: Whether the snapshot ends at once.
        applied: Node and pod of each apply.
        deleted: Pod and grace of each delete.
        failures: Raised by the next applies, one each.
        warnings: Returned by each apply.
        behind: What is behind.
        logs_text: Answer to every log request.
    """

    nodes: Sequence[VirtualNode] | None = ()
    auto: bool = True
    synced: bool = True
    applied: list[tuple[str, KubeObject]] = field(default_factory=list)
    deleted: list[tuple[PodRef, int | None]] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    delete_failures: list[Exception] = field(default_factory=list)
    warnings: Sequence[str] = ()
    behind: dict[PodRef, PodStatus] = field(default_factory=dict)
    logs_text: bytes = b"line\n"

    def __post_init__(self) -> None:
        self._events: asyncio.Queue[StatusEvent] = asyncio.Queue()
        self._sets: asyncio.Queue[Sequence[VirtualNode]] = asyncio.Queue()
        if self.nodes is not None:
            self._sets.put_nowait(self.nodes)

    # What a test does.

    def set_nodes(self, *nodes: VirtualNode) -> None:
        self._sets.put_nowait(nodes)

    def send(self, event: StatusEvent) -> None:
        self._events.put_nowait(event)

    def show(
        self,
        ref: PodRef,
        status: KubeObject | None = None,
        *,
        node: str = "n",
        deletion_timestamp: str | None = None,
        unschedulable: bool = False,
        restarts: Mapping[str, int] | None = None,
        generation: int | None = None,
    ) -> None:
        """Have something behind a pod, or change it."""
        known = PodStatus(
            ref=ref,
            node=node,
            status=build_running_status() if status is None else status,
            deletion_timestamp=deletion_timestamp,
            unschedulable=unschedulable,
            restarts=restarts or {},
            generation=generation,
        )
        self.behind[ref] = known
        self.send(known)

    def lose(self, ref: PodRef) -> None:
        """Have what is behind a pod vanish."""
        del self.behind[ref]
        self.send(Gone(ref))

    def finish_sync(self) -> None:
        self.synced = True
        self.send(Synced())

    def cut(self) -> None:
        self.send(Unreachable("made to fail"))

    def mend(self) -> None:
        self.send(Reachable())

    # What a kubelet does.

    async def watch_nodes(self) -> AsyncIterator[Sequence[VirtualNode]]:
        while True:
            yield await self._sets.get()

    async def apply_pod(self, node: str, pod: KubeObject) -> Sequence[str]:
        if self.failures:
            raise self.failures.pop(0)
        self.applied.append((node, pod))
        metadata = pod["metadata"]
        ref = PodRef(metadata["namespace"], metadata["name"], metadata["uid"])
        if self.auto and ref not in self.behind:
            self.show(ref, node=node)
        return self.warnings

    async def delete_pod(self, ref: PodRef, *, grace_period_seconds: int | None) -> None:
        if self.delete_failures:
            raise self.delete_failures.pop(0)
        self.deleted.append((ref, grace_period_seconds))
        if self.auto and ref in self.behind:
            self.lose(ref)

    async def watch_statuses(self) -> AsyncIterator[StatusEvent]:
        # Events sent so far are overtaken by the snapshot.
        while not self._events.empty():
            self._events.get_nowait()
        for status in list(self.behind.values()):
            yield status
        if self.synced:
            yield Synced()
        while True:
            yield await self._events.get()

    async def logs(self, ref: PodRef, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        if ref not in self.behind:
            raise RequestError(404, f"pod {ref} has nothing behind it\n")
        yield self.logs_text

    async def exec(
        self,
        ref: PodRef,
        container: str,
        command: Sequence[str],
        streams: CommandStreams,
        *,
        tty: bool,
    ) -> ExitStatus:
        await streams.write_stdout(" ".join(command).encode())
        return ExitStatus(0)

    async def attach(
        self, ref: PodRef, container: str, streams: CommandStreams, *, tty: bool
    ) -> ExitStatus:
        await streams.write_stdout(self.logs_text)
        return ExitStatus(0)

    @asynccontextmanager
    async def port_forward(self, ref: PodRef, port: int) -> AsyncIterator[ByteStream]:
        yield EchoStream()

    async def stats(self, node: str) -> NodeUsage:
        return NodeUsage()


class EchoStream:
    """A connection whose far side sends back what it gets."""

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        return await self._chunks.get()

    async def write(self, data: bytes) -> None:
        self._chunks.put_nowait(data)

    async def write_eof(self) -> None:
        self._chunks.put_nowait(b"")
