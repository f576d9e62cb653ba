"""Who serves the peering, and what others left."""

from datetime import UTC, datetime

from provider.checkup.leftovers import check_leftovers, check_peering
from provider.vitals import Vitals
from tests.provider.checkup.world import World, open_world, show
from tests.provider.overview.values import build_lock, build_virtual_node
from tests.provider.values import PEERING


def put_lock(world: World, peering: str, *, fresh: bool = True, **parts: object) -> None:
    renewed = datetime.now(UTC).isoformat() if fresh else "2026-01-01T00:00:00Z"
    lock = build_lock(peering, renewed=renewed)
    lock["metadata"] |= parts
    world.home.put(lock)


async def test_nobody_serves_it_yet() -> None:
    async with open_world() as world:
        assert show(await check_peering(world.around())) == ["ok: nobody serves it yet"]


async def test_somebody_does() -> None:
    async with open_world() as world:
        put_lock(world, "cloud")
        assert show(await check_peering(world.around())) == [
            "ok: vkubelet-0_1 serves it, version 0.1.0; another process would wait for it"
        ]


async def test_somebody_who_is_not_ready() -> None:
    async with open_world() as world:
        vitals = Vitals(version="0.1.0", not_ready="waiting for the first sync")
        world.home.put(build_lock(renewed=datetime.now(UTC).isoformat(), vitals=vitals))
        (found,) = show(await check_peering(world.around()))
        assert found.startswith("warning: vkubelet-0_1 serves it, version 0.1.0, and isn't ready")


async def test_two_do() -> None:
    async with open_world() as world:
        put_lock(world, "cloud")
        put_lock(world, "cloud", namespace="other")
        (found,) = show(await check_peering(world.around()))
        assert found.startswith("warning: 2 processes serve it: ")


async def test_nothing_is_left() -> None:
    async with open_world() as world:
        world.home.put(build_virtual_node("cloud"))
        world.home.put(build_virtual_node("busy", "served"))
        put_lock(world, "served")
        assert show(await check_leftovers(world.around())) == [
            "ok: nothing of other peerings is left behind"
        ]


async def test_what_earlier_peerings_left() -> None:
    async with open_world() as world:
        world.home.put(build_virtual_node("n1", "old"))
        put_lock(world, "old", fresh=False)
        labels = {**PEERING.labels, "vkubelet.io/peering": "older"}
        for name, found in (("a-home", labels), ("b-home", PEERING.labels)):
            metadata = {"name": name, "labels": dict(found)}
            world.remote.put({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        at_home, there = await check_leftovers(world.around())
        assert at_home.message == (
            "home has 1 virtual nodes of the peering old, which nobody serves"
        )
        assert at_home.command.startswith("vkubelet teardown --remote-cluster=old ")
        assert there.message.endswith("of the peering older, which nobody serves: a-home")


async def test_remote_namespaces_that_may_not_be_listed() -> None:
    async with open_world() as world:
        world.remote.fail_next("list namespaces", 403, reason="Forbidden")
        (found,) = show(await check_leftovers(world.around()))
        assert found.startswith("ok")
