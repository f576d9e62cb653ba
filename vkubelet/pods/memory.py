"""What this process knows of a pod beyond both sides; nothing is wrong when a restart loses it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from vkubelet.interface import PodRef, PodStatus
from vkubelet.kube.objects import KubeObject, decode_object, encode_object
from vkubelet.pods.decide import BehindFacts, Past, Stuck
from vkubelet.pods.home import HomePod
from vkubelet.pods.status import TERMINAL_PHASES, has_started

ASK_AGAIN_SECONDS = 300.0
"""A deletion that hasn't ended by then is asked for once more."""

AWAIT_SECONDS = 30.0
"""How long the first status after an apply is waited for before the pod is applied again."""

_FIRST_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 300.0


class Behind(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is behind a home pod; the status is kept as bytes, a fifth of the decoded size."""

    ref: PodRef
    node: str
    raw: bytes
    deleting: bool
    terminal: bool
    unschedulable: bool
    started: bool
    restarts: Mapping[str, int] | None = None
    generation: int | None = None

    def decode(self) -> KubeObject:
        """Decode the status, afresh."""
        return decode_object(self.raw)

    @property
    def starting(self) -> bool:
        """Whether it's on its way to its first container, as far as is known."""
        return not (self.started or self.terminal or self.deleting or self.unschedulable)

    @property
    def facts(self) -> BehindFacts:
        """What is decided on."""
        return BehindFacts(ref=self.ref, deleting=self.deleting, terminal=self.terminal)


def remember_status(status: PodStatus) -> Behind:
    """Keep what a provider told of a pod."""
    return Behind(
        ref=status.ref,
        node=status.node,
        raw=encode_object(status.status),
        deleting=status.deletion_timestamp is not None,
        unschedulable=status.unschedulable,
        terminal=status.status.get("phase") in TERMINAL_PHASES,
        started=has_started({"status": status.status}),
        restarts=status.restarts or None,
        generation=status.generation,
    )


@dataclass(frozen=True, slots=True)
class Overlay:
    """
    The home pod as the last write returned it, until the watch has caught up.

    Attributes:
        base: resourceVersion of the Store's object at the time of the write.
        pod: The answer to the write.
    """

    base: str
    pod: HomePod


@dataclass(slots=True)
class PodMemory:
    """
    Memory of one home pod; times are the loop's.

    Attributes:
        uid: The pod; another UID starts afresh.
        applied: Digest that was applied.
        awaited_until: Until when the first status after an apply is waited for.
        refused: Digest that was refused.
        refused_until: Until when it isn't offered again.
        refused_digest: Digest that was refused last, also once it may be offered again.
        refusals: How often that was refused in a row.
        asked_uid: UID whose deletion has been asked for.
        asked_grace_seconds: With which grace.
        asked_at: When.
        finalised: Whether the final delete has been made.
        failures: Applies that failed in a row.
        losses: How often what was behind got lost.
        lost_at: When it was lost last.
        remains: What was behind and had started, when it's gone; home may not have been told of it.
        stuck: Why the pod will have to be evicted; None if it won't.
        evict_at: When, while it's stuck.
        restarts: Restarts of lost pods behind, by container.
        told: The last warning told by an event.
        written: resourceVersion and content of the last status write.
        overlay: The pod as that write left it.
        settled_version: resourceVersion that the home pod had after the last step.
        wake_at: When another step may be due though nothing changes.
        young_until: Until when it isn't shown that what is behind has still to start.
    """

    uid: str
    applied: int | None = None
    awaited_until: float = 0.0
    refused: int | None = None
    refused_until: float = 0.0
    refused_digest: int | None = None
    refusals: int = 0
    asked_uid: str = ""
    asked_grace_seconds: int | None = None
    asked_at: float = 0.0
    finalised: bool = False
    failures: int = 0
    losses: int = 0
    lost_at: float = 0.0
    remains: Behind | None = None
    stuck: Stuck | None = None
    evict_at: float = 0.0
    restarts: Mapping[str, int] = field(default_factory=dict)
    told: str = ""
    written: tuple[str, int] = ("", 0)
    overlay: Overlay | None = None
    settled_version: str = ""
    wake_at: float = math.inf
    young_until: float = 0.0

    def settle(self, pod: HomePod | None, wake_at: float) -> None:
        """Note that a step was taken for a pod as the Store had it, and when one may be due."""
        newest = self.overlay.pod if self.overlay is not None else pod
        self.settled_version = "" if newest is None else newest.metadata.resource_version
        self.wake_at = wake_at

    def is_settled(self, pod: HomePod | None, now: float) -> bool:
        """Whether home shows what the last step left (often our own write), and none is due."""
        if pod is None or pod.metadata.resource_version != self.settled_version:
            return False
        self.overlay = None  # the watch has caught up
        return now < self.wake_at

    def past(self, now: float) -> Past:
        """What is decided on."""
        asked = self.asked_uid and now < self.asked_at + ASK_AGAIN_SECONDS
        return Past(
            applied=self.applied,
            awaited=self.applied is not None and now < self.awaited_until,
            refused=self.refused if now < self.refused_until else None,
            asked_uid=self.asked_uid if asked else "",
            asked_grace_seconds=self.asked_grace_seconds if asked else None,
            overdue=self.stuck if now >= self.evict_at else None,
        )

    def note_stuck(self, stuck: Stuck | None, timeout_seconds: float | None, now: float) -> None:
        """Note whether, and why, what is behind makes no progress; a new reason starts the time."""
        if timeout_seconds is None:
            stuck = None
        if stuck is not self.stuck:
            self.stuck = stuck
            self.evict_at = now + (timeout_seconds or 0.0)

    def note_gone(self, uid: str, now: float) -> None:
        """Note that what was behind is no more."""
        if self.asked_uid == uid:
            self.asked_uid = ""
        elif self.uid == uid:
            if now > self.lost_at + 2 * _LONGEST_PAUSE_SECONDS:
                self.losses = 0
            self.losses += 1
            self.lost_at = now
        if self.uid == uid:
            self.applied = None
            self.awaited_until = 0.0

    def pause_seconds(self, now: float) -> float:
        """How long a pod that keeps being lost has to wait before it's made anew."""
        if self.losses < 2:
            return 0.0
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** min(self.losses - 2, 10))
        return max(0.0, self.lost_at + pause - now)


def content_of(fields: Mapping[str, Any], conditions: object) -> int:
    """Fingerprint of a status that is to be written."""
    return hash((encode_object(dict(fields)), conditions))
