"""The one step that a pod needs, from what both sides show: the rules of its life. Pure."""

import enum
from dataclasses import dataclass
from typing import TypeAlias

from vkubelet.config import DaemonSetPolicy
from vkubelet.interface import PodRef

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


class PodKind(enum.Enum):
    """How a pod came to its node, as far as that changes what is done with it."""

    ORDINARY = "ordinary"
    DAEMON_SET = "daemonset"
    MIRROR = "mirror"


class Stuck(enum.Enum):
    """Why what is behind a pod makes no progress."""

    UNSCHEDULABLE = "unschedulable"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeFacts:
    """
    What matters of a home pod.

    Attributes:
        ref: Which pod it is.
        kind: How it came to its node.
        digest: Of everything that is applied; equal digests need no second apply.
        reflected: Whether its namespace is reflected.
        leaving: Whether its node is being removed.
        deleting: Whether its deletion has been asked for.
        grace_seconds: The grace that the deletion gives.
        finalised: Whether our part of its deletion is done.
        terminal: Whether it has ended for good.
        started: Whether any of its containers had started.
        restarts: Whether its containers are restarted whatever their exit code.
    """

    ref: PodRef
    kind: PodKind = PodKind.ORDINARY
    digest: int = 0
    reflected: bool = True
    leaving: bool = False
    deleting: bool = False
    grace_seconds: int | None = None
    finalised: bool = False
    terminal: bool = False
    started: bool = False
    restarts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindFacts:
    """
    What matters of what is behind a home pod.

    Attributes:
        ref: The home pod it was made for.
        deleting: Whether it's being deleted.
        terminal: Whether it has ended for good.
    """

    ref: PodRef
    deleting: bool = False
    terminal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """
    What this process has done for the pod already.

    Attributes:
        applied: Digest that was applied; None if none was.
        awaited: Something was applied, and its first status is still to come.
        refused: Digest that the provider refused and isn't to be offered yet.
        asked_uid: UID whose deletion has been asked for.
        asked_grace_seconds: With which grace.
        overdue: Why what is behind has made no progress for so long that the pod is to be evicted.
    """

    applied: int | None = None
    awaited: bool = False
    refused: int | None = None
    asked_uid: str = ""
    asked_grace_seconds: int | None = None
    overdue: Stuck | None = None


class Step(enum.Enum):
    """
    Steps that need nothing more than the pod.

    Attributes:
        NOTHING: All is as it should be.
        FORGET: Neither side has it any more.
        APPLY: Make what is behind be as the home pod says; show its status.
        REFLECT: Show the status of what is behind.
        FINALISE: Nothing is behind: remove the deleted home pod.
        END: It can't run again: end it at home.
        PLACEHOLDER: Show it as running without running it.
    """

    NOTHING = "nothing"
    FORGET = "forget"
    APPLY = "apply"
    REFLECT = "reflect"
    FINALISE = "finalise"
    END = "end"
    PLACEHOLDER = "placeholder"


@dataclass(frozen=True, slots=True)
class Delete:
    """
    Delete what is behind `ref`.

    Attributes:
        orphan: No home pod is known for it: to be confirmed before.
    """

    ref: PodRef
    grace_seconds: int | None
    orphan: bool = False


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict the home pod, so that its controller makes another elsewhere."""

    stuck: Stuck


@dataclass(frozen=True, slots=True)
class Explain:
    """Show why the pod is Pending."""

    reason: str
    message: str


Action: TypeAlias = Step | Delete | Evict | Explain


def decide(  # noqa: PLR0911 - a list of rules, first match wins
    home: HomeFacts | None,
    behind: BehindFacts | None,
    past: Past,
    *,
    daemonset_pods: DaemonSetPolicy,
) -> Action:
    """
    Decide on one pod; both sides must be synced and in reach.

    Deletion comes before anything that can fail.
    """
    if home is None:
        if behind is None:
            return Step.FORGET
        return _delete(behind.ref, None, past, otherwise=Step.NOTHING, orphan=True)
    mine = behind if behind is not None and behind.ref.uid == home.ref.uid else None
    if home.deleting:
        return _decide_deleted(home, mine, past)
    if behind is not None and mine is None:  # an earlier pod of that name has to end first
        return _delete(behind.ref, None, past, otherwise=Step.NOTHING, orphan=True)
    if home.kind is PodKind.MIRROR:
        return Step.NOTHING
    if home.kind is PodKind.DAEMON_SET and daemonset_pods is not DaemonSetPolicy.REFLECT:
        return _decide_daemonset(home, mine, past, daemonset_pods)
    if mine is not None:
        return _decide_running(home, mine, past)
    return _decide_absent(home, past)


def _delete(
    ref: PodRef, grace_seconds: int | None, past: Past, *, otherwise: Step, orphan: bool = False
) -> Action:
    """Ask for a deletion once, and again when the grace has become shorter."""
    if past.asked_uid == ref.uid and not _shorter(grace_seconds, past.asked_grace_seconds):
        return otherwise
    return Delete(ref, grace_seconds, orphan)


def _shorter(grace_seconds: int | None, asked_seconds: int | None) -> bool:
    if grace_seconds is None:
        return False
    return asked_seconds is None or grace_seconds < asked_seconds


def _decide_deleted(home: HomeFacts, mine: BehindFacts | None, past: Past) -> Action:
    if mine is None and not past.awaited:
        return Step.NOTHING if home.finalised else Step.FINALISE
    otherwise = Step.REFLECT if mine is not None else Step.NOTHING
    grace = home.grace_seconds
    if grace is not None:
        grace = max(grace, 1)  # 0 would remove the object behind before its containers have stopped
    return _delete(home.ref, grace, past, otherwise=otherwise)


def _decide_daemonset(
    home: HomeFacts, mine: BehindFacts | None, past: Past, policy: DaemonSetPolicy
) -> Action:
    if mine is not None:  # made under another policy
        return _delete(mine.ref, None, past, otherwise=Step.NOTHING)
    if home.terminal:
        return Step.NOTHING
    if policy is DaemonSetPolicy.PLACEHOLDER:
        return Step.PLACEHOLDER
    return Explain("DaemonSetNotReflected", "pods of DaemonSets aren't run on this node")


def _decide_running(home: HomeFacts, mine: BehindFacts, past: Past) -> Action:
    if past.overdue is not None and not home.terminal:
        return Evict(past.overdue)
    if home.terminal and not mine.terminal:  # ended by somebody else: nothing of it goes on
        return _delete(mine.ref, None, past, otherwise=Step.NOTHING)
    settled = home.terminal or mine.terminal or mine.deleting
    if settled or home.leaving or not home.reflected or home.digest in {past.applied, past.refused}:
        return Step.REFLECT
    return Step.APPLY


def _decide_absent(home: HomeFacts, past: Past) -> Action:
    if home.terminal:
        return Step.NOTHING
    if past.awaited and past.applied == home.digest:
        return Step.NOTHING
    if home.started and not home.restarts:
        return Step.END
    if not home.reflected:
        message = f"namespace {home.ref.namespace} isn't reflected to where this node's pods run"
        return Explain("NamespaceNotReflected", message)
    if home.leaving:
        message = "its node is being removed: the pod isn't started there, it is evicted"
        return Explain("NodeBeingRemoved", message)
    return Step.NOTHING if past.refused == home.digest else Step.APPLY
