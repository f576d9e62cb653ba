"""The product between two test clusters: process nodes there, `vkubelet run` at home."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.processes import Component, ReservedPort
from tests.cluster.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]
_PORTS = 300
_SLOTS = 75  # below the ports that the system gives to outgoing connections
_WORKERS = 15
RIGHTS = REPOSITORY / "docs" / "rbac"
USER = "vkubelet"
NODES_TIMEOUT_SECONDS = 60.0
READY_TIMEOUT_SECONDS = 30.0


def build_environment(**extra: str) -> dict[str, str]:
    """Build the environment of our own programs: none of the caller's clusters or settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("KUBECONFIG", "POD_IP") and not name.startswith("VKUBELET_")
    }
    return {**kept, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", **extra}


class PhysicalNodes:
    """
    Process nodes of a cluster; what they look like can be changed while they run.

    Attributes:
        nodes: Descriptions by name: labels, annotations, taints, capacity, ready.
    """

    def __init__(self, cluster: Cluster, nodes: Sequence[Mapping[str, Any]]) -> None:
        self._cluster = cluster
        self.nodes: dict[str, dict[str, Any]] = {node["name"]: dict(node) for node in nodes}
        self._file = cluster.folder / "process-nodes.json"

    async def start(self) -> None:
        """Start them and wait until their Nodes are there."""
        self._write()
        self._cluster.start_component(
            "process-nodes",
            [
                sys.executable,
                "-m",
                "tests.cluster.process_nodes",
                f"--kubeconfig={self._cluster.admin_kubeconfig}",
                f"--nodes={self._file}",
                f"--data-dir={self._cluster.folder / 'process-nodes'}",
            ],
            env=build_environment(),
        )
        await self._wait_ready()

    async def add(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        """Add nodes while the others run, and wait until they are there."""
        self.nodes |= {node["name"]: dict(node) for node in nodes}
        self._write()
        await self._wait_ready()

    def change(self, name: str, **changes: Any) -> None:
        """Change the description of a node; the running nodes follow."""
        self.nodes[name] |= changes
        self._write()

    def _write(self) -> None:
        temporary = self._file.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(list(self.nodes.values())))
        temporary.replace(self._file)

    async def _wait_ready(self) -> None:
        wanted = {name for name, node in self.nodes.items() if node.get("ready", True)}

        async def ready() -> bool:
            listed = await self._cluster.kubectl("get", "nodes", "-o", "json")
            return wanted <= {
                node["metadata"]["name"] for node in listed.json()["items"] if _is_ready(node)
            }

        await wait_until(ready, "process nodes Ready", timeout_seconds=NODES_TIMEOUT_SECONDS)


def _is_ready(node: Mapping[str, Any]) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node.get("status", {}).get("conditions", ())
    )


def _find_free_port() -> int:
    port = ReservedPort()
    port.close()
    return port.number


def _choose_ports() -> str:
    """
    A range of this test process's own: others, beside it, would take a restarted one's port.

    10250 is none of them: somebody may ask for it by number.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    slot = int(worker) if worker else _WORKERS + os.getpid() % (_SLOTS - _WORKERS)
    first = 10251 + slot * _PORTS
    return f"{first}-{first + _PORTS - 1}"


async def grant_rights(home: Cluster, remote: Cluster) -> None:
    """Give the product's user the documented rights on either side, and nothing else."""
    await _change_rights("apply", home, remote)


async def revoke_rights(home: Cluster, remote: Cluster) -> None:
    """Undo `grant_rights`."""
    await _change_rights("delete", home, remote)


async def _change_rights(verb: str, home: Cluster, remote: Cluster) -> None:
    async with asyncio.TaskGroup() as changing:
        for cluster, file in ((home, "home.yaml"), (remote, "remote.yaml")):
            changing.create_task(cluster.kubectl(verb, "-f", str(RIGHTS / file)))


class Vkubelet:
    """
    A `vkubelet run` process between two clusters, with the documented rights.

    Attributes:
        arguments: Its command line after `run`.
        component: The process.
    """

    def __init__(
        self,
        home: Cluster,
        remote: Cluster,
        *,
        remote_cluster: str,
        arguments: Sequence[str] = (),
        process_name: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._home = home
        self._health_port = _find_free_port()
        self._data = home.folder / f"vkubelet-{remote_cluster}"
        self.arguments = [
            f"--kubeconfig={home.kubeconfig_for(USER)}",
            f"--remote-kubeconfig={remote.kubeconfig_for(USER)}",
            f"--remote-cluster={remote_cluster}",
            "--kubelet-address=127.0.0.1",
            f"--kubelet-ports={_choose_ports()}",
            f"--health-address=127.0.0.1:{self._health_port}",
            f"--data-dir={self._data}",
            "--approve-csr",
            *arguments,
        ]
        self.component: Component | None = None
        self._name = process_name or f"vkubelet-{remote_cluster}"
        self._environment = build_environment(**environment or {})

    @property
    def health_url(self) -> str:
        """Where /livez, /readyz and /metrics are."""
        return f"http://127.0.0.1:{self._health_port}"

    @property
    def command(self) -> list[str]:
        """The whole command line."""
        return [sys.executable, "-m", "provider", "run", *self.arguments]

    def start(self) -> None:
        """Start the process (again)."""
        if self.component is None:
            self.component = self._home.start_component(
                self._name, self.command, env=self._environment
            )
        else:
            self.component.start()

    async def wait_ready(self) -> None:
        """Wait until /readyz says so."""
        assert self.component is not None, "not started"
        component = self.component

        async def ready() -> bool:
            if component.exit_code is not None:
                raise ClusterError(
                    f"vkubelet ended with {component.exit_code}\n{component.read_log()}"
                )
            return await self.read_ready() == 200

        await wait_until(ready, "vkubelet ready", timeout_seconds=READY_TIMEOUT_SECONDS)

    async def read_ready(self) -> int:
        """Ask /readyz; 0 when nobody answers."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
                session.get(f"{self.health_url}/readyz") as response,
            ):
                return response.status
        except (aiohttp.ClientError, TimeoutError):
            return 0

    async def read_metrics(self) -> str:
        """Ask /metrics."""
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
            session.get(f"{self.health_url}/metrics") as response,
        ):
            return await response.text()

    async def stop(self) -> None:
        """Stop it as Kubernetes would."""
        if self.component is not None:
            await self.component.stop(grace_seconds=15)


@contextlib.asynccontextmanager
async def run_vkubelet(
    home: Cluster, remote: Cluster, *, remote_cluster: str, arguments: Sequence[str] = ()
) -> AsyncIterator[Vkubelet]:
    """Run the product between two clusters until the end of the context; ready when entered."""
    vkubelet = Vkubelet(home, remote, remote_cluster=remote_cluster, arguments=arguments)
    try:
        vkubelet.start()
        await vkubelet.wait_ready()
        yield vkubelet
    finally:
        await vkubelet.stop()
