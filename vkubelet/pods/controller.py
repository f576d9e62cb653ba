"""Pods of our nodes: both sides feed one queue, from which each pod is brought a step further."""

import asyncio
import logging
import math
from collections.abc import Callable, Collection
from datetime import datetime
from typing import NoReturn, assert_never

from vkubelet.config import KubeletPolicy
from vkubelet.interface import (
    Gone,
    PodEvent,
    PodRef,
    PodStatus,
    Provider,
    Reachable,
    StatusEvent,
    Synced,
    Unblocked,
    Unreachable,
)
from vkubelet.kube.client import KubeClient
from vkubelet.kube.events import EventRecorder
from vkubelet.kube.objects import KubeObject, NamespacedName
from vkubelet.kube.workqueue import WorkQueue
from vkubelet.pods import status
from vkubelet.pods.decide import HomeFacts, Step, Stuck, decide
from vkubelet.pods.executor import Case, Executor
from vkubelet.pods.home import HomePod, HomePods, kind_of
from vkubelet.pods.lags import PodLags
from vkubelet.pods.memory import Behind, PodMemory, remember_status
from vkubelet.pods.namespaces import ReflectedNamespaces
from vkubelet.supervision import run_component
from vkubelet.times import utc_now

logger = logging.getLogger(__name__)


