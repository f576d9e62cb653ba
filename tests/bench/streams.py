"""
Logs, commands and port-forwards through two real clusters and a virtual node.

Speed is given as what our process spends: everything else shares the machine's cores with it.
"""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from provider.streams.relay import RemoteStreams
from tests.bench.figures import Figure, read_usage
from tests.bench.shells import open_shell
from tests.cluster.cluster import Cluster, start_clusters
from tests.cluster.errors import ClusterError
from tests.cluster.peering import PhysicalNodes, grant_rights, run_vkubelet
from tests.cluster.processes import ReservedPort
from tests.cluster.product.cloud import NODE, PHYSICAL_NODES, find_remote_pods, run_pod
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import PODS, KubeObject, NamespacedName
from vkubelet.supervision import run_component

MEGABYTE = 1_000_000
LINE = 4096
ECHOES = 300
LOG_BYTES = 10_000_000
"""What a container keeps at most, as with a kubelet; it's read over and over."""

LIMITS: dict[bool, dict[str, int]] = {
    False: {"megabytes": 200, "shells": 500, "follows": 200, "forwards": 300},
    True: {"megabytes": 40, "shells": 50, "follows": 30, "forwards": 40},
}
NAMESPACE = "bench"
# Lines as long as the chunks that are asked for, then the end.
WRITE = 'head -c {bytes} /dev/zero | tr "\\0" x | fold -w {width}; echo; echo end'
SERVE = (
    "import socketserver,sys\n"
    "class Echo(socketserver.BaseRequestHandler):\n"
    "  def handle(self):\n"
    "    while data := self.request.recv(100): self.request.sendall(data)\n"
    "socketserver.ThreadingTCPServer.allow_reuse_address = True\n"
    "socketserver.ThreadingTCPServer(('127.0.0.1', int(sys.argv[1])), Echo).serve_forever()\n"
)


@dataclass
class Setting:
    """Two clusters, and a pod that is reached by either."""

    home: KubeClient
    remote: KubeClient
    pod: NamespacedName
    there: NamespacedName
    uid: str
    pid: int
    port: int
    limits: dict[str, int]

    def cpu_seconds(self) -> float:
        return read_usage(self.pid).cpu_seconds

    def rss_mib(self) -> float:
        return read_usage(self.pid).rss_mib

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


async def run(*, quick: bool) -> list[Figure]:
    """Measure it."""
    figures: list[Figure] = []
    async with _open(LIMITS[quick]) as setting:
        for measure in (
            _measure_logs,
            _measure_output,
            _measure_echo,
            _measure_forwards,
            _measure_follows,
            _measure_shells,
        ):
            figures += await measure(setting)
    return figures


@contextlib.asynccontextmanager
async def _open(limits: dict[str, int]) -> AsyncIterator[Setting]:
    async with start_clusters("home", "remote") as (home, remote):
        await grant_rights(home, remote)
        await PhysicalNodes(remote, PHYSICAL_NODES).start()
        await home.make_namespace(NAMESPACE)
        arguments = ["--namespace=*", "--log-level=warning"]
        async with (
            run_vkubelet(home, remote, remote_cluster=NODE, arguments=arguments) as vkubelet,
            home.client() as home_client,
            remote.client() as remote_client,
        ):
            assert vkubelet.component is not None
            assert vkubelet.component.pid is not None
            pod, port = await _start_pod(home)
            (there,) = await find_remote_pods(remote, pod)
            yield Setting(
                home=home_client,
                remote=remote_client,
                pod=_key(pod),
                there=_key(there),
                uid=pod["metadata"]["uid"],
                pid=vkubelet.component.pid,
                port=port,
                limits=limits,
            )


async def _start_pod(home: Cluster) -> tuple[KubeObject, int]:
    """Run a pod that writes its log and then sends back what comes to a port."""
    write = WRITE.format(bytes=LOG_BYTES, width=LINE - 1)
    with contextlib.closing(ReservedPort()) as reserved:
        port = reserved.number
    command = ["sh", "-c", f'{write}; exec python3 -c "$0" {port}', SERVE]
    return await run_pod(home, "source", NAMESPACE, command=command), port


def _key(pod: KubeObject) -> NamespacedName:
    return NamespacedName(pod["metadata"]["namespace"], pod["metadata"]["name"])


async def _read_log(setting: Setting, *query: tuple[str, str]) -> int:
    path = PODS.path(setting.pod.namespace, setting.pod.name, "log")
    size = 0
    async with setting.home.stream(path, query) as response:
        async for chunk in response.content.iter_any():
            size += len(chunk)
    return size


async def _measure_logs(setting: Setting) -> list[Figure]:
    wanted = setting.limits["megabytes"] * MEGABYTE
    async with asyncio.timeout(120):
        while await _read_log(setting, ("tailLines", "1")) != len("end\n"):
            await asyncio.sleep(1)

    async def read() -> int:
        size = 0
        while size < wanted:
            size += await _read_log(setting)
        return size

    return await _measure_bytes(setting, "logs", read, wanted)


