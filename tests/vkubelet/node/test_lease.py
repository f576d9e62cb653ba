"""Renewing the Leases of nodes."""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tests.fakes.api_server import ApiCall, FakeApiServer
from vkubelet.config import KubeletPolicy
from vkubelet.kube.objects import LEASES, KubeObject
from vkubelet.node.lease import LEASE_NAMESPACE, NodeLeases
from vkubelet.times import parse_time

pytestmark = pytest.mark.virtual_time

POLICY = KubeletPolicy(owner_labels={"owner": "us"}, address="10.0.0.9")
CREATE = "create leases"
PATCH = "patch leases"


class World:
    """
    Leases that are kept at a fake API server.

    Attributes:
        uids: Of the Nodes that are there.
    """

    def __init__(self, fake: FakeApiServer, uids: dict[str, str]) -> None:
        self.fake = fake
        self.uids = uids
        self.leases: NodeLeases

    def register(self, name: str, uid: str) -> None:
        self.uids[name] = uid
        self.leases.look()

    def find(self, name: str = "n") -> KubeObject:
        return self.fake.get(LEASES, LEASE_NAMESPACE, name)

    def owner(self, name: str = "n") -> str:
        [owner] = self.find(name)["metadata"]["ownerReferences"]
        return str(owner["uid"])

    def renewals(self, name: str = "n") -> int:
        return sum(call.resource.name == name for call in self.fake.calls(PATCH))


@asynccontextmanager
async def keep(fake: FakeApiServer, **uids: str) -> AsyncIterator[World]:
    """Keep the Leases of these nodes; entered when they are there."""
    async with fake.client("home") as client, asyncio.TaskGroup() as group:
        world = World(fake, uids)
        world.leases = NodeLeases(client, POLICY, world.uids.get)
        task = group.create_task(world.leases.run())
        for name in uids:
            world.leases.add(name)
        await asyncio.sleep(2)
        yield world
        task.cancel()


async def test_lease_is_made_and_renewed_every_ten_seconds() -> None:
    async with FakeApiServer() as fake, keep(fake, n="u1") as world:
        lease = world.find()
        assert lease["spec"]["holderIdentity"] == "n"
        assert lease["spec"]["leaseDurationSeconds"] == 40
        assert lease["metadata"]["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u1"}
        ]
        renewed = parse_time(lease["spec"]["renewTime"])
        assert renewed is not None
        await asyncio.sleep(600)
        assert len(fake.calls(CREATE)) == 1
        assert 57 <= len(fake.calls(PATCH)) <= 61
        assert parse_time(world.find()["spec"]["renewTime"]) != renewed


async def test_nothing_is_written_before_the_node_is_there() -> None:
    async with FakeApiServer() as fake, keep(fake) as world:
        world.leases.add("n")
        await asyncio.sleep(100)
        assert fake.requests == []
        world.register("n", "u2")
        await asyncio.sleep(2)
        assert world.owner() == "u2"


async def test_node_that_vanishes_has_no_lease_until_it_is_back() -> None:
    async with FakeApiServer() as fake, keep(fake, n="u1") as world:
        del world.uids["n"]
        await asyncio.sleep(11)
        fake.requests.clear()
        await asyncio.sleep(60)
        assert fake.requests == []
        world.register("n", "u2")
        await asyncio.sleep(12)
        assert world.owner() == "u2"


async def test_node_that_is_registered_again_owns_the_lease() -> None:
    async with FakeApiServer() as fake, keep(fake, n="u1") as world:
        world.register("n", "u2")
        await asyncio.sleep(11)
        assert world.owner() == "u2"


async def test_deleted_lease_is_made_again() -> None:
    async with FakeApiServer() as fake, keep(fake, n="u1", m="u2") as world:
        fake.remove(LEASES, LEASE_NAMESPACE, "n")
        await asyncio.sleep(12)
        assert world.find()["spec"]["holderIdentity"] == "n"
        assert len(fake.calls(CREATE)) == 3


async def test_nodes_come_and_go() -> None:
    async with FakeApiServer() as fake, keep(fake, n="u1") as world:
        world.leases.add("n")  # again: that changes nothing
        world.register("m", "u2")
        world.leases.add("m")
        await asyncio.sleep(30)
        assert world.owner("m") == "u2"
        world.leases.remove("n")
        world.leases.remove("unknown")
        await asyncio.sleep(1)
        fake.requests.clear()
        await asyncio.sleep(30)
        assert world.renewals("n") == 0
        assert world.renewals("m") >= 2


async def test_node_that_goes_amid_its_renewal() -> None:
    async with FakeApiServer() as fake, keep(fake, n="u1") as world:
        fake.delay_next(PATCH, 3.0)
        fake.requests.clear()
        await fake.wait_for_calls(PATCH)
        world.leases.remove("n")
        await asyncio.sleep(60)
        assert len(fake.calls(PATCH)) == 1


