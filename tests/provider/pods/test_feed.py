"""The feed of remote pods: the latest of each, and never an end without what came before it."""

from provider.pods.feed import StatusFeed
from vkubelet.interface import PodRef, Reachable, Unblocked, Unreachable
from vkubelet.kube.objects import KubeObject

REF = PodRef("demo", "web", "uid-web")
OTHER = PodRef("demo", "other", "uid-other")


def pod(phase: str) -> KubeObject:
    return {"status": {"phase": phase}}


def test_the_latest_of_each() -> None:
    feed = StatusFeed()
    feed.put(REF, pod("Pending"))
    feed.put(OTHER, pod("Pending"))
    feed.put(REF, pod("Running"))
    assert list(feed.take()) == [(REF, pod("Running")), (OTHER, pod("Pending"))]
    assert list(feed.take()) == []


def test_what_was_not_told_comes_before_the_end() -> None:
    feed = StatusFeed()
    feed.put(REF, pod("Succeeded"))
    feed.put_gone(REF)
    feed.put_gone(REF)
    assert list(feed.take()) == [(REF, pod("Succeeded")), (REF, None)]
    feed.put_gone(REF)
    assert list(feed.take()) == [(REF, None)]


def test_one_that_is_back_is_not_gone() -> None:
    feed = StatusFeed()
    feed.put(REF, pod("Running"))
    feed.put_gone(REF)
    feed.put(REF, pod("Pending"))
    assert list(feed.take()) == [(REF, pod("Pending"))]


def test_notes_and_told() -> None:
    feed = StatusFeed()
    feed.put_note(Unreachable("no"))
    feed.put_note(Reachable())
    feed.put_told(Unblocked(REF))
    feed.put_told(Unblocked(REF))
    assert feed.take_notes() == [Unreachable("no"), Reachable()]
    assert list(feed.take_told()) == [Unblocked(REF)]
    assert feed.take_notes() == []
    assert list(feed.take_told()) == []


async def test_waits_until_there_is_something() -> None:
    feed = StatusFeed()
    feed.put(REF, pod("Running"))
    await feed.wait()
    feed.wake()
    await feed.wait()
