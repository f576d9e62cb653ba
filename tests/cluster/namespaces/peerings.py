"""What these tests share: peerings of their own, pods for their nodes, looks."""

import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.peering import Vkubelet
from tests.cluster.product.cloud import build_pod, find_remote_pods, get, get_pod
from tests.cluster.waiting import wait_until

_numbers = itertools.count()


@contextlib.asynccontextmanager
async def run_peering(
    home: Cluster, remote: Cluster, name: str, *arguments: str
) -> AsyncIterator[Vkubelet]:
    """Run a peering; its virtual node has its name, and is left for the next run of that name."""
    process = Vkubelet(
        home,
        remote,
        remote_cluster=name,
        arguments=arguments,
        process_name=f"vkubelet-{name}-{next(_numbers)}",
    )
    try:
        process.start()
        await process.wait_ready()
        yield process
    finally:
        await process.stop()


def build_for(peering: str, name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """Build a pod for the virtual node of a peering."""
    return build_pod(name, namespace, nodeSelector={"vkubelet.io/peering": peering}, **spec)


def config_map(name: str, namespace: str, **data: str) -> dict[str, Any]:
    """Build a ConfigMap."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def wait_pending(home: Cluster, name: str, namespace: str, reason: str) -> str:
    """Wait until a home pod is Pending for a reason, in its status and an event; says the rest."""
    status: dict[str, Any] = {}

    async def explained() -> bool:
        nonlocal status
        status = (await get_pod(home, name, namespace)).get("status", {})
        return status.get("phase") == "Pending" and status.get("reason") == reason

    try:
        await wait_until(explained, f"pod {name} is Pending, {reason}", timeout_seconds=30)
    except Exception as error:
        error.add_note(f"its status: {status}")
        raise
    await wait_event(home, name, namespace, reason)
    return str(status["message"])


async def wait_event(home: Cluster, name: str, namespace: str, reason: str) -> str:
    """Wait for an event on a home pod, and return its message."""
    messages: list[str] = []

    async def told() -> bool:
        selector = f"--field-selector=involvedObject.name={name},reason={reason}"
        listed = await home.kubectl("get", "events", f"-n={namespace}", selector, "-o=json")
        messages[:] = [event["message"] for event in listed.json()["items"]]
        return bool(messages)

    await wait_until(told, f"event {reason} on {name}", timeout_seconds=30)
    return messages[0]


async def find_there(remote: Cluster, home_pod: Mapping[str, Any]) -> dict[str, Any]:
    """Find the remote pod of a home pod."""
    (found,) = await find_remote_pods(remote, home_pod)
    return found


async def read_labels(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Read the labels of a namespace."""
    metadata = (await get(cluster, "namespace", namespace))["metadata"]
    return dict(metadata.get("labels", {}))
