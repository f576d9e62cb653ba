"""The charts installed by Helm, and the process run with what they made."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.charts.rendering import HOME, LEAST, REMOTE, merge
from tests.cluster.cluster import Cluster
from tests.cluster.components import AUDITED_NAMESPACE
from tests.cluster.helm import run_helm
from tests.cluster.kubectl import Completed
from tests.cluster.mapping.pool import run_command
from tests.cluster.peering import Vkubelet
from tests.cluster.product.cloud import get
from tests.cluster.waiting import wait_until

NAMESPACE = AUDITED_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """
    Both charts of a peering.

    Attributes:
        home: The home cluster.
        remote: The remote cluster.
        peering: Its name, which names everything.
        values: Of the home chart.
    """

    home: Cluster
    remote: Cluster
    peering: str
    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the home chart's objects."""
        return f"vkubelet-{self.peering}"

    @property
    def remote_name(self) -> str:
        """Name of the remote chart's objects."""
        return f"vkubelet-remote-{self.peering}"

    @property
    def remote_kubeconfig(self) -> Path:
        """The file that stands for the mounted Secret."""
        return self.home.folder / f"{self.peering}-remote" / "kubeconfig"

    def account_kubeconfig(self, suffix: str = "") -> Path:
        """Kubeconfig of a service account of the home chart."""
        return self.home.folder / f"{self.name}{suffix}.kubeconfig"

    async def install_remote(self, *more: str) -> None:
        """Install the remote chart."""
        await run_helm(
            "install",
            f"remote-{self.peering}",
            str(REMOTE),
            f"--namespace={NAMESPACE}",
            "--create-namespace",
            f"--set={','.join((f'peering={self.peering}', *more))}",
            cluster=self.remote,
        )

    async def install(self, *, check: bool = True, release: str = "") -> Completed:
        """Install the home chart."""
        return await run_helm(
            "install",
            release or self.peering,
            str(HOME),
            f"--namespace={NAMESPACE}",
            "--create-namespace",
            "--values=-",
            cluster=self.home,
            stdin=yaml.safe_dump(dict(self.values)),
            check=check,
        )

    async def upgrade(self, values: Mapping[str, Any]) -> None:
        """Upgrade the home chart's release."""
        await run_helm(
            "upgrade",
            self.peering,
            str(HOME),
            f"--namespace={NAMESPACE}",
            "--values=-",
            cluster=self.home,
            stdin=yaml.safe_dump(merge(self.values, values)),
        )

    async def uninstall(self) -> None:
        """Uninstall both; nothing of the cluster's kubelets is waited for."""
        for cluster, release in (
            (self.home, self.peering),
            (self.remote, f"remote-{self.peering}"),
        ):
            await run_helm(
                "uninstall",
                release,
                f"--namespace={NAMESPACE}",
                "--ignore-not-found",
                "--no-hooks",
                cluster=cluster,
            )

    async def make_kubeconfigs(self) -> None:
        """Make the kubeconfigs of the process, by the product itself."""
        await self.rotate()
        await make_kubeconfig(self.home, self.name, self.account_kubeconfig())

    async def rotate(self) -> None:
        """Make the remote kubeconfig (anew)."""
        secret = f"--bound-secret={self.remote_name}-access"
        await make_kubeconfig(self.remote, self.remote_name, self.remote_kubeconfig, secret)

    async def end_token(self) -> None:
        """End the remote token that is in use, and wait until the API server has forgotten it."""
        secret = f"{self.remote_name}-access"
        found = await get(self.remote, "secret", secret, f"-n={NAMESPACE}")
        await self.remote.kubectl("delete", "secret", secret, f"-n={NAMESPACE}")
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            del found["metadata"][field]
        await self.remote.kubectl(
            "apply", "--filename=-", stdin=msgspec.json.encode(found).decode()
        )

        async def refused() -> bool:
            done = await self.remote.kubectl(
                "get", "nodes", kubeconfig=self.remote_kubeconfig, check=False
            )
            return "Unauthorized" in done.stderr

        # It remembers for ten seconds which tokens are good.
        await wait_until(refused, "the old token is worth nothing", timeout_seconds=20)

    async def read_configuration(self) -> Path:
        """Read the configuration that the pod would have mounted."""
        found = await self.home.kubectl(
            "get", "configmap", self.name, f"--namespace={NAMESPACE}", "--output=json"
        )
        file = self.home.folder / f"{self.name}.config.yaml"
        file.write_text(found.json()["data"]["config.yaml"])
        return file

    async def build_process(self) -> Vkubelet:
        """Build the process as the Deployment would run it, but for where files are."""
        process = Vkubelet(self.home, self.remote, remote_cluster=self.peering)
        flags = [
            f"--config={await self.read_configuration()}",
            f"--kubeconfig={self.account_kubeconfig()}",
            f"--remote-kubeconfig={self.remote_kubeconfig}",
            f"--system-namespace={NAMESPACE}",
        ]
        kept = ("--kubelet-address", "--health-address", "--data-dir")
        process.arguments = [
            *flags,
            *(argument for argument in process.arguments if argument.startswith(kept)),
        ]
        return process

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Vkubelet]:
        """Run the process until the end of the context; ready when entered."""
        process = await self.build_process()
        try:
            process.start()
            await process.wait_ready()
            yield process
        finally:
            await process.stop()


async def make_kubeconfig(
    cluster: Cluster, account: str, out: Path, *more: str, namespace: str = NAMESPACE
) -> None:
    """Have the product make a kubeconfig of a service account of the release's namespace."""
    code, output = await run_command(
        "kubeconfig",
        f"--kubeconfig={cluster.admin_kubeconfig}",
        f"--service-account={namespace}/{account}",
        f"--out={out}",
        "--duration=1h",
        *more,
    )
    assert code == 0, output


def build_values(
    peering: str, namespaces: Sequence[str], more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Build the home chart's values."""
    config = {
        "remote": {"cluster": peering},
        "namespaces": {"names": list(namespaces)},
        "kubelet": {"approveCsr": True, "ports": "23600-23699"},
    }
    base = merge(LEAST, {"config": config, "remoteKubeconfig": {"secretName": peering}})
    return merge(base, more or {})


@contextlib.asynccontextmanager
async def installed(
    home: Cluster,
    remote: Cluster,
    peering: str,
    namespaces: Sequence[str],
    more: Mapping[str, Any] | None = None,
) -> AsyncIterator[Installation]:
    """Have both charts installed until the end of the context."""
    values = build_values(peering, namespaces, more)
    installation = Installation(home=home, remote=remote, peering=peering, values=values)
    try:
        async with asyncio.TaskGroup() as installing:
            installing.create_task(installation.install_remote())
            installing.create_task(installation.install())
        await installation.make_kubeconfigs()
        yield installation
    finally:
        await installation.uninstall()