async def _measure_output(setting: Setting) -> list[Figure]:
    wanted = setting.limits["megabytes"] * MEGABYTE

    async def read() -> int:
        command = ("sh", "-c", f"head -c {wanted} /dev/zero; cat >/dev/null")
        async with open_shell(setting.home, setting.pod, *command) as shell:
            await shell.wait_received(wanted)
        return shell.received

    return await _measure_bytes(setting, "stdout of exec", read, wanted)


async def _measure_bytes(
    setting: Setting, name: str, read: Callable[[], Awaitable[int]], wanted: int
) -> list[Figure]:
    before, begun = setting.cpu_seconds(), time.monotonic()
    size = await read()
    spent, took = setting.cpu_seconds() - before, time.monotonic() - begun
    if size < wanted:
        raise ClusterError(f"{name}: {size} bytes arrived, not {wanted}")
    return [
        _figure(f"{name}: our CPU for 100 MB", spent / size * 100 * MEGABYTE, "s", 1.0),
        _figure(f"{name}: all in all", size / MEGABYTE / took, "MB/s"),
    ]


async def _measure_echo(setting: Setting) -> list[Figure]:
    """By turns, so that what else goes on hits both."""
    times: dict[str, list[float]] = {"virtual": [], "direct": []}
    async with (
        open_shell(setting.home, setting.pod, "cat") as virtual,
        open_shell(setting.remote, setting.there, "cat") as direct,
    ):
        for number in range(ECHOES):
            for name, shell in (("virtual", virtual), ("direct", direct)):
                begun = time.perf_counter()
                shell.send(b"x")
                await shell.wait_received(number + 1)
                times[name].append(time.perf_counter() - begun)
    medians = {name: statistics.median(taken) * 1000 for name, taken in times.items()}
    return [
        _figure("echo: added at P50", medians["virtual"] - medians["direct"], "ms", 1.0),
        _figure("echo: directly at P50", medians["direct"], "ms"),
    ]


async def _measure_forwards(setting: Setting) -> list[Figure]:
    """Open many, use them, kill them; once before, as what is made once isn't lost."""
    await _forward(setting, 5)
    before = setting.rss_mib(), setting.open_files()
    count = setting.limits["forwards"]
    await _forward(setting, count)
    async with asyncio.timeout(60):
        while setting.open_files() > before[1]:
            await asyncio.sleep(0.5)
    return [
        _figure(f"{count} port-forwards: files left", setting.open_files() - before[1], "", 0),
        _figure(f"{count} port-forwards: memory left", setting.rss_mib() - before[0], "MiB", 15),
    ]


async def _forward(setting: Setting, count: int) -> None:
    streams = RemoteStreams(setting.home)
    limit = asyncio.Semaphore(50)

    async def use() -> None:
        async with (
            limit,
            streams.port_forward(
                setting.pod, setting.port, home_namespace=NAMESPACE, home_uid=setting.uid
            ) as stream,
        ):
            await stream.write(b"x")
            assert await stream.read() == b"x"

    async with asyncio.TaskGroup() as group:
        running = group.create_task(run_component("streams", streams.run))
        async with asyncio.TaskGroup() as using:
            for _ in range(count):
                using.create_task(use())
        running.cancel()


async def _measure_follows(setting: Setting) -> list[Figure]:
    """Each follows the log from its last line on, until what is written then has arrived."""
    before = setting.rss_mib()
    count = setting.limits["follows"]
    opened: asyncio.Semaphore = asyncio.Semaphore(0)
    path = PODS.path(setting.pod.namespace, setting.pod.name, "log")

    async def follow() -> None:
        query = (("follow", "true"), ("tailLines", "1"))
        async with setting.home.stream(path, query) as response:
            await response.content.readany()
            opened.release()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(follow()) for _ in range(count)]
        async with asyncio.timeout(120):
            for _ in range(count):
                await opened.acquire()
        used = setting.rss_mib() - before
        for task in tasks:
            task.cancel()
    return [_figure(f"{count} follows: memory", used, "MiB")]


async def _measure_shells(setting: Setting) -> list[Figure]:
    before, count = setting.rss_mib(), setting.limits["shells"]
    async with contextlib.AsyncExitStack() as shells:
        for _ in range(count):
            shell = await shells.enter_async_context(open_shell(setting.home, setting.pod, "cat"))
            shell.send(b"x")
            await shell.wait_received(1)
        await asyncio.sleep(2)
        used = setting.rss_mib() - before
    return [_figure(f"{count} idle shells: memory", used, "MiB", 60.0 * count / 500)]


def _figure(name: str, value: float, unit: str, target: float | None = None) -> Figure:
    return Figure(bench="streams", name=name, value=value, unit=unit, target=target)
