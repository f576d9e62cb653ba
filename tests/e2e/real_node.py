"""A real node of a test cluster: kubelet and containerd, in namespaces of their own."""

import asyncio
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster.cluster import Cluster
from tests.cluster.components import SERVICE_IP
from tests.cluster.errors import ClusterError
from tests.cluster.pki import build_kubeconfig
from tests.cluster.processes import Component
from tests.cluster.waiting import wait_until
from tests.e2e import binaries, images, node_config, node_init, relay
from tests.e2e.slots import Slot

BUSYBOX_IMAGE = "vkubelet.test/busybox:1"
RELAY_PORT = 6443
_START_TIMEOUT_SECONDS = 60.0
_ADVICE = ("(for `too many open files` see fs.inotify.max_user_instances: others use them up)",)
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class RealNode:
    """
    A kubelet and a containerd as a Node of a cluster; root is needed.

    Use it as an async context manager, or call `start` and `stop`. The node has mount, network and
    pid namespaces of its own, so that everything that it mounts, starts and configures ends with
    its first process; that ends with this process. Of the machine's it uses control groups and a
    network link, which a later node cleans up should this process be killed.

    Attributes:
        name: Name of the Node.
        slot: Its addresses and control group.
    """

    def __init__(
        self, cluster: Cluster, name: str, *, features: Mapping[str, bool] | None = None
    ) -> None:
        """
        Prepare a node.

        Args:
            cluster: Its cluster.
            name: Name of the Node.
            features: The kubelet's feature gates that aren't as by default.

        Raises:
            ClusterError: If this process isn't root's.
            NodeProgramsMissingError: If its programs aren't built.
        """
        if os.geteuid() != 0:
            raise ClusterError("real nodes need root")
        self.name = name
        self._cluster = cluster
        self._features = dict(features or {})
        self._programs = binaries.locate()
        self._slot: Slot | None = None
        self._pid: int | None = None
        self._components: dict[str, Component] = {}

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
    def slot(self) -> Slot:
        """The part of the machine that is the node's."""
        assert self._slot is not None, f"the node {self.name} doesn't run"
        return self._slot

    @property
    def kubelet(self) -> Component:
        """The kubelet's process."""
        return self._components["kubelet"]

    @property
    def containerd(self) -> Component:
        """containerd's process; containers go on without it."""
        return self._components["containerd"]

    @property
    def folder(self) -> Path:
        """What the node has as /var: lib and log are in it."""
        return self._cluster.folder / f"node-{self.name}"

    async def start(self) -> None:
        """
        Start the node, and return when its Node is Ready.

        Raises:
            ClusterError: If a program ends or the node isn't Ready in time, with its log.
        """
        self._slot = await asyncio.to_thread(Slot.take)
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        self.slot.make_cgroups()
        self._write_files()
        await self._start_namespaces()
        await self._connect()
        self._start_component(
            "relay",
            [
                *(sys.executable, "-I", "-S", relay.__file__),
                *(self.slot.host_address, str(RELAY_PORT)),
                self._cluster.server.rpartition(":")[2],
            ],
        )
        await self._start_containerd()
        await self._import_images()
        self._start_component("kubelet", self.build_command(*self._build_kubelet_command()))
        await self._wait_node_ready()

    def _start_component(self, name: str, argv: list[str]) -> Component:
        component = self._cluster.start_component(
            f"{self.name}-{name}", argv, env={"PATH": _PATH, "HOME": "/root"}
        )
        self._components[name] = component
        return component

    def _write_files(self) -> None:
        files = self.folder / "lib" / "node"
        (files / "sysctl").mkdir(parents=True)
        (files / "cni").mkdir()
        (files / "cni" / "pods.conflist").write_text(node_config.build_cni_config(self.slot))
        (files / "kubelet.json").write_text(
            node_config.build_kubelet_config(self.slot, self._features)
        )
        for path, value in node_config.MACHINE_SYSCTLS.items():
            (files / "sysctl" / path.replace("/", ".")).write_text(f"{value}\n")
        user = f"system:node:{self.name}"
        self._cluster.serving_ca.issue_server(user, [self.slot.node_address, self.name]).write(
            files, "kubelet"
        )
        (files / "client-ca.crt").write_bytes(self._cluster.client_ca.certificate)
        (files / "kubeconfig").write_text(self._build_kubeconfig(user))

    def _build_kubeconfig(self, user: str) -> str:
        client = self._cluster.client_ca.issue_client(user, ["system:nodes"])
        server = f"https://{self.slot.host_address}:{RELAY_PORT}"
        config = json.loads(build_kubeconfig(server, self._cluster.serving_ca.certificate, client))
        config["clusters"][0]["cluster"]["tls-server-name"] = "127.0.0.1"
        return json.dumps(config)

    async def _start_namespaces(self) -> None:
        init = self._start_component(
            "init",
            [
                *("/usr/bin/unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--"),
                *(sys.executable, "-I", "-S", node_init.__file__, str(self.folder)),
                *(str(self._programs.kubelet.parent), str(self._programs.runtime)),
            ],
        )
        file = self.folder / "pid"

        async def ready() -> bool:
            self._check_running(init)
            return file.exists()

        await wait_until(ready, f"namespaces of node {self.name}")
        self._pid = int(file.read_text())

    def _check_running(self, component: Component) -> None:
        if component.exit_code is not None:
            raise ClusterError(
                f"{component.name} ended with {component.exit_code}\n{component.read_log()}"
            )

    async def _connect(self) -> None:
        slot = self.slot
        link = slot.link
        commands = (
            f"ip link add {link} type veth peer name eth0 netns {self._pid}",
            f"ip address add {slot.host_address}/30 dev {link}",
            f"ip link set {link} up",
        )
        for command in commands:
            await self._run(command.split())
        inside = (
            f"ip address add {slot.node_address}/30 dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {slot.host_address}",
        )
        for command in inside:
            await self.run(*command.split())
        await self.run(
            *f"iptables -t nat -A PREROUTING -d {SERVICE_IP} -p tcp --dport 443".split(),
            *f"-j DNAT --to-destination {slot.host_address}:{RELAY_PORT}".split(),
        )
        await self._run(f"ip route add {slot.pod_range} via {slot.node_address}".split())

    async def _choose_snapshotter(self) -> str:
        """Choose `overlayfs` if it works here; a container's own overlay forbids it."""
        folder = f"{node_config.NODE_FOLDER}/overlay"
        script = (
            f"cd {folder} && mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work"
            " merged && touch merged/file && umount merged"
        )
        await self.run(
            "mkdir", "-p", *(f"{folder}/{name}" for name in ("lower", "upper", "work", "merged"))
        )
        tried = await self.run("sh", "-c", script, check=False)
        return "overlayfs" if tried.returncode == 0 else "native"

    async def _start_containerd(self) -> None:
        snapshotter = await self._choose_snapshotter()
        files = self.folder / "lib" / "node"
        (files / "containerd.toml").write_text(node_config.build_containerd_config(snapshotter))
        containerd = self._start_component(
            "containerd",
            self.build_command(
                f"{node_config.RUNTIME_FOLDER}/containerd",
                f"--config={node_config.NODE_FOLDER}/containerd.toml",
            ),
        )

        async def ready() -> bool:
            self._check_running(containerd)
            version = await self._ctr("version", check=False)
            return version.returncode == 0

        await wait_until(ready, f"containerd of node {self.name}")
        if lines := [line for line in containerd.read_log().splitlines() if _is_fatal(line)]:
            raise ClusterError("\n".join(["containerd can't serve a kubelet:", *lines, *_ADVICE]))

    async def _ctr(self, *args: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        return await self.run(
            *(f"{node_config.RUNTIME_FOLDER}/ctr", f"--address={node_config.CONTAINERD_SOCKET}"),
            *("--namespace=k8s.io", *args),
            check=check,
        )

    async def import_image(self, archive: Path) -> None:
        """
        Import an archive of images, a file of the machine.

        Raises:
            ClusterError: If containerd refuses it.
        """
        await self._ctr("images", "import", str(archive))

    async def _import_images(self) -> None:
        machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
        pause = images.build_pause_layer(self._programs.pause)
        busybox = images.build_busybox_layer(binaries.BUSYBOX)
        for name, layer, command in (
            (node_config.PAUSE_IMAGE, pause, ["/pause"]),
            (BUSYBOX_IMAGE, busybox, ["sh"]),
        ):
            file = self.folder / "lib" / "node" / "image.tar"
            await asyncio.to_thread(images.write_image, file, name, layer, command, machine)
            await self.import_image(Path(node_config.NODE_FOLDER, "image.tar"))
            file.unlink()

    def _build_kubelet_command(self) -> list[str]:
        sysctls = " ".join(path for path in node_config.MACHINE_SYSCTLS)
        script = (
            "mount --make-rprivate /proc; "
            f"for name in {sysctls}; do "
            f'mount --bind "{node_config.NODE_FOLDER}/sysctl/$(echo $name | tr / .)" '
            "/proc/sys/$name || exit 1; "
            'done; exec "$@"'
        )
        return [
            *("unshare", "--mount", "--propagation=unchanged", "sh", "-c", script, "kubelet"),
            f"{node_config.NODE_FOLDER}/bin/kubelet/kubelet",
            f"--config={node_config.NODE_FOLDER}/kubelet.json",
            f"--kubeconfig={node_config.NODE_FOLDER}/kubeconfig",
            "--cert-dir=/var/lib/kubelet/pki",
            f"--hostname-override={self.name}",
            f"--node-ip={self.slot.node_address}",
        ]

    async def _wait_node_ready(self) -> None:
        async def ready() -> bool:
            self._check_running(self.kubelet)
            node = await self._cluster.kubectl(
                "get", "node", self.name, "--ignore-not-found", "-o", "json"
            )
            return bool(node.stdout.strip()) and _is_ready(node.json())

        try:
            await wait_until(
                ready, f"node {self.name} Ready", timeout_seconds=_START_TIMEOUT_SECONDS
            )
        except ClusterError as error:
            raise ClusterError(f"{error}\n{self.kubelet.read_log()}") from error

    async def wait_pods_known(self) -> None:
        """
        Wait until the kubelet, started again, knows its pods; there must be some.

        Raises:
            ClusterError: If it ends or doesn't in time.
        """
        path = f"/api/v1/nodes/{self.name}/proxy/pods"

        async def known() -> bool:
            self._check_running(self.kubelet)
            answer = await self._cluster.kubectl("get", "--raw", path, check=False)
            return answer.returncode == 0 and bool(answer.json()["items"])

        await wait_until(known, f"pods of node {self.name} known")

    def build_command(self, *argv: str) -> list[str]:
        """Build the command that runs a program inside the node."""
        return [
            *("/usr/bin/nsenter", f"--target={self._pid}", "--mount", "--net", "--pid", "--"),
            *argv,
        ]

    async def run(self, *argv: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """
        Run a program inside the node, to its end.

        Raises:
            ClusterError: If it fails.
        """
        return await self._run(self.build_command(*argv), check=check)

    async def _run(
        self, argv: list[str], *, check: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        done = await asyncio.to_thread(
            subprocess.run,
            argv,
            capture_output=True,
            text=True,
            check=False,
            timeout=_START_TIMEOUT_SECONDS,
            env={"PATH": _PATH},
        )
        if check and done.returncode != 0:
            raise ClusterError(f"{' '.join(argv)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    async def stop(self) -> None:
        """Stop the node and remove what it had of the machine; harmless if it's stopped."""
        slot, self._slot = self._slot, None
        if slot is None:
            return
        try:
            for name in ("kubelet", "containerd", "init", "relay"):
                if (component := self._components.pop(name, None)) is not None:
                    await component.stop()
            self._pid = None
        finally:
            await asyncio.to_thread(slot.close)
            await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)


def _is_fatal(line: str) -> bool:
    """Whether a line of containerd's log says that a part of it is missing that kubelets need."""
    return "failed to load plugin" in line and "io.containerd.grpc.v1.cri" in line


def _is_ready(node: Mapping[str, Any]) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node.get("status", {}).get("conditions", ())
    )
