"""Pods of these tests, and what they need."""

from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.product.cloud import build_pod
from tests.cluster.waiting import wait_until

NODE = "dependents"
TAINT = "dependents.test/only"


def build(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """Build a pod for the node of these tests."""
    return build_pod(
        name,
        namespace,
        **{
            "nodeSelector": {"kubernetes.io/hostname": NODE},
            "tolerations": [{"operator": "Exists"}],
            **spec,
        },
    )


def build_container(command: str, **fields: Any) -> dict[str, Any]:
    """Build a container that runs a shell command, then sleeps."""
    return {
        "name": "main",
        "image": "any",
        "command": ["sh", "-c", f"{command}; exec sleep 3600"],
        **fields,
    }


async def wait_log(home: Cluster, pod: str, namespace: str, wanted: str) -> str:
    """Wait until a pod's log has a text, and return the log."""
    log = ""

    async def there() -> bool:
        nonlocal log
        completed = await home.kubectl("logs", pod, f"--namespace={namespace}", check=False)
        log = completed.stdout
        return wanted in log

    await wait_until(there, f"{wanted!r} in the log of {pod}", timeout_seconds=30)
    return log


async def find_events(home: Cluster, pod: str, namespace: str) -> list[dict[str, Any]]:
    """Find the events on a home pod."""
    selector = f"--field-selector=involvedObject.kind=Pod,involvedObject.name={pod}"
    completed = await home.kubectl(
        "get", "events", f"--namespace={namespace}", selector, "-o", "json"
    )
    return list(completed.json()["items"])


async def wait_reason(home: Cluster, pod: str, namespace: str, reason: str) -> dict[str, Any]:
    """Wait until an event with a reason is on a home pod, and return it."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        nonlocal found
        events = await find_events(home, pod, namespace)
        found = [event for event in events if event["reason"] == reason]
        return bool(found)

    await wait_until(there, f"event {reason} on {pod}", timeout_seconds=30)
    return found[0]
