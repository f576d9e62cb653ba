"""
A provider that only pretends: one node, whose pods run nowhere but in its memory.

`python -m memory_nodes --kubeconfig FILE` registers the node `memory` in a cluster and serves its
kubelet API; pods that are bound to it are Running at once, log what they were asked to do, and
answer a command with its own words.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

from certs.rotation import CsrCertificates
from vkubelet.config import ALL_NAMESPACES, DaemonSetPolicy, KubeletPolicy
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
    StatusEvent,
    Synced,
    Taint,
    VirtualNode,
)
from vkubelet.kube.access import load_kubeconfig
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import KubeObject
from vkubelet.kubelet import Kubelet

NODE = VirtualNode(
    name="memory",
    labels={"type": "memory"},
    taints=(Taint(key="example.com/memory", effect="NoSchedule"),),
    capacity={"cpu": "1", "memory": "1Gi", "pods": "10"},
    allocatable={"cpu": "1", "memory": "1Gi", "pods": "10"},
    conditions=(NodeCondition(type="Ready", status="True", reason="KubeletReady"),),
)


class MemoryProvider:
    """Implements `vkubelet.interface.Provider`."""

    def __init__(self) -> None:
        self._pods: dict[str, PodStatus] = {}
        self._events: list[asyncio.Queue[StatusEvent]] = []

    async def watch_nodes(self) -> AsyncIterator[Sequence[VirtualNode]]:
        """Yield the one node; it never changes."""
        yield [NODE]
        await asyncio.Event().wait()

    async def apply_pod(self, node: str, pod: KubeObject) -> Sequence[str]:
        """Start a pod, once: later calls change nothing."""
        metadata = pod["metadata"]
        ref = PodRef(metadata["namespace"], metadata["name"], metadata["uid"])
        if ref.uid not in self._pods:
            self._pods[ref.uid] = PodStatus(ref=ref, node=node, status=_build_status(pod))
            self._tell(self._pods[ref.uid])
        return []

    async def delete_pod(self, ref: PodRef, *, grace_period_seconds: int | None) -> None:
        """End a pod at once; what isn't there is gone, too."""
        self._pods.pop(ref.uid, None)
        self._tell(Gone(ref))

    async def watch_statuses(self) -> AsyncIterator[StatusEvent]:
        """Yield what there is, Synced, then each change."""
        events: asyncio.Queue[StatusEvent] = asyncio.Queue()
        self._events.append(events)
        try:
            for status in list(self._pods.values()):
                yield status
            yield Synced()
            while True:
                yield await events.get()
        finally:
            self._events.remove(events)

    def _tell(self, event: StatusEvent) -> None:
        for events in self._events:
            events.put_nowait(event)

    async def logs(self, ref: PodRef, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield one line."""
        yield f"{container} of {ref} pretends to run\n".encode()

    async def exec(
        self,
        ref: PodRef,
        container: str,
        command: Sequence[str],
        streams: CommandStreams,
        *,
        tty: bool,
    ) -> ExitStatus:
        """Answer a command with its own words."""
        await streams.write_stdout(f"{' '.join(command)}\n".encode())
        return ExitStatus(0)

    async def attach(
        self, ref: PodRef, container: str, streams: CommandStreams, *, tty: bool
    ) -> ExitStatus:
        """Refuse: there is no process."""
        raise RequestError(400, f"container {container} of {ref} has nothing to attach to")

    def port_forward(self, ref: PodRef, port: int) -> AbstractAsyncContextManager[ByteStream]:
        """Refuse: nobody listens."""
        raise RequestError(400, f"nobody listens at port {port} of {ref}")

    async def stats(self, node: str) -> NodeUsage:
        """Know nothing."""
        return NodeUsage()


def _build_status(pod: KubeObject) -> KubeObject:
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    kinds = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [{"type": kind, "status": "True"} for kind in kinds],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod["spec"]["containers"]
        ],
    }


async def main() -> None:
    """Run the node until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--address", default="127.0.0.1", help="where API servers reach the node")
    parser.add_argument("--data-dir", type=Path, default=Path("memory-nodes"), help="its keys")
    arguments = parser.parse_args()
    policy = KubeletPolicy(
        owner_labels={"example.com/memory": "true"},
        address=arguments.address,
        namespaces=ALL_NAMESPACES,
        daemonset_pods=DaemonSetPolicy.PENDING,
        field_manager="memory-nodes",
    )
    access = await load_kubeconfig(arguments.kubeconfig, None)
    async with KubeClient(access, name="home") as home:
        certificates = CsrCertificates(
            home, arguments.data_dir, labels=policy.owner_labels, approve=True
        )
        await Kubelet(MemoryProvider(), home, certificates, policy).run()


if __name__ == "__main__":
    asyncio.run(main())
