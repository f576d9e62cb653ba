"""What the processes of containers use, as /proc tells."""

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.cluster.process_nodes.pods import ProcessPod
from tests.cluster.process_nodes.reaper import MARKER_VARIABLE
from vkubelet.interface import NodeUsage, PodRef, PodUsage, UsageSample

_CACHE_SECONDS = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Fields of /proc/PID/stat after the command's name: utime, stime, and those of awaited children.
_TIMES = slice(11, 15)
_RSS = 21


@dataclass(slots=True)
class ProcessUse:
    """What the live processes of one instance use, and what those that they awaited used."""

    cpu_seconds: float = 0.0
    memory_bytes: int = 0


@dataclass(slots=True)
class _PodUse:
    """Core-seconds of all instances of a pod's containers by their identity."""

    ref: PodRef
    node: str
    cpu_seconds: dict[str, float] = field(default_factory=dict)


def read_uses(marker: str) -> dict[str, ProcessUse]:
    """Read the use of each instance, by identity, whose marker starts with this one."""
    needle = f"\0{MARKER_VARIABLE}={marker}/".encode()
    uses: defaultdict[str, ProcessUse] = defaultdict(ProcessUse)
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            environment = b"\0" + (folder / "environ").read_bytes()
            _, found, rest = environment.partition(needle)
            stat = (folder / "stat").read_text() if found else ""
        except OSError:
            continue  # it has ended
        if found:
            identity = rest.partition(b"\0")[0].partition(b"/")[0].decode(errors="replace")
            fields = stat.rpartition(")")[2].split()
            use = uses[identity]
            use.cpu_seconds += sum(map(int, fields[_TIMES])) / _TICKS
            use.memory_bytes += int(fields[_RSS]) * _PAGE_BYTES
    return dict(uses)


class UsageMeter:
    """Use of nodes, pods and containers; cumulative and true, but for orphans that have ended."""

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._started = datetime.now(UTC)
        self._time = self._started
        self._read_at: float | None = None
        self._uses: dict[str, ProcessUse] = {}
        self._pods: dict[str, _PodUse] = {}
        self._ended: defaultdict[str, float] = defaultdict(float)
        self._lock = asyncio.Lock()

    async def measure(self, node: str, pods: Iterable[ProcessPod]) -> NodeUsage:
        """Measure a node; `pods` are all that there are now."""
        pods = list(pods)
        async with self._lock:
            await self._refresh(pods)
        usages = [
            usage for pod in pods if pod.node == node and (usage := self._build(pod)) is not None
        ]
        cpu_seconds = self._ended[node] + sum(
            sum(use.cpu_seconds.values()) for use in self._pods.values() if use.node == node
        )
        return NodeUsage(
            node=self._sample(
                cpu_seconds, sum(usage.pod.memory_bytes for usage in usages), self._started
            ),
            pods=tuple(usages),
        )

    async def _refresh(self, pods: Iterable[ProcessPod]) -> None:
        now = asyncio.get_running_loop().time()
        if self._read_at is not None and now - self._read_at < _CACHE_SECONDS:
            return
        self._uses = await asyncio.to_thread(read_uses, self._marker)
        self._time, self._read_at = datetime.now(UTC), now
        before, self._pods = self._pods, {}
        for pod in pods:
            uid = pod.ref.uid
            use = before.pop(uid) if uid in before else _PodUse(pod.ref, pod.node)
            self._pods[uid] = use
            for container in pod.containers:
                instance = container.running
                if instance is not None and instance.identity in self._uses:
                    seconds = self._uses[instance.identity].cpu_seconds
                    known = use.cpu_seconds.get(instance.identity, 0.0)
                    use.cpu_seconds[instance.identity] = max(known, seconds)
        for gone in before.values():
            self._ended[gone.node] += sum(gone.cpu_seconds.values())

    def _build(self, pod: ProcessPod) -> PodUsage | None:
        use = self._pods.get(pod.ref.uid)
        if use is None:
            return None
        containers = {
            container.spec.name: self._sample(
                use.cpu_seconds[instance.identity],
                self._uses[instance.identity].memory_bytes,
                instance.started_at,
            )
            for container in pod.containers
            if (instance := container.running) is not None
            and instance.identity in use.cpu_seconds
            and instance.identity in self._uses
        }
        memory = sum(sample.memory_bytes for sample in containers.values())
        whole = self._sample(sum(use.cpu_seconds.values()), memory, pod.start_time)
        return PodUsage(ref=pod.ref, pod=whole, containers=containers)

    def _sample(self, cpu_seconds: float, memory_bytes: int, started: datetime) -> UsageSample:
        return UsageSample(
            time=self._time, cpu_seconds=cpu_seconds, memory_bytes=memory_bytes, started=started
        )
