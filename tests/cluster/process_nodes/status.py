"""A pod's status, computed from its containers as the kubelet does."""

from collections.abc import Sequence
from datetime import datetime

from tests.cluster.process_nodes.containers import Container, Instance
from vkubelet.kube.objects import KubeObject


def format_time(time: datetime) -> str:
    """Write a time as the API does."""
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def compute_phase(
    init: Sequence[Container], containers: Sequence[Container], restart_policy: str
) -> str:
    """Compute the phase; a container that waits for its restart counts as stopped."""
    if failed_init(init) and restart_policy == "Never":
        return "Failed"
    if not initialized(init) or any(not c.current and not c.previous for c in containers):
        return "Pending"
    codes = [_last_code(container) for container in containers]
    if restart_policy == "Always" or None in codes:
        return "Running"
    if not any(codes):
        return "Succeeded"
    return "Failed" if restart_policy == "Never" else "Running"


def initialized(init: Sequence[Container]) -> bool:
    """Whether all init containers have ended well."""
    return all(c.current and c.current.exit_code == 0 for c in init)


def failed_init(init: Sequence[Container]) -> bool:
    """Whether an init container's last end was a failure."""
    return any(_last_code(container) for container in init)


def build_container_status(container: Container, *, init: bool = False) -> KubeObject:
    """Build an entry of status.containerStatuses or initContainerStatuses."""
    current, previous = container.current, container.previous
    last = current or previous
    identity = last.identity if last else ""
    running = container.running is not None
    done = init and current is not None and current.exit_code == 0
    return {
        "name": container.spec.name,
        "image": container.spec.image,
        "imageID": f"process://{container.spec.image}" if identity else "",
        "containerID": f"process://{identity}" if identity else "",
        "ready": done if init else running,
        "started": running,
        "restartCount": container.restart_count,
        "state": _build_state(container),
        "lastState": {"terminated": _build_terminated(previous)} if previous else {},
    }


def build_conditions(
    init: Sequence[Container],
    containers: Sequence[Container],
    phase: str,
) -> list[KubeObject]:
    """Build the conditions that are a kubelet's; their times are the pod controller's."""
    not_ready = [c.spec.name for c in containers if not c.running]
    incomplete = [c.spec.name for c in init if not (c.current and c.current.exit_code == 0)]
    ended = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase)
    unready: KubeObject = {}
    if ended:
        unready = {"reason": ended}
    elif not_ready:
        unready = {
            "reason": "ContainersNotReady",
            "message": f"containers with unready status: [{' '.join(not_ready)}]",
        }
    uninitialized: KubeObject = {}
    if phase == "Succeeded":
        uninitialized = {"reason": "PodCompleted"}
    elif incomplete:
        uninitialized = {
            "reason": "ContainersNotInitialized",
            "message": f"containers with incomplete status: [{' '.join(incomplete)}]",
        }
    return [
        {"type": kind, "status": "True" if status else "False", **why}
        for kind, status, why in (
            ("PodReadyToStartContainers", not ended, {}),
            ("Initialized", not incomplete, uninitialized),
            ("ContainersReady", not unready, unready),
            ("Ready", not unready, unready),
        )
    ]


def _last_code(container: Container) -> int | None:
    last = container.current or container.previous
    return last.exit_code if last else None


def _build_state(container: Container) -> KubeObject:
    if container.current is None:
        waiting = {"reason": container.waiting.reason}
        if container.waiting.message:
            waiting["message"] = container.waiting.message
        return {"waiting": waiting}
    if container.running:
        return {"running": {"startedAt": format_time(container.current.started_at)}}
    return {"terminated": _build_terminated(container.current)}


def _build_terminated(instance: Instance) -> KubeObject:
    assert instance.finished_at is not None
    assert instance.exit_code is not None
    terminated: KubeObject = {
        "containerID": f"process://{instance.identity}",
        "exitCode": instance.exit_code,
        "reason": instance.reason,
        "startedAt": format_time(instance.started_at),
        "finishedAt": format_time(instance.finished_at),
    }
    if instance.message:
        terminated["message"] = instance.message
    return terminated