async def test_failures_are_tried_again_soon_and_never_in_a_hurry() -> None:
    async with FakeApiServer() as fake, keep(fake, n="u1"):
        fake.requests.clear()
        fake.fail_next(PATCH, 500, times=3)
        fake.drop_next(PATCH)
        await asyncio.sleep(30)
        assert 5 <= len(fake.calls(PATCH)) <= 9


async def test_throttled_renewal_waits_as_long_as_it_is_told() -> None:
    async with FakeApiServer() as fake, keep(fake, n="u1"):
        fake.fail_next(PATCH, 429, reason="TooManyRequests", retry_after_seconds=6)
        fake.requests.clear()
        await fake.wait_for_calls(PATCH)
        refused_at = asyncio.get_running_loop().time()
        await fake.wait_for_calls(PATCH, 2)
        assert 5 <= asyncio.get_running_loop().time() - refused_at <= 8


async def test_wait_of_a_throttled_renewal_is_bounded() -> None:
    async with FakeApiServer() as fake, keep(fake, n="u1"):
        fake.fail_next(PATCH, 429, reason="TooManyRequests", retry_after_seconds=3600)
        await asyncio.sleep(30)
        assert len(fake.calls(PATCH)) >= 3


async def test_failure_of_one_is_no_failure_of_others() -> None:
    def is_bad(call: ApiCall) -> bool:
        return call.what == PATCH and call.resource.name == "bad"

    async with FakeApiServer() as fake, keep(fake, bad="u1", n="u2", m="u3") as world:
        fake.fail_next(is_bad, 409, reason="Conflict", times=1000)
        fake.requests.clear()
        await asyncio.sleep(100)
        for name in ("n", "m"):
            assert 9 <= world.renewals(name) <= 12


async def test_answer_that_never_comes_does_not_hold_up_others() -> None:
    def is_stuck(call: ApiCall) -> bool:
        return call.what == PATCH and call.resource.name == "stuck"

    uids = {"stuck": "u0", **{f"n{number}": f"u{number}" for number in range(1, 21)}}
    async with FakeApiServer() as fake, keep(fake, **uids) as world:
        fake.delay_next(is_stuck, 3600.0, times=1000)
        fake.requests.clear()
        times: dict[str, list[float]] = {name: [] for name in uids}

        def note(call: ApiCall) -> KubeObject:
            times[call.resource.name].append(asyncio.get_running_loop().time())
            return {"kind": "Lease", "metadata": {"name": call.resource.name}}

        fake.handle(PATCH, note)
        await asyncio.sleep(120)
        del times["stuck"]
        for seen in times.values():
            pairs = itertools.pairwise(seen)
            assert max(later - earlier for earlier, later in pairs) < 20
        assert world.renewals("stuck") >= 6


async def test_slow_answer_does_not_hold_up_the_next_renewal() -> None:
    async with FakeApiServer() as fake, keep(fake, n="u1"):
        fake.requests.clear()
        fake.delay_next(PATCH, 25.0)
        await asyncio.sleep(25)
        assert len(fake.calls(PATCH)) in {3, 4}


async def test_api_server_that_is_away_is_told_of_in_few_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    uids = {f"n{number}": "u" for number in range(50)}
    async with FakeApiServer() as fake, keep(fake, **uids) as world:
        await fake.stop()
        caplog.clear()
        await asyncio.sleep(35)
        lines = [line for line in caplog.messages if "the Lease wasn't renewed" in line]
        assert 3 <= len(lines) <= 120
        assert any(" more: the Lease wasn't renewed: home API server" in line for line in lines)
        await fake.start()
        fake.requests.clear()
        await asyncio.sleep(12)
        assert {call.resource.name for call in fake.calls(PATCH)} == set(world.uids)


async def test_nodes_that_came_together_do_not_renew_together() -> None:
    random.seed(4)
    seconds: Counter[int] = Counter()

    def note(call: ApiCall) -> KubeObject:
        seconds[int(asyncio.get_running_loop().time())] += 1
        return {"kind": "Lease", "metadata": {"name": call.resource.name}}

    async with FakeApiServer() as fake:
        fake.handle(PATCH, note)
        uids = {f"n{number}": "u" for number in range(100)}
        async with keep(fake, **uids):
            await asyncio.sleep(40)
    assert seconds.pop(0) == 100  # none waits with its first
    assert max(seconds.values()) <= 25


async def test_those_that_are_due_go_together() -> None:
    connections = set()

    def note(call: ApiCall) -> KubeObject:
        connections.add(call.request.transport)
        return {"kind": "Lease", "metadata": {"name": call.resource.name}}

    async with FakeApiServer() as fake:
        fake.handle(PATCH, note)
        uids = {f"n{number}": "u" for number in range(100)}
        async with keep(fake, **uids):
            await asyncio.sleep(60)
            connections.clear()
            await asyncio.sleep(60)
    assert len(connections) <= 3


async def test_times_are_micro_times() -> None:
    async with FakeApiServer() as fake, keep(fake, n="u1") as world:
        text = world.find()["spec"]["renewTime"]
        assert len(text) == len("2026-01-02T03:04:05.000000Z")
        moment = parse_time(text)
        assert moment is not None
        assert moment.utcoffset() == timedelta(0)
