"""Does for the home chart what a kubelet would: mounts its files, and runs its process."""

import base64
from pathlib import Path

from tests.cluster.charts.installation import make_kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.peering import Vkubelet
from tests.cluster.product.cloud import get

NAMESPACE = "vkubelet"
PEERING = "cloud"
NAME = f"vkubelet-{PEERING}"


class Standin:
    """The process of the documented release, with the rights and files that its pod would have."""

    def __init__(self, home: Cluster, remote: Cluster) -> None:
        self._home = home
        self._configuration = home.folder / "standin.config.yaml"
        self._account = home.folder / "standin.kubeconfig"
        self._remote = home.folder / "standin-remote" / "kubeconfig"
        self._remote.parent.mkdir()
        self._process = Vkubelet(home, remote, remote_cluster=PEERING)
        kept = ("--kubelet-address", "--health-address", "--data-dir", "--kubelet-ports")
        self._process.arguments = [
            f"--config={self._configuration}",
            f"--kubeconfig={self._account}",
            f"--remote-kubeconfig={self._remote}",
            f"--system-namespace={NAMESPACE}",
            *(argument for argument in self._process.arguments if argument.startswith(kept)),
        ]
        self._runs = False

    async def follow(self) -> None:
        """Do what has to be done about what is there now: start, restart, stop, write files."""
        where = f"--namespace={NAMESPACE}"
        if not await get(self._home, "deployment", NAME, where):
            await self.stop()
            return
        secret = await get(self._home, "secret", PEERING, where)
        _write(self._remote, base64.b64decode(secret["data"]["kubeconfig"]))
        found = await get(self._home, "configmap", NAME, where)
        if not _write(self._configuration, found["data"]["config.yaml"].encode()) and self._runs:
            return
        await self.stop()
        await make_kubeconfig(self._home, NAME, self._account, namespace=NAMESPACE)
        self._process.start()
        self._runs = True
        await self._process.wait_ready()

    async def stop(self) -> None:
        """Stop the process, if it runs."""
        await self._process.stop()
        self._runs = False


def _write(file: Path, content: bytes) -> bool:
    """Write a file, if that changes it; return whether it does."""
    if file.exists() and file.read_bytes() == content:
        return False
    temporary = file.with_suffix(".tmp")
    temporary.write_bytes(content)
    temporary.replace(file)
    return True
