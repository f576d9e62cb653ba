"""What the product tests share: the remote nodes, pods, and looks at both sides."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.cluster.cluster import Cluster
from tests.cluster.waiting import wait_until

NODE = "cloud"
CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "20"}
PHYSICAL_NODES: Sequence[Mapping[str, Any]] = (
    {
        "name": "control-plane",
        "taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
        "capacity": CAPACITY,
    },
    {"name": "ssd-1", "labels": {"disktype": "ssd"}, "capacity": CAPACITY},
    {"name": "ssd-2", "labels": {"disktype": "ssd"}, "capacity": CAPACITY},
    {"name": "hdd-1", "labels": {"disktype": "hdd"}, "capacity": CAPACITY},
)
HOME_POD_UID = "vkubelet.io/home-pod-uid"


def build_pod(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """
    Build a pod that tolerates the virtual node; it sleeps unless told otherwise.

    It chooses the peering: Nodes that other ones left behind would attract it, too.
    """
    command = spec.pop("command", ["sh", "-c", "echo started; exec sleep 3600"])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "nodeSelector": {"vkubelet.io/peering": NODE},
            "tolerations": [{"key": "virtual-kubelet.io/provider", "operator": "Exists"}],
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "any", "command": command}],
            **spec,
        },
    }


async def create(cluster: Cluster, *objects: Mapping[str, Any]) -> None:
    """Create objects with kubectl."""
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects}).decode()
    await cluster.kubectl("create", "-f", "-", stdin=text)


async def get_pod(cluster: Cluster, name: str, namespace: str) -> dict[str, Any]:
    """Read a pod; empty if it isn't there."""
    return await get(cluster, "pod", name, f"--namespace={namespace}")


async def get(cluster: Cluster, kind: str, name: str, *args: str) -> dict[str, Any]:
    """Read an object; empty if it isn't there."""
    completed = await cluster.kubectl("get", kind, name, *args, "--ignore-not-found", "-o", "json")
    return dict(completed.json()) if completed.stdout.strip() else {}


async def find_remote_pods(remote: Cluster, home_pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Find the remote pods of a home pod, by our label."""
    selector = f"--selector={HOME_POD_UID}={home_pod['metadata']['uid']}"
    completed = await remote.kubectl("get", "pods", "-A", selector, "-o", "json")
    return list(completed.json()["items"])


def condition_of(obj: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return a condition of an object's status; empty if it has none of that type."""
    conditions = obj.get("status", {}).get("conditions", ())
    return next((dict(item) for item in conditions if item["type"] == kind), {})


async def wait_pod(
    cluster: Cluster, name: str, namespace: str, what: str, *, phase: str, seconds: float = 30
) -> dict[str, Any]:
    """Wait until a pod is in a phase (and Ready, for Running), and return it."""
    found: dict[str, Any] = {}

    async def there() -> bool:
        nonlocal found
        found = await get_pod(cluster, name, namespace)
        if found.get("status", {}).get("phase") != phase:
            return False
        return phase != "Running" or condition_of(found, "Ready").get("status") == "True"

    await wait_until(there, f"{what}: {phase}", timeout_seconds=seconds)
    return found


async def wait_gone(cluster: Cluster, name: str, namespace: str, *, seconds: float = 30) -> None:
    """Wait until a pod isn't there."""

    async def gone() -> bool:
        return not await get_pod(cluster, name, namespace)

    await wait_until(gone, f"pod {namespace}/{name} gone", timeout_seconds=seconds)


async def run_pod(
    home: Cluster, name: str, namespace: str, *, seconds: float = 30, **spec: Any
) -> dict[str, Any]:
    """Create a pod for the virtual node and wait until it's Running and Ready."""
    await create(home, build_pod(name, namespace, **spec))
    return await wait_pod(home, name, namespace, f"pod {name}", phase="Running", seconds=seconds)
