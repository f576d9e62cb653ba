"""The rules of a pod's life, as a table."""

from dataclasses import replace

import pytest

from vkubelet.config import DaemonSetPolicy
from vkubelet.interface import PodRef
from vkubelet.pods.decide import (
    Action,
    BehindFacts,
    Delete,
    Evict,
    Explain,
    HomeFacts,
    Past,
    PodKind,
    Step,
    Stuck,
    decide,
)

REF = PodRef("a", "p", "1")
OLD = PodRef("a", "p", "0")
HOME = HomeFacts(ref=REF, digest=7)
BEHIND = BehindFacts(ref=REF)
NEW = Past()
APPLIED = Past(applied=7)
OVERDUE = Past(applied=7, overdue=Stuck.UNSCHEDULABLE)
AWAITED = Past(applied=7, awaited=True)
DELETED = replace(HOME, deleting=True, grace_seconds=30)
ONCE = replace(HOME, started=True, restarts=False)
DAEMON = replace(HOME, kind=PodKind.DAEMON_SET)


def asked(grace_seconds: int | None, uid: str = "1") -> Past:
    return Past(asked_uid=uid, asked_grace_seconds=grace_seconds)


@pytest.mark.parametrize(
    ("home", "behind", "past", "action"),
    [
        # No home pod.
        (None, None, NEW, Step.FORGET),
        (None, BEHIND, NEW, Delete(REF, None, orphan=True)),
        (None, BEHIND, asked(None), Step.NOTHING),
        (None, BEHIND, asked(30), Step.NOTHING),
        # What makes no progress for too long is evicted, unless it ends or has ended anyway.
        (HOME, BEHIND, OVERDUE, Evict(Stuck.UNSCHEDULABLE)),
        (replace(HOME, reflected=False), BEHIND, OVERDUE, Evict(Stuck.UNSCHEDULABLE)),
        (
            replace(HOME, terminal=True),
            BehindFacts(ref=REF, terminal=True),
            OVERDUE,
            Step.REFLECT,
        ),
        (DELETED, BEHIND, OVERDUE, Delete(REF, 30)),
        (HOME, None, replace(OVERDUE, applied=None), Step.APPLY),
        # Deletion comes first, whatever else is the matter.
        (DELETED, BEHIND, NEW, Delete(REF, 30)),
        (replace(DELETED, reflected=False), BEHIND, NEW, Delete(REF, 30)),
        (replace(DELETED, kind=PodKind.DAEMON_SET), BEHIND, NEW, Delete(REF, 30)),
        (DELETED, BEHIND, asked(30), Step.REFLECT),
        (replace(DELETED, grace_seconds=5), BEHIND, asked(30), Delete(REF, 5)),
        (replace(DELETED, grace_seconds=60), BEHIND, asked(30), Step.REFLECT),
        (replace(DELETED, grace_seconds=0), BEHIND, asked(30), Delete(REF, 1)),
        (replace(DELETED, grace_seconds=None), BEHIND, asked(30), Step.REFLECT),
        (DELETED, BEHIND, asked(None), Delete(REF, 30)),
        (DELETED, None, NEW, Step.FINALISE),
        (DELETED, None, APPLIED, Step.FINALISE),
        (DELETED, None, AWAITED, Delete(REF, 30)),
        (DELETED, None, replace(AWAITED, asked_uid="1", asked_grace_seconds=30), Step.NOTHING),
        (replace(DELETED, finalised=True), None, NEW, Step.NOTHING),
        (replace(DELETED, reflected=False), None, NEW, Step.FINALISE),
        (replace(DELETED, kind=PodKind.MIRROR), None, NEW, Step.FINALISE),
        (replace(DELETED, terminal=True), BEHIND, NEW, Delete(REF, 30)),
        (DELETED, BehindFacts(ref=OLD), NEW, Step.FINALISE),
        # An earlier pod of the name.
        (HOME, BehindFacts(ref=OLD), NEW, Delete(OLD, None, orphan=True)),
        (HOME, BehindFacts(ref=OLD), asked(None, "0"), Step.NOTHING),
        # Pods that aren't run.
        (replace(HOME, kind=PodKind.MIRROR), None, NEW, Step.NOTHING),
        (DAEMON, None, NEW, Step.PLACEHOLDER),
        (DAEMON, BEHIND, NEW, Delete(REF, None)),
        (replace(DAEMON, reflected=False), None, NEW, Step.PLACEHOLDER),
        (replace(DAEMON, terminal=True), None, NEW, Step.NOTHING),
        # Something is behind.
        (HOME, BEHIND, NEW, Step.APPLY),
        (HOME, BEHIND, APPLIED, Step.REFLECT),
        (HOME, BEHIND, Past(applied=6), Step.APPLY),
        (HOME, BEHIND, Past(refused=7), Step.REFLECT),
        (HOME, BehindFacts(ref=REF, terminal=True), NEW, Step.REFLECT),
        (HOME, BehindFacts(ref=REF, deleting=True), Past(applied=6), Step.REFLECT),
        # What has ended at home doesn't go on.
        (replace(HOME, terminal=True), BEHIND, NEW, Delete(REF, None)),
        (replace(HOME, terminal=True), BEHIND, asked(None), Step.NOTHING),
        (replace(HOME, reflected=False), BEHIND, NEW, Step.REFLECT),
        # Its node is being removed.
        (replace(HOME, leaving=True), BEHIND, NEW, Step.REFLECT),
        (replace(HOME, leaving=True), BEHIND, Past(applied=6), Step.REFLECT),
        (replace(ONCE, leaving=True), None, NEW, Step.END),
        (replace(HOME, leaving=True, terminal=True), None, NEW, Step.NOTHING),
        (replace(DELETED, leaving=True), BEHIND, NEW, Delete(REF, 30)),
        (replace(DELETED, leaving=True), None, NEW, Step.FINALISE),
        (replace(DAEMON, leaving=True), None, NEW, Step.PLACEHOLDER),
        # Nothing is behind.
        (HOME, None, NEW, Step.APPLY),
        (HOME, None, AWAITED, Step.NOTHING),
        (replace(HOME, digest=8), None, AWAITED, Step.APPLY),
        (HOME, None, APPLIED, Step.APPLY),
        (HOME, None, Past(refused=7), Step.NOTHING),
        (HOME, None, Past(refused=6), Step.APPLY),
        (replace(HOME, terminal=True), None, NEW, Step.NOTHING),
        (replace(HOME, terminal=True, started=True), None, NEW, Step.NOTHING),
        (replace(HOME, started=True), None, NEW, Step.APPLY),
        (ONCE, None, NEW, Step.END),
        (replace(ONCE, started=False), None, NEW, Step.APPLY),
        (replace(ONCE, reflected=False), None, NEW, Step.END),
    ],
)
def test_decide(
    home: HomeFacts | None, behind: BehindFacts | None, past: Past, action: Action
) -> None:
    assert decide(home, behind, past, daemonset_pods=DaemonSetPolicy.PLACEHOLDER) == action


def test_namespace_that_is_not_reflected() -> None:
    home = replace(HOME, reflected=False)
    action = decide(home, None, NEW, daemonset_pods=DaemonSetPolicy.REFLECT)
    assert isinstance(action, Explain)
    assert action.reason == "NamespaceNotReflected"
    assert "namespace a " in action.message


def test_pod_that_comes_to_a_node_being_removed() -> None:
    action = decide(
        replace(HOME, leaving=True), None, NEW, daemonset_pods=DaemonSetPolicy.PLACEHOLDER
    )
    assert isinstance(action, Explain)
    assert action.reason == "NodeBeingRemoved"


def test_daemonset_policies() -> None:
    pending = decide(DAEMON, None, NEW, daemonset_pods=DaemonSetPolicy.PENDING)
    assert isinstance(pending, Explain)
    assert pending.reason == "DaemonSetNotReflected"
    assert decide(DAEMON, None, NEW, daemonset_pods=DaemonSetPolicy.REFLECT) is Step.APPLY
