"""A real Kubernetes control plane for tests, in processes of its own on the loopback interface."""

import asyncio
import contextlib
import dataclasses
import signal
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from tests.cluster import binaries
from tests.cluster.components import ControlPlane, Ports
from tests.cluster.errors import ClusterError
from tests.cluster.kubectl import Completed, open_kubectl, run_kubectl
from tests.cluster.pki import Authority
from tests.cluster.processes import Component, ReservedPort, Workspace
from tests.cluster.waiting import wait_until
from vkubelet.kube.access import load_kubeconfig
from vkubelet.kube.client import KubeClient

_START_TIMEOUT_SECONDS = 60.0
_STOP_API_SERVER_SECONDS = 20.0
_KUBECTL_TIMEOUT_SECONDS = 30.0


class Cluster:
    """
    etcd, kube-apiserver, kube-controller-manager and kube-scheduler, with kubectl as the client.

    Use it as an async context manager, or call `start` and `stop`. RBAC and the Node authorizer
    are on, and the API server verifies the kubelets' serving certificates. Its processes and files
    don't outlive this process.

    Attributes:
        name: "home" or "remote", for messages and file names.
        components: The programs by name; whatever `start_component` started is among them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.components: dict[str, Component] = {}
        self._binaries = binaries.locate()
        self._workspace: Workspace | None = None
        self._plane: ControlPlane | None = None
        self._ports: dict[str, ReservedPort] = {}
        self._users = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def folder(self) -> Path:
        """The cluster's temporary folder; removed when it stops."""
        return self._require_workspace().folder

    def _require_workspace(self) -> Workspace:
        assert self._workspace is not None, f"the cluster {self.name} doesn't run"
        return self._workspace

    def _require_plane(self) -> ControlPlane:
        assert self._plane is not None, f"the cluster {self.name} doesn't run"
        return self._plane

    @property
    def server(self) -> str:
        """URL of the API server."""
        return self._require_plane().server

    @property
    def client_ca(self) -> Authority:
        """Authority of the clients' certificates."""
        return self._require_plane().client_ca

    @property
    def serving_ca(self) -> Authority:
        """Authority of the API server's and the kubelets' serving certificates."""
        return self._require_plane().serving_ca

    @property
    def admin_kubeconfig(self) -> Path:
        """Kubeconfig of a user who may do everything."""
        return self.folder / "admin.kubeconfig"

    def read_audit_log(self) -> list[Mapping[str, Any]]:
        """Read the requests of the audited service accounts that have been answered so far."""
        log = self.folder / "audit.log"
        lines = log.read_bytes().splitlines(keepends=True) if log.exists() else []
        return [msgspec.json.decode(line) for line in lines if line.endswith(b"\n")]

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig with a client certificate for a user; RBAC tells what they may do."""
        self._users += 1
        return self._require_plane().write_kubeconfig(f"user-{self._users}", user, groups)

    async def start(self) -> None:
        """
        Start everything, and return when pods can be created.

        Raises:
            ClusterError: If a program ends or isn't ready in time; the tail of its log is in it.
        """
        self._workspace = Workspace(self.name)
        try:
            self._ports = {field.name: ReservedPort() for field in dataclasses.fields(Ports)}
            ports = Ports(**{name: port.number for name, port in self._ports.items()})
            self._plane = ControlPlane(self.folder, self._binaries, ports)
            await self._start_control_plane(self._plane)
        except BaseException:
            await self.stop()
            raise

    async def _start_control_plane(self, plane: ControlPlane) -> None:
        self._add("kube-apiserver", plane.build_api_server_command())
        etcd = self.start_component("etcd", plane.build_etcd_command())
        await self._wait_ready(etcd, f"http://127.0.0.1:{plane.ports.etcd}/readyz")
        # These two end by themselves when the API server isn't ready yet.
        self._add("kube-controller-manager", plane.build_controller_manager_command())
        self._add("kube-scheduler", plane.build_scheduler_command())
        await self.start_api_server()
        scheduler = self.components["kube-scheduler"]
        await self._wait_ready(scheduler, f"https://127.0.0.1:{plane.ports.scheduler}/readyz")
        controllers = self.components["kube-controller-manager"]
        for made in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            url = f"{plane.server}/api/v1/namespaces/default/{made}"
            await self._wait_ready(controllers, url)

    def _add(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> Component:
        component = Component(name, argv, self._require_workspace(), env=env)
        self.components[name] = component
        return component

    def start_component(
        self, name: str, argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None
    ) -> Component:
        """
        Start another program that ends with the cluster; its log is shown when a test fails.

        Args:
            name: A name that no running component has.
            argv: The program, by its full path, and its arguments.
            env: Its whole environment; None means this process's.
        """
        if (existing := self.components.get(name)) is not None:
            assert existing.pid is None, f"{name} runs already"
        component = self._add(name, argv, env)
        component.start()
        return component

    async def _wait_ready(self, component: Component, url: str) -> None:
        context = self._build_tls_context(verify=url.startswith(self.server))
        timeout = aiohttp.ClientTimeout(total=5)
        async with aiohttp.ClientSession(timeout=timeout) as session:

            async def ready() -> bool:
                if component.exit_code is not None:
                    return True
                try:
                    async with session.get(url, ssl=context) as response:
                        return response.status == 200
                except (aiohttp.ClientError, TimeoutError):
                    return False

            try:
                await wait_until(ready, url, timeout_seconds=_START_TIMEOUT_SECONDS)
            except ClusterError as error:
                raise self._build_start_error(component, str(error)) from error
        if component.exit_code is not None:
            raise self._build_start_error(component, f"ended with {component.exit_code}")

    def _build_start_error(self, component: Component, what: str) -> ClusterError:
        return ClusterError(f"{self.name}: {component.name}: {what}\n{component.read_log()}")

    def _build_tls_context(self, *, verify: bool) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.folder / "serving-ca.crt"))
        context.load_cert_chain(
            self.folder / "kubelet-client.crt", self.folder / "kubelet-client.key"
        )
        if not verify:  # the scheduler signs its own certificate
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    async def stop(self) -> None:
        """Stop everything and remove the files; harmless when it's already stopped."""
        workspace, self._workspace = self._workspace, None
        if workspace is None:
            return
        servers = [self.components.pop(name, None) for name in ("kube-apiserver", "etcd")]
        try:
            async with asyncio.TaskGroup() as stopping:
                for component in self.components.values():
                    stopping.create_task(
                        component.stop(grace_seconds=10), name=f"stop {component.name}"
                    )
            for server in servers:  # last, and nothing of theirs is kept
                if server is not None and server.pid is not None:
                    await server.kill()
        finally:
            await asyncio.to_thread(workspace.close)
            for port in self._ports.values():
                port.close()

    async def stop_api_server(self) -> None:
        """Stop the API server as an operator would; connections are refused from then on."""
        api_server = self.components["kube-apiserver"]
        await api_server.stop(grace_seconds=_STOP_API_SERVER_SECONDS)

    async def kill_api_server(self) -> None:
        """Kill the API server."""
        await self.components["kube-apiserver"].kill()

    async def start_api_server(self) -> None:
        """
        Start the API server (again, on its old port), and wait until it's ready.

        Controllers and scheduler are started anew: without leader election they would sit out
        their back-off, which can take a minute, instead of ending as they do elsewhere.
        """
        api_server = self.components["kube-apiserver"]
        api_server.start()
        await self._wait_ready(api_server, f"{self.server}/readyz")
        for name in ("kube-controller-manager", "kube-scheduler"):
            component = self.components[name]
            if component.pid is not None:
                await component.stop()
            component.start()

    def freeze_api_server(self) -> None:
        """Make the API server hang: connections are accepted, nothing is answered."""
        self.components["kube-apiserver"].send_signal(signal.SIGSTOP)

    def thaw_api_server(self) -> None:
        """Undo `freeze_api_server`."""
        self.components["kube-apiserver"].send_signal(signal.SIGCONT)

    @contextlib.asynccontextmanager
    async def client(self, kubeconfig: Path | None = None) -> AsyncIterator[KubeClient]:
        """A client of the product's own, as admin unless a kubeconfig is given."""
        access = await load_kubeconfig(kubeconfig or self.admin_kubeconfig, None)
        async with KubeClient(access, name=self.name) as client:
            yield client

    def build_kubectl_command(self, *args: str, kubeconfig: Path | None = None) -> list[str]:
        """Build a kubectl command line, as admin unless a kubeconfig is given."""
        config = kubeconfig or self.admin_kubeconfig
        return [str(self._binaries.kubectl), f"--kubeconfig={config}", *args]

    def kubectl_process(
        self, *args: str, kubeconfig: Path | None = None, env: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
        """Run kubectl with pipes as its streams; at the end of the context it's killed."""
        argv = self.build_kubectl_command(*args, kubeconfig=kubeconfig)
        return open_kubectl(argv, home=self.folder, env=env or {})

    async def kubectl(
        self,
        *args: str,
        stdin: str = "",
        check: bool = True,
        timeout: float = _KUBECTL_TIMEOUT_SECONDS,  # noqa: ASYNC109 -- the error names the command
        kubeconfig: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """
        Run kubectl to its end.

        Args:
            args: Its arguments.
            stdin: Text of its standard input.
            check: Whether a non-zero exit code is an error.
            timeout: Seconds after which it's killed.
            kubeconfig: Another user's; admin by default.
            env: Added to its environment, which has nothing of this process's.

        Raises:
            ClusterError: If it fails or takes too long; the text has its output.
        """
        completed = await run_kubectl(
            self.build_kubectl_command(*args, kubeconfig=kubeconfig),
            name=f"{self.name}: kubectl {' '.join(args)}",
            home=self.folder,
            env=env or {},
            stdin=stdin,
            timeout_seconds=timeout,
        )
        if check and completed.returncode != 0:
            raise ClusterError(
                f"{completed.name}: exit code {completed.returncode}\n"
                f"{completed.stdout}{completed.stderr}"
            )
        return completed

    async def make_namespace(self, name: str) -> None:
        """Make a namespace, and wait until pods can be created in it."""
        await self.kubectl("create", "namespace", name)
        await self.kubectl(
            "wait", "--for=create", "serviceaccount/default", f"--namespace={name}", "--timeout=25s"
        )


@contextlib.asynccontextmanager
async def start_clusters(*names: str) -> AsyncIterator[tuple[Cluster, ...]]:
    """
    Start clusters side by side, and stop them at the end.

    Raises:
        ClusterError: If one doesn't start; the others are stopped.
    """
    clusters = tuple(Cluster(name) for name in names)
    try:
        try:
            async with asyncio.TaskGroup() as starting:
                for cluster in clusters:
                    starting.create_task(cluster.start(), name=f"start {cluster.name}")
        except* ClusterError as failures:
            raise ClusterError("\n".join(map(str, failures.exceptions))) from failures
        yield clusters
    finally:
        async with asyncio.TaskGroup() as stopping:
            for cluster in clusters:
                stopping.create_task(cluster.stop(), name=f"stop {cluster.name}")
