"""Pods that were forbidden are offered again when there may be room, and not all at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from provider.pods.refused import AGAIN_SECONDS, MAX_OFFERED, RefusedPods
from tests.fakes.api_server import FakeApiServer
from tests.provider.pods.world import run
from tests.provider.values import build_home_pod
from vkubelet.errors import RefusedError
from vkubelet.interface import PodRef, StatusEvent, Unblocked
from vkubelet.kube.objects import PODS, CachedObject, KubeObject, decode_cached, encode_object
from vkubelet.pods.home import HomePods

pytestmark = pytest.mark.virtual_time

THERE = "demo-r"


def ref(number: int) -> PodRef:
    return PodRef("demo", f"pod-{number}", f"uid-{number}")


def remote(phase: str, namespace: str = THERE) -> CachedObject:
    metadata = {"name": "p", "namespace": namespace, "uid": "1", "resourceVersion": "1"}
    return decode_cached(encode_object({"metadata": metadata, "status": {"phase": phase}}))


@dataclass
class World:
    """Refused pods, and a remote namespace with room for some."""

    room: int = 0
    offered: list[PodRef] = field(default_factory=list)
    at_once: int = 0

    def __post_init__(self) -> None:
        self.pods = RefusedPods(self._tell)
        self._under_way = 0

    def refuse(self, *numbers: int) -> None:
        for number in numbers:
            self.pods.note_refused(ref(number), THERE)

    def free(self, room: int = 1) -> None:
        self.room += room
        self.pods.handle_remote_pod(remote("Running"), None)

    def _tell(self, event: StatusEvent) -> None:
        assert isinstance(event, Unblocked)
        self.offered.append(event.ref)
        self._under_way += 1
        self.at_once = max(self.at_once, self._under_way)
        asyncio.get_running_loop().call_later(0.1, self._answer, event.ref)

    def _answer(self, pod: PodRef) -> None:
        self._under_way -= 1
        if self.room:
            self.room -= 1
            self.pods.note_made(pod)
        else:
            self.pods.note_refused(pod, THERE)


@asynccontextmanager
async def open_world() -> AsyncIterator[World]:
    world = World()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(world.pods.run())
        yield world
        task.cancel()


async def test_one_is_offered_when_something_was_freed() -> None:
    async with open_world() as world:
        world.refuse(1, 2)
        await asyncio.sleep(60)
        assert world.offered == []
        world.free()
        await asyncio.sleep(0.5)
        assert world.offered == []  # what a quota says is used comes late
        await asyncio.sleep(1)
        assert world.offered[0] == ref(1)
        assert world.room == 0


async def test_a_quota_that_learns_late_is_asked_once_more() -> None:
    async with open_world() as world:
        world.refuse(1)
        world.free(0)
        await asyncio.sleep(3)
        world.room = 1
        await asyncio.sleep(AGAIN_SECONDS)
        assert world.offered == [ref(1), ref(1)]
        assert world.room == 0


async def test_much_room_is_used_soon() -> None:
    async with open_world() as world:
        world.refuse(*range(500))
        world.free(500)
        await asyncio.sleep(4)
        assert world.room == 0
        assert len(world.offered) == 500
        assert world.at_once <= 2 * MAX_OFFERED


async def test_a_full_namespace_costs_one_request_a_second_at_most() -> None:
    async with open_world() as world:
        world.refuse(*range(500))
        for _ in range(1000):
            world.free(0)
            await asyncio.sleep(0.02)
        assert 10 <= len(world.offered) <= 21
        assert world.at_once == 1
        assert len(set(world.offered)) == len(world.offered)  # each in its turn


async def test_what_can_never_be_taken_keeps_no_other_waiting() -> None:
    async with open_world() as world:
        world.refuse(1, 2, 3)
        for _ in range(3):
            world.free(0)
            await asyncio.sleep(2)
        assert set(world.offered) == {ref(1), ref(2), ref(3)}


@pytest.mark.parametrize(
    ("old", "new", "is_sign"),
    [
        ("Running", "Succeeded", True),
        ("Pending", "Failed", True),
        ("Running", None, True),
        ("Pending", "Running", False),
        ("Succeeded", None, False),
        (None, "Running", False),
    ],
)
async def test_what_is_a_sign(old: str | None, new: str | None, *, is_sign: bool) -> None:
    async with open_world() as world:
        world.refuse(1)
        world.pods.handle_remote_pod(remote(old) if old else None, remote(new) if new else None)
        await asyncio.sleep(2)
        assert bool(world.offered) is is_sign


async def test_other_namespaces_are_no_matter() -> None:
    async with open_world() as world:
        world.refuse(1)
        world.pods.handle_remote_pod(remote("Running", "elsewhere"), None)
        await asyncio.sleep(2)
        assert world.offered == []


async def test_a_pod_that_was_made_or_replaced_is_not_offered() -> None:
    async with open_world() as world:
        world.refuse(1, 2)
        world.pods.note_made(ref(1))
        successor = PodRef("demo", "pod-2", "uid-later")
        world.pods.note_refused(successor, THERE)
        world.pods.note_made(ref(2))  # too late to mean anything
        await asyncio.sleep(1)
        world.free(0)
        await asyncio.sleep(2)
        assert set(world.offered) == {successor}


async def test_a_pod_that_is_gone_at_home_is_forgotten() -> None:
    async with FakeApiServer() as fake, fake.client("home") as client, open_world() as world:
        home = HomePods(client)
        home.set_nodes({"cloud"})
        world.pods.follow_home_pods(home)
        fake.put(build_home_pod("pod-1", uid="uid-1"))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(home.run())
            await home.wait_synced()
            world.refuse(1, 2)  # the second was gone before it was refused
            fake.remove(PODS, "demo", "pod-1")
            await asyncio.sleep(1)
            world.free(5)
            await asyncio.sleep(10)
            assert world.offered == []
            task.cancel()


async def test_remote_pods_that_end_have_refused_ones_offered_again() -> None:
    """A quota of two pods, three pods of home: the third is told of when one ends."""
    async with FakeApiServer() as fake, run(fake) as running:

        async def offer(pod: KubeObject) -> bool:
            if len(fake.objects(PODS)) >= 2:
                fake.fail_next("create pods", 403, message="exceeded quota")
            try:
                await running.pods.apply("cloud", pod)
            except RefusedError:
                return False
            return True

        pods = [build_home_pod(f"p{number}", uid=f"u{number}") for number in range(3)]
        assert [await offer(pod) for pod in pods] == [True, True, False]
        await asyncio.sleep(1)
        fake.remove(PODS, THERE, "p0")
        assert await running.until(Unblocked) == Unblocked(PodRef("demo", "p2", "u2"))
        assert await offer(pods[2])
