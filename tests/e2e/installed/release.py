"""The charts installed for real: the process is a pod, and reaches both API servers as pods do."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.charts import installation
from tests.cluster.charts.installation import NAMESPACE, Installation
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.helm import run_helm
from tests.cluster.kubectl import Completed
from tests.cluster.mapping.pool import run_command
from tests.cluster.product.cloud import build_pod
from tests.cluster.waiting import wait_until
from tests.e2e.pods import build_container
from tests.e2e.real_node import BUSYBOX_IMAGE, RELAY_PORT

PEERING = "far"
ROLLOUT_SECONDS = 60.0
Trace = Mapping[str, Sequence[tuple[str, str, int]]]
"""Containers of remote pods by the pods' UIDs: name, ID, restarts."""


def build_values(peering: str, namespace: str) -> dict[str, Any]:
    """Build the home chart's values: node by node."""
    config = {"nodes": {"mapping": "per-node"}, "kubelet": {"ports": "10250-10259"}}
    test = {"image": BUSYBOX_IMAGE, "command": ["echo", "it's here"]}
    return installation.build_values(peering, [namespace], {"config": config, "test": test})


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Installation):
    """
    Both charts of a peering, with a Secret that has the remote kubeconfig.

    Attributes:
        remote_address: Where pods reach the remote API server.
    """

    remote_address: str

    async def rotate(self) -> None:
        """Make a remote kubeconfig for pods (anew), and put it into the Secret."""
        code, output = await run_command(
            "kubeconfig",
            f"--kubeconfig={self._write_admin()}",
            f"--service-account={NAMESPACE}/{self.remote_name}",
            f"--bound-secret={self.remote_name}-access",
            f"--out={self.remote_kubeconfig}",
            "--duration=1h",
        )
        assert code == 0, output
        await self._ensure_namespace()
        secret = await self.home.kubectl(
            *("create", "secret", "generic", self.peering, f"--namespace={NAMESPACE}"),
            *(f"--from-file=kubeconfig={self.remote_kubeconfig}", "--dry-run=client", "-o=yaml"),
        )
        await self.home.kubectl("apply", "-f", "-", stdin=secret.stdout)

    def _write_admin(self) -> Path:
        """Write an admin's kubeconfig by the address that pods use."""
        config = json.loads(self.remote.admin_kubeconfig.read_text())
        config["clusters"][0]["cluster"] |= {
            "server": f"https://{self.remote_address}:{RELAY_PORT}",
            "tls-server-name": "127.0.0.1",
        }
        file = self.remote.folder / "admin-for-pods.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(config))
        return file

    async def _ensure_namespace(self) -> None:
        text = json.dumps(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        await self.home.kubectl("apply", "-f", "-", stdin=text)

    async def change(self, values: Mapping[str, Any]) -> None:
        """Upgrade the home chart's release, with some values changed, and wait for the process."""
        await self.upgrade(values)
        await self.wait_rolled_out()

    async def roll_back(self) -> None:
        """Take the last upgrade back, and wait for the process."""
        await run_helm("rollback", self.peering, f"--namespace={NAMESPACE}", cluster=self.home)
        await self.wait_rolled_out()

    async def run_test(self) -> Completed:
        """Run `helm test`."""
        return await run_helm(
            *("test", self.peering, f"--namespace={NAMESPACE}", "--logs"), cluster=self.home
        )

    async def wait_rolled_out(self) -> None:
        """
        Wait until the Deployment's only pod is ready.

        Raises:
            ClusterError: If it isn't in time; it has the log of the process.
        """
        try:
            await self.home.kubectl(
                *("rollout", "status", f"deployment/{self.name}", f"--namespace={NAMESPACE}"),
                f"--timeout={ROLLOUT_SECONDS:g}s",
                timeout=ROLLOUT_SECONDS + 10,
            )
        except ClusterError as error:
            described = await self.home.kubectl("describe", "pods", f"--namespace={NAMESPACE}")
            log = await self.read_log("--tail=30")
            raise ClusterError(f"{error}\n{described.stdout[-3000:]}\n{log}") from error

    async def read_log(self, *args: str) -> str:
        """Read the log of the process."""
        log = await self.home.kubectl(
            *("logs", f"deployment/{self.name}", f"--namespace={NAMESPACE}", *args), check=False
        )
        return log.stdout + log.stderr

    async def run_inside(self, *command: str, check: bool = True) -> Completed:
        """Run a program in the container of the process."""
        return await self.home.kubectl(
            *("exec", f"deployment/{self.name}", f"--namespace={NAMESPACE}", "--", *command),
            check=check,
        )

    async def find_process(self) -> dict[str, Any]:
        """Find the pod of the process that isn't being deleted."""
        listed = await self.home.kubectl(
            *("get", "pods", f"--namespace={NAMESPACE}", "-o=json"),
            f"--selector=app.kubernetes.io/instance={self.peering}",
        )
        (pod,) = (
            pod for pod in listed.json()["items"] if "deletionTimestamp" not in pod["metadata"]
        )
        return dict(pod)

    async def wait_other_process(self, old: Mapping[str, Any]) -> dict[str, Any]:
        """Wait until another pod than this one is the process, and ready; return it."""

        async def replaced() -> bool:
            try:
                found = await self.find_process()
            except ValueError:  # none yet
                return False
            return bool(found["metadata"]["uid"] != old["metadata"]["uid"])

        await wait_until(replaced, "another pod", timeout_seconds=ROLLOUT_SECONDS)
        await self.wait_rolled_out()
        return await self.find_process()


def build_far_pod(
    name: str, namespace: str, *, node: str = "", script: str = "", peering: str = PEERING
) -> dict[str, Any]:
    """Build a pod for a peering, or for one of its virtual nodes."""
    selector = {"vkubelet.io/peering": peering}
    if node:
        selector["kubernetes.io/hostname"] = node
    command = ["sh", "-c", script or "echo started; exec sleep 3600"]
    return build_pod(
        name, namespace, nodeSelector=selector, containers=[build_container("main", command)]
    )


async def trace(remote: Cluster, app: str) -> Trace:
    """Look at the containers of the remote pods that have this label."""
    selector = f"--selector=vkubelet.io/peering={PEERING},app={app}"
    listed = await remote.kubectl("get", "pods", "-A", selector, "-o=json")
    return {
        pod["metadata"]["uid"]: [
            (status["name"], status.get("containerID", ""), status["restartCount"])
            for status in pod["status"].get("containerStatuses", ())
        ]
        for pod in listed.json()["items"]
    }
