"""Takes the steps that were decided: calls the provider, writes at home, tells by events."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, assert_never

from vkubelet.config import KubeletPolicy
from vkubelet.errors import RefusedError, RetryError
from vkubelet.interface import PodRef, Provider
from vkubelet.kube.backoff import compute_delay
from vkubelet.kube.client import KubeClient, PatchType
from vkubelet.kube.errors import (
    ConflictError,
    InvalidError,
    KubeError,
    NotFoundError,
    TooManyRequestsError,
)
from vkubelet.kube.events import EventRecorder
from vkubelet.kube.eviction import evict_pod
from vkubelet.kube.objects import PODS, KubeObject, encode_object
from vkubelet.pods import status
from vkubelet.pods.decide import Action, Delete, Evict, Explain, Step, Stuck
from vkubelet.pods.home import HomePod, decode_home_pod
from vkubelet.pods.memory import (
    ASK_AGAIN_SECONDS,
    AWAIT_SECONDS,
    Behind,
    Overlay,
    PodMemory,
    content_of,
)
from vkubelet.pods.patch import WantedStatus, build_patch
from vkubelet.times import format_time

logger = logging.getLogger(__name__)

FAILURES_TOLD = 3
"""Applies that fail in a row before the pod says so: passing trouble is nobody's business."""

ORPHAN_AGAIN_SECONDS = 60.0

REFUSED_AGAIN_SECONDS = 10.0
"""When a pod is offered again that was refused for the first time."""

YOUNG_SECONDS = 1.0
"""Most pods that start at once have their Running written only: one write where two were."""

EVICT_AGAIN_SECONDS = 20.0
"""When an eviction is tried again that a disruption budget forbids, or that nothing came of."""

_EVICTED = {
    Stuck.UNSCHEDULABLE: ("RemoteUnschedulable", "no place was found behind its node for too long"),
    Stuck.DELETED: ("RemotePodLost", "what is behind it has been ending for too long"),
}


@dataclass(slots=True)
class Case:
    """
    One pod at one reconcile.

    Attributes:
        pod: The home pod as known; None if there is none on our nodes.
        home: The same, decoded.
        behind: What is behind that key.
        memory: What this process remembers of it.
    """

    pod: HomePod | None
    home: KubeObject
    behind: Behind | None
    memory: PodMemory

    @property
    def mine(self) -> Behind | None:
        """What is behind, if it was made for this very home pod."""
        if self.behind is not None and self.behind.ref.uid == self.memory.uid:
            return self.behind
        return None