class PodController:
    """
    Keeps what is behind in step with the home pods, and their statuses in step with what is behind.

    Nothing is decided before both sides are synced, nor while what is behind can't be reached.
    """

    def __init__(
        self,
        provider: Provider,
        client: KubeClient,
        home: HomePods,
        events: EventRecorder,
        policy: KubeletPolicy,
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._home = home
        self._policy = policy
        self._namespaces = ReflectedNamespaces(client, policy.namespaces)
        self._events = events
        self._executor = Executor(provider, client, events, policy, now)
        self._queue: WorkQueue[NamespacedName] = WorkQueue("pods", share_of=self._share_of)
        self._behind: dict[NamespacedName, Behind] = {}
        self._memories: dict[NamespacedName, PodMemory] = {}
        self._caused: set[NamespacedName] = set()  # queued for more than what home's watch shows
        self._home_synced = False
        self._provider_synced = False
        self._reachable = True
        self._leaving: frozenset[str] = frozenset()
        self._synced = asyncio.Event()
        self._lags = PodLags()
        home.add_handler(self._lags.note_pod)
        home.add_handler(self._handle_home_pod)
        self._namespaces.add_handler(self._add_namespace)

    @property
    def synced(self) -> bool:
        """Whether both sides have been complete once."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until both sides have been complete once."""
        await self._synced.wait()

    def handle_status(self, event: StatusEvent) -> None:
        """Take in what the provider tells."""
        match event:
            case PodStatus():
                self._handle_pod_status(event)
            case Gone(ref):
                self._handle_gone(ref)
            case Synced():
                self._provider_synced = True
                self._check_synced()
            case Unreachable(message):
                if self._reachable:
                    logger.warning(
                        "pods: nothing is decided, what is behind is out of reach: %s", message
                    )
                self._reachable = False
            case Reachable():
                if not self._reachable:
                    self._reachable = True
                    self._add_all()
            case Unblocked(ref):
                self._handle_unblocked(ref)
            case PodEvent():
                self._handle_event(event)
            case _:
                assert_never(event)

    def set_leaving(self, nodes: Collection[str]) -> None:
        """
        Tell which nodes are being removed.

        Their pods are shown as they are, and their deletions finished; none is made or changed.
        """
        leaving = frozenset(nodes)
        changed, self._leaving = leaving ^ self._leaving, leaving
        for node in changed:
            for pod in self._home.on_node(node):
                self._add(pod.metadata.key)

    async def run(self) -> NoReturn:
        """Work on pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(
                run_component("namespaces", self._namespaces.run), name="reflected-namespaces"
            )
            await self._home.wait_synced()
            await self._namespaces.wait_synced()
            self._home_synced = True
            self._check_synced()
            await self._queue.run(self._reconcile, workers=self._policy.pod_workers)
        raise AssertionError("the queue runs until it's cancelled")

    def _share_of(self, key: NamespacedName) -> tuple[str, str]:
        """Node and namespace: neither keeps another waiting that has less to do."""
        pod = self._home.get(key)
        return "" if pod is None else pod.node, key.namespace

    @property
    def _decidable(self) -> bool:
        return self._home_synced and self._provider_synced and self._reachable

    def _check_synced(self) -> None:
        if self._home_synced and self._provider_synced:
            self._synced.set()
            self._add_all()

    def _add(self, key: NamespacedName) -> None:
        if self._decidable:  # else all keys are added when it is
            self._caused.add(key)
            self._queue.add(key)

    def _handle_home_pod(self, key: NamespacedName) -> None:
        if self._decidable:
            self._queue.add(key)

    def _add_all(self) -> None:
        """Have every pod looked at, deletions first."""
        if not self._decidable:
            return
        pods = {pod.metadata.key: pod for pod in self._home}
        orphans = [key for key in self._behind if key not in pods]
        deleting = [key for key, pod in pods.items() if pod.metadata.deletion_timestamp]
        for key in (*deleting, *orphans, *pods, *self._memories):
            self._add(key)

    def _add_namespace(self, namespace: str) -> None:
        for pod in self._home:
            if pod.metadata.namespace == namespace:
                self._add(pod.metadata.key)

    def _handle_pod_status(self, event: PodStatus) -> None:
        key = event.ref.key
        known, told = self._behind.get(key), remember_status(event)
        if told == known:
            return
        self._behind[key] = told
        memory = self._memories.get(key)
        if memory is not None and memory.uid == event.ref.uid:
            memory.remains = None
        self._lags.note_status(key)
        self._add(key)

    def _handle_gone(self, ref: PodRef) -> None:
        memory = self._memories.get(ref.key)
        known = self._behind.get(ref.key)
        if known is not None and known.ref.uid == ref.uid:
            del self._behind[ref.key]
            if known.started:
                memory = memory or self._memories.setdefault(ref.key, PodMemory(ref.uid))
                if memory.uid == ref.uid:
                    memory.remains = known
        if memory is not None:
            memory.note_gone(ref.uid, asyncio.get_running_loop().time())
        self._add(ref.key)

    def _handle_unblocked(self, ref: PodRef) -> None:
        memory = self._memories.get(ref.key)
        if memory is not None and memory.uid == ref.uid:
            memory.refused = memory.applied = None
            memory.refusals = max(0, memory.refusals - 1)  # its back-off stays as it is
        self._add(ref.key)

    def _handle_event(self, event: PodEvent) -> None:
        """Show an event on the home pod, if it's still there."""
        pod = self._home.get(event.ref.key)
        if pod is None or pod.metadata.uid != event.ref.uid:
            return
        self._events.copy_nowait(
            pod.decode(),
            identity=event.identity,
            type=event.type,
            reason=event.reason,
            message=event.message,
            count=event.count,
            first_time=event.first_time,
            last_time=event.last_time,
            component=event.component,
            host=event.host,
        )

    async def _reconcile(self, key: NamespacedName) -> float | None:
        """Look at both sides of a pod and take one step."""
        if not self._decidable:
            return None
        caused = key in self._caused
        self._caused.discard(key)
        pod, behind = self._home.get(key), self._behind.get(key)
        memory = self._recall(key, pod, behind)
        now = asyncio.get_running_loop().time()
        if not caused and memory.is_settled(pod, now):
            self._lags.finish(key, created=False, written=False)
            return memory.wake_at - now if memory.wake_at < math.inf else None
        try:
            again = await self._take_step(key, pod, behind, memory)
        except BaseException:
            self._caused.add(key)
            raise
        memory.settle(pod, math.inf if again is None else now + again)
        return again

    async def _take_step(
        self,
        key: NamespacedName,
        pod: HomePod | None,
        behind: Behind | None,
        memory: PodMemory,
    ) -> float | None:
        pod = _newest(pod, memory)
        home = pod.decode() if pod is not None else {}
        behind = behind or _untold_end(home, memory)
        case = Case(pod, home, behind, memory)
        facts = None if pod is None else self._facts(pod, case.home, memory)
        now = asyncio.get_running_loop().time()
        self._note_stuck(case, now)
        action = decide(
            facts,
            None if behind is None else behind.facts,
            memory.past(now),
            daemonset_pods=self._policy.daemonset_pods,
        )
        if action is Step.FORGET:
            self._memories.pop(key, None)
            self._lags.finish(key, created=False, written=False)
            return None
        overlay = memory.overlay
        again = await self._executor.execute(action, case)
        self._lags.finish(
            key,
            created=action is Step.APPLY and behind is None and memory.applied is not None,
            written=memory.overlay is not overlay,
            waiting=action is Step.APPLY and memory.applied is None,
        )
        return again

    def _note_stuck(self, case: Case, now: float) -> None:
        """Have the time run of a pod that no place is found for, or that somebody else deletes."""
        mine, memory = case.mine, case.memory
        if case.pod is None or mine is None:
            memory.note_stuck(None, None, now)
        elif mine.terminal and not status.always_restarts(case.home):
            memory.note_stuck(None, None, now)  # its end is the pod's end
        elif mine.deleting and memory.asked_uid != mine.ref.uid:
            memory.note_stuck(Stuck.DELETED, self._policy.lost_timeout_seconds, now)
        elif mine.unschedulable and not mine.deleting:
            timeout = self._policy.unschedulable_timeout_seconds
            memory.note_stuck(Stuck.UNSCHEDULABLE, timeout, now)
        else:
            memory.note_stuck(None, None, now)

    def _recall(self, key: NamespacedName, pod: HomePod | None, behind: Behind | None) -> PodMemory:
        """The memory of that pod; another pod of the name keeps only the deletion under way."""
        memory = self._memories.get(key)
        uid = pod.metadata.uid if pod is not None else behind.ref.uid if behind is not None else ""
        if memory is None or (uid and memory.uid != uid):
            fresh = PodMemory(uid)
            if memory is not None:
                fresh.asked_uid, fresh.asked_at = memory.asked_uid, memory.asked_at
                fresh.asked_grace_seconds = memory.asked_grace_seconds
            memory = self._memories[key] = fresh
        return memory

    def _facts(self, pod: HomePod, home: KubeObject, memory: PodMemory) -> HomeFacts:
        metadata = pod.metadata
        deleting = metadata.deletion_timestamp is not None
        terminal = status.is_terminal(home)
        ended = terminal and deleting and metadata.deletion_grace_period_seconds == 0
        return HomeFacts(
            ref=PodRef(metadata.namespace, metadata.name, metadata.uid),
            kind=kind_of(pod),
            digest=pod.digest,
            reflected=self._namespaces.reflects(metadata.namespace),
            leaving=pod.node in self._leaving,
            deleting=deleting,
            grace_seconds=metadata.deletion_grace_period_seconds,
            finalised=memory.finalised or ended,
            terminal=terminal,
            started=memory.remains is not None or status.has_started(home),
            restarts=status.always_restarts(home),
        )


def _newest(pod: HomePod | None, memory: PodMemory) -> HomePod | None:
    """The pod as our last write left it, while the Store still has the one from before."""
    overlay = memory.overlay
    if pod is not None and overlay is not None and overlay.base == pod.metadata.resource_version:
        return overlay.pod
    memory.overlay = None
    return pod


def _untold_end(home: KubeObject, memory: PodMemory) -> Behind | None:
    """What was behind, if it ended for good and is gone before home could be told of its end."""
    remains = memory.remains
    if remains is None or not remains.terminal or not home or status.always_restarts(home):
        return None
    untold = not status.is_terminal(home) and not home["metadata"].get("deletionTimestamp")
    return remains if untold else None
