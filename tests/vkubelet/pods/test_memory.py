"""What is remembered of a pod, and for how long."""

import pytest

from vkubelet.interface import PodRef, PodStatus
from vkubelet.kube.objects import encode_object
from vkubelet.pods.decide import Past
from vkubelet.pods.home import HomePod, decode_home_pod
from vkubelet.pods.memory import Overlay, PodMemory, remember_status


def test_past_of_a_fresh_memory() -> None:
    assert PodMemory("1").past(100.0) == Past()


def test_what_is_remembered_ends() -> None:
    memory = PodMemory("1", applied=7, awaited_until=10.0, refused=7, refused_until=20.0)
    memory.asked_uid, memory.asked_grace_seconds, memory.asked_at = "1", 30, 0.0
    early, late = memory.past(5.0), memory.past(1000.0)
    assert early == Past(applied=7, awaited=True, refused=7, asked_uid="1", asked_grace_seconds=30)
    assert late == Past(applied=7)


@pytest.mark.parametrize(
    ("losses", "pause"), [(1, 0), (2, 5), (3, 10), (4, 20), (8, 300), (5000, 300)]
)
def test_pauses_grow(losses: int, pause: float) -> None:
    memory = PodMemory("1")
    for _ in range(losses):
        memory.note_gone("1", 50.0)
    assert memory.pause_seconds(50.0) == pause
    assert memory.pause_seconds(1000.0) == 0


def test_a_loss_long_ago_is_forgotten() -> None:
    memory = PodMemory("1")
    for _ in range(4):
        memory.note_gone("1", 0.0)
    memory.note_gone("1", 10000.0)
    assert memory.pause_seconds(10000.0) == 0


def test_an_end_that_was_asked_for_is_no_loss() -> None:
    memory = PodMemory("1", applied=7, asked_uid="1")
    memory.note_gone("1", 0.0)
    assert (memory.losses, memory.asked_uid, memory.applied) == (0, "", None)


def test_gone_of_another_pod_changes_nothing() -> None:
    memory = PodMemory("1", applied=7)
    memory.note_gone("0", 0.0)
    assert (memory.losses, memory.applied) == (0, 7)


@pytest.mark.parametrize(
    ("phase", "terminal"), [("Running", False), ("Failed", True), (None, False)]
)
def test_remember_status(phase: str | None, *, terminal: bool) -> None:
    status = {"phase": phase} if phase else {}
    behind = remember_status(PodStatus(ref=PodRef("a", "p", "1"), node="n", status=status))
    assert behind.decode() == status
    assert behind.facts.terminal is terminal
    assert not behind.facts.deleting


def build_home_pod(version: str) -> HomePod:
    metadata = {"namespace": "a", "name": "p", "uid": "1", "resourceVersion": version}
    return decode_home_pod(encode_object({"metadata": metadata, "spec": {"nodeName": "n"}}))


def test_our_own_write_needs_no_second_look() -> None:
    before, written = build_home_pod("7"), build_home_pod("8")
    memory = PodMemory("1", overlay=Overlay("7", written))
    memory.settle(before, 50.0)
    assert not memory.is_settled(before, 10.0)
    assert memory.overlay is not None
    assert memory.is_settled(written, 10.0)
    assert memory.overlay is None


@pytest.mark.parametrize(("version", "now"), [("9", 10.0), ("8", 50.0), ("", 10.0)])
def test_a_second_look_is_taken(version: str, now: float) -> None:
    memory = PodMemory("1")
    memory.settle(build_home_pod("8"), 50.0)
    assert not memory.is_settled(build_home_pod(version) if version else None, now)


def test_what_was_never_looked_at_is_not_settled() -> None:
    assert not PodMemory("1").is_settled(build_home_pod("8"), 0.0)
    assert not PodMemory("1").is_settled(None, 0.0)
