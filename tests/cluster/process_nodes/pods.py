"""A pod on a process node, from its start until what it ran is gone."""

import asyncio
import shutil
import signal
from collections.abc import Callable
from datetime import UTC, datetime

from tests.cluster.process_nodes.containers import Container, Waiting
from tests.cluster.process_nodes.spec import ContainerSpec, Placement, build_container_specs
from tests.cluster.process_nodes.status import (
    build_conditions,
    build_container_status,
    compute_phase,
    format_time,
)
from vkubelet.errors import RequestError
from vkubelet.interface import PodRef, PodStatus
from vkubelet.kube.objects import KubeObject

_DEFAULT_GRACE_SECONDS = 30


class ProcessPod:
    """
    A pod whose containers are child processes.

    Attributes:
        ref: The home pod.
        start_time: When it was accepted.
    """

    def __init__(
        self,
        ref: PodRef,
        pod: KubeObject,
        placement: Placement,
        *,
        marker_prefix: str,
        backoff_seconds: float,
        publish: Callable[["ProcessPod"], None],
    ) -> None:
        self.ref = ref
        self._placement = placement
        self._publish = publish
        self._restart_policy: str = pod["spec"].get("restartPolicy", "Always")
        self._grace_seconds: float = pod["spec"].get(
            "terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS
        )
        self._generation: int | None = pod["metadata"].get("generation")
        self._stopping = asyncio.Event()
        self._deletion_time: datetime | None = None
        self._kill_timer: asyncio.TimerHandle | None = None
        self.start_time = datetime.now(UTC)

        def build(spec: ContainerSpec) -> Container:
            return Container(
                spec,
                pod_name=f"{ref.name}_{ref.namespace}({ref.uid})",
                marker_prefix=marker_prefix,
                backoff_seconds=backoff_seconds,
                stopping=self._stopping,
                publish=lambda: publish(self),
            )

        init, containers = build_container_specs(pod, placement)
        self._init = [build(spec) for spec in init]
        self._containers = [build(spec) for spec in containers]
        if init:
            for container in self._init[1:] + self._containers:
                container.waiting = Waiting("PodInitializing")

    async def run(self) -> None:
        """Run the containers, then wait until the pod is deleted; cancelling kills them."""
        await asyncio.to_thread(self._placement.folder.mkdir, parents=True, exist_ok=True)
        self._publish(self)
        try:
            if await self._run_init():
                async with asyncio.TaskGroup() as group:
                    for container in self._containers:
                        group.create_task(
                            container.run(self._restart_policy),
                            name=f"container {self.ref} {container.spec.name}",
                        )
            await self._stopping.wait()
        finally:
            if self._kill_timer is not None:
                self._kill_timer.cancel()
        await asyncio.to_thread(shutil.rmtree, self._placement.folder, ignore_errors=True)

    def stop(self, grace_period_seconds: float | None) -> None:
        """Send SIGTERM, and SIGKILL after the grace; another call can only shorten it."""
        grace = self._grace_seconds if grace_period_seconds is None else grace_period_seconds
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        if self._kill_timer is not None:
            deadline = min(deadline, self._kill_timer.when())
            self._kill_timer.cancel()
        self._kill_timer = loop.call_at(deadline, self._signal, signal.SIGKILL)
        if not self._stopping.is_set():
            self._stopping.set()
            self._deletion_time = datetime.now(UTC)
            self._signal(signal.SIGTERM)
            self._publish(self)

    def take_note(self, pod: KubeObject) -> None:
        """Have the status say that the pod has been seen as it is now."""
        generation = pod["metadata"].get("generation")
        if generation != self._generation:
            self._generation = generation
            self._publish(self)

    @property
    def node(self) -> str:
        """The node that it runs on."""
        return self._placement.node

    @property
    def containers(self) -> tuple[Container, ...]:
        """All containers, init containers first."""
        return (*self._init, *self._containers)

    def find_container(self, name: str) -> Container:
        """
        Find a container, init containers too.

        Raises:
            RequestError: If the pod has none of that name.
        """
        for container in self.containers:
            if container.spec.name == name:
                return container
        raise RequestError(404, f'container "{name}" not found in pod "{self.ref.name}"')

    def build_status(self) -> PodStatus:
        """Build the status as it is now."""
        # What ends while it's being stopped isn't started again, whatever the policy.
        policy = "Never" if self._stopping.is_set() else self._restart_policy
        phase = compute_phase(self._init, self._containers, policy)
        status: KubeObject = {
            "phase": phase,
            "conditions": build_conditions(self._init, self._containers, phase),
            "hostIP": self._placement.host_ip,
            "hostIPs": [{"ip": self._placement.host_ip}],
            "podIP": self._placement.pod_ip,
            "podIPs": [{"ip": self._placement.pod_ip}],
            "startTime": format_time(self.start_time),
            "containerStatuses": [build_container_status(c) for c in self._containers],
        }
        if self._init:
            status["initContainerStatuses"] = [
                build_container_status(c, init=True) for c in self._init
            ]
        deleted = self._deletion_time
        return PodStatus(
            ref=self.ref,
            node=self._placement.node,
            status=status,
            deletion_timestamp=format_time(deleted) if deleted else None,
            generation=self._generation,
        )

    async def _run_init(self) -> bool:
        policy = "Never" if self._restart_policy == "Never" else "OnFailure"
        for container in self._init:
            if await container.run(policy) or self._stopping.is_set():
                return False
        return not self._stopping.is_set()

    def _signal(self, number: signal.Signals) -> None:
        for container in (*self._init, *self._containers):
            container.signal(number)