class Executor:
    """Takes one decided step for one pod; idempotent, as a step may be taken again."""

    def __init__(
        self,
        provider: Provider,
        client: KubeClient,
        events: EventRecorder,
        policy: KubeletPolicy,
        now: Callable[[], datetime],
    ) -> None:
        self._provider = provider
        self._client = client
        self._events = events
        self._policy = policy
        self._now = now
        self._keeps_generations = True

    async def execute(self, action: Action, case: Case) -> float | None:
        """Take the step; returns after how many seconds the pod wants to be looked at again."""
        match action:
            case Delete():
                return await self._delete(action, case)
            case Evict(stuck):
                return await self._evict(stuck, case)
            case Explain(reason, message):
                await self._explain(case, reason, message)
            case Step.NOTHING | Step.FORGET:
                return _wait_seconds(case.memory)
            case Step.APPLY:
                return await self._apply(case)
            case Step.REFLECT:
                return await self._reflect(case)
            case Step.FINALISE:
                await self._finalise(case)
            case Step.END:
                await self._end(case)
            case Step.PLACEHOLDER:
                await self._placeholder(case)
            case _:
                assert_never(action)
        return None

    async def _delete(self, action: Delete, case: Case) -> float | None:
        ref, memory = action.ref, case.memory
        if action.orphan:
            if await self._is_at_home(ref):
                logger.debug("%s: at home on a node that isn't followed", ref)
                return ORPHAN_AGAIN_SECONDS
            logger.info("%s: deleting what is behind it: the home pod %s is gone", ref, ref.uid)
        await self._provider.delete_pod(ref, grace_period_seconds=action.grace_seconds)
        memory.asked_uid = ref.uid
        memory.asked_grace_seconds = action.grace_seconds
        memory.asked_at = asyncio.get_running_loop().time()
        await self._reflect(case)
        return _wait_seconds(memory)

    async def _evict(self, stuck: Stuck, case: Case) -> float | None:
        """Evict the home pod; disruption budgets hold, so it may take several tries."""
        assert case.pod is not None
        await self._reflect(case)
        pod, (reason, message) = case.pod, _EVICTED[stuck]
        key = pod.metadata.key
        try:
            await evict_pod(self._client, key, uid=pod.metadata.uid)
        except (NotFoundError, ConflictError) as error:
            logger.debug("%s: gone already, or changing: %s", key, error)
        except TooManyRequestsError as error:
            self._warn_once(case, reason, f"{message}: to be evicted, but {error.message}")
            return max(EVICT_AGAIN_SECONDS, error.retry_after_seconds)
        else:
            logger.info("%s: evicted: %s", key, message)
            self._event(case, "Warning", reason, f"{message}: evicted")
        return EVICT_AGAIN_SECONDS

    async def _is_at_home(self, ref: PodRef) -> bool:
        """Ask the API server itself: what a cache lacks is no reason to delete."""
        try:
            found = await self._client.get(PODS, ref.key)
        except NotFoundError:
            return False
        uid: str = found["metadata"]["uid"]
        return uid == ref.uid

    async def _apply(self, case: Case) -> float | None:
        memory, loop = case.memory, asyncio.get_running_loop()
        assert case.pod is not None
        if case.mine is not None:
            await self._reflect(case)
        else:
            if status.has_started(case.home):
                await self._show_restart(case)
            pause = memory.pause_seconds(loop.time())
            if pause:
                return pause
        try:
            warnings = await self._provider.apply_pod(case.pod.node, case.home)
        except RefusedError as error:
            return await self._note_refusal(case, error)
        except (RetryError, KubeError) as error:
            await self._note_failure(case, error)
            raise
        memory.applied, memory.failures = case.pod.digest, 0
        memory.refused = memory.refused_digest = None
        if warnings:
            self._warn_once(case, "PartlyReflected", "; ".join(warnings))
        else:
            memory.told = ""
        if case.mine is None:
            memory.awaited_until = loop.time() + AWAIT_SECONDS
            memory.young_until = loop.time() + YOUNG_SECONDS
        return _wait_seconds(memory)

    async def _show_restart(self, case: Case) -> None:
        wanted = status.restart_lost(case.home, now=self._time())
        if await self._write_own_status(case, wanted):
            self._event(case, "Warning", status.LOST_REASON, str(wanted.fields["message"]))
        case.memory.restarts = status.restart_counts(case.home.get("status") or {})

    async def _note_refusal(self, case: Case, error: RefusedError) -> float:
        assert case.pod is not None
        memory = case.memory
        memory.refusals = memory.refusals + 1 if memory.refused_digest == case.pod.digest else 1
        seconds = compute_delay(
            memory.refusals,
            base_seconds=REFUSED_AGAIN_SECONDS,
            max_seconds=self._policy.refused_retry_seconds,
        )
        memory.refused = memory.refused_digest = case.pod.digest
        memory.refused_until = asyncio.get_running_loop().time() + seconds
        if case.mine is None:
            await self._explain(case, error.reason, error.message)
        else:
            self._warn_once(case, error.reason, error.message)
        return seconds

    async def _note_failure(self, case: Case, error: Exception) -> None:
        """Show a failure that lasts; a conflict is harmless, and no failure is ever final."""
        if isinstance(error, ConflictError):
            return
        case.memory.failures += 1
        if case.memory.failures < FAILURES_TOLD:
            return
        message = f"can't be started yet, tried again: {error}"
        if case.mine is None:
            await self._explain(case, "ProviderFailed", message)
        else:
            self._warn_once(case, "ProviderFailed", message)

    async def _reflect(self, case: Case) -> float | None:
        mine, memory = case.mine, case.memory
        if mine is None or case.pod is None:
            return None
        memory.awaited_until = 0.0
        if mine.starting and asyncio.get_running_loop().time() < memory.young_until:
            return _wait_seconds(memory)
        memory.young_until = 0.0
        asked = memory.asked_uid == mine.ref.uid or case.pod.metadata.deletion_timestamp
        wanted = status.reflect(
            case.home,
            mine.decode(),
            address=self._policy.address,
            terminating=mine.deleting and not asked,
            restarts=memory.restarts or mine.restarts,
        )
        if wanted is not None:
            await self._write_status(case, wanted, _observed_generation(case.home, mine))
        return _wait_seconds(memory)

    async def _explain(self, case: Case, reason: str, message: str) -> None:
        wanted = status.explain(case.home, reason, message)
        if wanted is not None and await self._write_own_status(case, wanted):
            self._event(case, "Warning", reason, message)

    async def _placeholder(self, case: Case) -> None:
        condition = self._policy.placeholder_condition
        wanted = status.placeholder(
            case.home, address=self._policy.address, condition=condition, now=self._time()
        )
        if await self._write_own_status(case, wanted):
            message = (
                "pods of DaemonSets aren't run on this node: shown as running, without containers"
            )
            self._event(case, "Normal", "Placeholder", message)

    async def _end(self, case: Case) -> None:
        wanted = status.end_lost(case.home, now=self._time())
        if await self._write_own_status(case, wanted):
            self._event(case, "Warning", status.LOST_REASON, str(wanted.fields["message"]))

    async def _finalise(self, case: Case) -> None:
        assert case.pod is not None
        if case.home["metadata"].get("finalizers"):
            wanted = status.end_deleted(case.home, now=self._time())
            if wanted is not None:
                await self._write_own_status(case, wanted)
        metadata = case.pod.metadata
        try:
            await self._client.delete(PODS, metadata.key, uid=metadata.uid, grace_period_seconds=0)
        except (NotFoundError, ConflictError) as error:
            logger.debug("%s: gone already: %s", metadata.key, error)
        case.memory.finalised = True

    async def _write_own_status(self, case: Case, wanted: WantedStatus) -> bool:
        """Write a status that was made here, and so goes by the pod as it is."""
        return await self._write_status(case, wanted, case.home["metadata"].get("generation"))

    async def _write_status(self, case: Case, wanted: WantedStatus, generation: int | None) -> bool:
        """Write what differs; whether it was. The case then has the pod as it is now."""
        assert case.pod is not None
        if self._keeps_generations:
            wanted = replace(wanted, generation=generation)
        patch = build_patch(case.home, wanted, now=self._time())
        if patch is None:
            return False
        memory, metadata = case.memory, case.pod.metadata
        content = content_of(wanted.fields, (wanted.conditions, wanted.absent, wanted.generation))
        if memory.written == (metadata.resource_version, content):
            return False  # the API server drops what is missing: writing again wouldn't help
        try:
            answer = await self._client.patch(
                PODS, metadata.key, patch, PatchType.STRATEGIC, subresource="status"
            )
        except NotFoundError:
            logger.debug("%s: gone before its status was written", metadata.key)
            return False
        except InvalidError as error:
            memory.written = (metadata.resource_version, content)
            logger.error("%s: the API server refuses its status: %s", metadata.key, error)  # noqa: TRY400 - no trace needed
            self._warn_once(case, "StatusRefused", str(error))
            return False
        if wanted.generation is not None and "observedGeneration" not in answer["status"]:
            logger.info("the home API server doesn't keep pods' observedGeneration")
            self._keeps_generations = False
        pod = decode_home_pod(encode_object(answer))
        base = metadata.resource_version if memory.overlay is None else memory.overlay.base
        memory.written = (pod.metadata.resource_version, content)
        memory.overlay = Overlay(base, pod)
        case.pod, case.home = pod, answer
        return True

    def _warn_once(self, case: Case, reason: str, message: str) -> None:
        told = f"{reason}: {message}"
        if case.memory.told != told:
            case.memory.told = told
            self._event(case, "Warning", reason, message)

    def _event(
        self, case: Case, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        self._events.record_nowait(case.home, type=kind, reason=reason, message=message)

    def _time(self) -> str:
        return format_time(self._now())


def _observed_generation(home: KubeObject, behind: Behind) -> int | None:
    """
    The generation of the home pod that the status of what is behind goes by.

    A deletion makes a generation, too: it has arrived when what is behind is being deleted.
    """
    generation: int | None = home["metadata"].get("generation")
    if behind.generation is None or generation is None:
        return None
    ending = behind.deleting and home["metadata"].get("deletionTimestamp")
    return generation if ending else min(behind.generation, generation)


def _wait_seconds(memory: PodMemory) -> float | None:
    """When something that was asked for must have shown, or a refused pod is offered again."""
    now = asyncio.get_running_loop().time()
    times: Mapping[str, float] = {
        "awaited": memory.awaited_until,
        "young": memory.young_until,
        "refused": memory.refused_until if memory.refused is not None else 0.0,
        "stuck": memory.evict_at if memory.stuck is not None else 0.0,
        "asked": memory.asked_at + ASK_AGAIN_SECONDS if memory.asked_uid else 0.0,
    }
    coming = [at - now for at in times.values() if at > now]
    return min(coming) if coming else None
