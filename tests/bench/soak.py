"""
Hours of ordinary life, in minutes: what is left when it's over, and who had to wait meanwhile.

Pods come and go on nodes that kwok plays, while logs are followed and commands run in a pod of a
process node; then, in the midst of it, one namespace makes a burst of pods. What the process holds
is compared between two rests, one before and one after. SOAK_SECONDS says how long it takes.
"""

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.bench.figures import BenchError, Figure, read_usage
from tests.bench.real_load import Load, build_pod
from tests.bench.real_setting import LoadProcess, delete_pods, run_load
from tests.bench.shells import open_shell
from tests.cluster.cluster import Cluster, start_clusters
from tests.cluster.kwok import LABEL, start_kwok
from tests.cluster.peering import PhysicalNodes, Vkubelet, grant_rights, run_vkubelet
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import NotFoundError
from vkubelet.kube.objects import LEASES, PODS, NamespacedName

SECONDS, QUICK_SECONDS = 1800.0, 180.0
BURST, QUICK_BURST = 1_000, 300
WARM_UP_SECONDS = 20.0
PODS_PER_SECOND = 20.0
LIFETIME_SECONDS = 10.0
FOLLOWS = 10
REST_SECONDS = 40.0
"""Connections that nobody uses are closed after 30 s."""
GONE_SECONDS = 60.0
NAMESPACES = ("churn", "noisy", "quiet", "streams")
SOURCE = NamespacedName("streams", "source")
WRITE = "while :; do echo a line of the log; sleep 0.2; done"


@dataclass(frozen=True)
class Held:
    """What the process holds at a moment."""

    rss_mib: float
    files: int
    sockets: int
    tasks: int


@dataclass
class Soak:
    """
    What goes on, and what was seen of it.

    Attributes:
        made: Pods that came and went.
        commands: Commands that ran to their end.
        bytes: Of followed logs.
        oldest_lease: The greatest age of a Lease, in seconds.
        waits: How long pods of the quiet namespace took during the burst.
    """

    home: Cluster
    client: KubeClient
    vkubelet: Vkubelet
    made: int = 0
    commands: int = 0
    bytes: int = 0
    oldest_lease: float = 0.0
    waits: list[float] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """Of the process; it's never restarted."""
        assert self.vkubelet.component is not None
        pid = self.vkubelet.component.pid
        if pid is None:
            raise BenchError(f"vkubelet ended\n{self.vkubelet.component.read_log()}")
        return pid

    async def look(self) -> Held:
        """See what it holds."""
        targets = _read_open_files(self.pid)
        return Held(
            rss_mib=read_usage(self.pid).rss_mib,
            files=len(targets),
            sockets=sum(target.startswith("socket:") for target in targets),
            tasks=int((await self.read_metric("vkubelet_tasks"))[""]),
        )

    async def read_metric(self, name: str, label: str = "") -> dict[str, float]:
        """Read a metric's values by one of its labels, added up."""
        values: dict[str, float] = {}
        for family in text_string_to_metric_families(await self.vkubelet.read_metrics()):
            for sample in family.samples:
                if sample.name == name:
                    value = sample.labels.get(label, "")
                    values[value] = values.get(value, 0.0) + sample.value
        return values

    async def churn(self, seconds: float) -> None:
        """Have pods come and go; in the end all are gone."""
        living: deque[tuple[float, NamespacedName]] = deque()
        begun = time.monotonic()
        load = Load(name="churn", namespace="churn", count=0, node="churn")
        until = begun + seconds
        count = 0
        while (now := time.monotonic()) < until or living:
            if now < until and now >= begun + count / PODS_PER_SECOND:
                pod = build_pod(load, self.made)
                await self.client.create(PODS, pod)
                living.append((now, NamespacedName("churn", pod["metadata"]["name"])))
                self.made += 1
                count += 1
            elif living and (now > living[0][0] + LIFETIME_SECONDS or now >= until):
                with contextlib.suppress(NotFoundError):
                    await self.client.delete(PODS, living.popleft()[1], grace_period_seconds=1)
            else:
                await asyncio.sleep(0.01)

    async def follow(self) -> None:
        """Follow the log of the pod that writes."""
        path = PODS.path(*SOURCE, "log")
        async with self.client.stream(path, (("follow", "true"), ("tailLines", "1"))) as response:
            async for chunk in response.content.iter_any():
                self.bytes += len(chunk)
        raise BenchError("a log that is followed has ended")

    async def command(self) -> None:
        """Run one command after the other."""
        while True:
            async with open_shell(self.client, SOURCE, "cat") as shell:
                shell.send(b"x")
                await shell.wait_received(1)
            self.commands += 1
            await asyncio.sleep(0.5)

    async def watch_leases(self) -> None:
        """Look how old the Leases get."""
        while True:
            now = datetime.now(UTC)
            for lease in await self.client.list(LEASES, namespace="kube-node-lease"):
                renewed = datetime.fromisoformat(lease["spec"]["renewTime"])
                self.oldest_lease = max(self.oldest_lease, (now - renewed).total_seconds())
            await asyncio.sleep(0.5)

    async def burst(self, noisy: LoadProcess, quiet: LoadProcess, count: int) -> float:
        """Have one namespace make many pods, while another makes one after the other."""
        load = Load(name="noisy", namespace="noisy", count=count, node="churn")
        async with asyncio.TaskGroup() as group:
            making = group.create_task(noisy.make(load))
            while not making.done():
                one = Load(
                    name=f"quiet-{len(self.waits)}", namespace="quiet", count=1, node="churn"
                )
                self.waits += (await quiet.make(one)).latencies
        for namespace in ("noisy", "quiet"):
            await delete_pods(self.home, namespace)
        return making.result().seconds

    async def rest(self) -> Held:
        """Wait until nothing goes on any more, and see what it holds."""
        async with asyncio.timeout(GONE_SECONDS):
            while len(await self.client.list(PODS)) > 1:
                await asyncio.sleep(0.5)
        await asyncio.sleep(REST_SECONDS)
        return await self.look()


async def run(*, quick: bool) -> list[Figure]:
    """Measure it."""
    seconds = float(os.environ.get("SOAK_SECONDS", QUICK_SECONDS if quick else SECONDS))
    count = QUICK_BURST if quick else BURST
    async with _open() as soak, run_load(soak.home) as noisy, run_load(soak.home) as quiet:
        await _live(soak, WARM_UP_SECONDS)
        before = await soak.rest()
        async with asyncio.TaskGroup() as group:
            living = group.create_task(_live(soak, seconds))
            await asyncio.sleep(seconds / 2)
            took = await soak.burst(noisy, quiet, count)
            await living
        after = await soak.rest()
        return await _show(soak, before, after, count / took)


@contextlib.asynccontextmanager
async def _open() -> AsyncIterator[Soak]:
    arguments = [
        "--namespace=*",
        "--log-level=warning",
        "--node-mapping=selector",
        f"--virtual-node=churn={LABEL}",
        f"--virtual-node=streams=!{LABEL}",
    ]
    async with start_clusters("home", "remote") as (home, remote):
        await grant_rights(home, remote)
        await PhysicalNodes(
            remote, [{"name": "real", "capacity": {"cpu": "4", "memory": "8Gi", "pods": "20"}}]
        ).start()
        await start_kwok(remote, 5)
        for namespace in NAMESPACES:
            await home.make_namespace(namespace)
        async with (
            run_vkubelet(home, remote, remote_cluster="cloud", arguments=arguments) as vkubelet,
            home.client() as client,
        ):
            soak = Soak(home, client, vkubelet)
            await _start_source(soak)
            yield soak


def _read_open_files(pid: int) -> list[str]:
    targets = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            targets.append(str(file.readlink()))
    return targets


async def _start_source(soak: Soak) -> None:
    pod = build_pod(Load(name="source", namespace="streams", count=1, node="streams"), 0)
    pod["metadata"]["name"] = SOURCE.name
    pod["spec"]["containers"][0]["command"] = ["sh", "-c", WRITE]
    await soak.client.create(PODS, pod)
    async with asyncio.timeout(30):
        while (await soak.client.get(PODS, SOURCE))["status"]["phase"] != "Running":
            await asyncio.sleep(0.2)


async def _live(soak: Soak, seconds: float) -> None:
    """Have everything go on at once."""
    async with asyncio.TaskGroup() as group:
        others = [
            group.create_task(soak.watch_leases()),
            group.create_task(soak.command()),
            *(group.create_task(soak.follow()) for _ in range(FOLLOWS)),
        ]
        await soak.churn(seconds)
        for task in others:
            task.cancel()


async def _show(soak: Soak, before: Held, after: Held, rate: float) -> list[Figure]:
    results = await soak.read_metric("vkubelet_reconciles_total", "result")
    codes = await soak.read_metric("vkubelet_kube_requests_total", "code")

    def figure(name: str, value: float, unit: str, target: float | None = None) -> Figure:
        return Figure(bench="soak", name=name, value=value, unit=unit, target=target)

    return [
        figure("pods that came and went", soak.made, ""),
        figure("commands that ran", soak.commands, ""),
        figure("logs that were followed", soak.bytes / 1e6, "MB"),
        figure("memory that is left", after.rss_mib - before.rss_mib, "MiB", 15),
        figure("memory at the first rest", before.rss_mib, "MiB"),
        figure("open files that are left", after.files - before.files, "", 3),
        figure("sockets that are left", after.sockets - before.sockets, "", 3),
        figure("tasks that are left", after.tasks - before.tasks, "", 3),
        figure("oldest Lease", soak.oldest_lease, "s", 15),
        figure("pods of the burst", rate, "/s"),
        figure("a quiet namespace's pod during the burst: longest", max(soak.waits), "s", 3),
        figure("reconciles that failed, and were done again", results.get("failed", 0), ""),
        figure("reconciles that broke", results.get("error", 0), "", 0),
        figure("answers 429", codes.get("429", 0), ""),
    ]
