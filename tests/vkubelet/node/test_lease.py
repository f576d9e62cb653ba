"""Renewing a node's Lease."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tests.fakes.api_server import ApiCall, FakeApiServer
from vkubelet.config import KubeletPolicy
from vkubelet.kube.objects import LEASES, KubeObject
from vkubelet.node.lease import LEASE_NAMESPACE, NodeLease
from vkubelet.times import parse_time

pytestmark = pytest.mark.virtual_time

POLICY = KubeletPolicy(owner_labels={"owner": "us"}, address="10.0.0.9")


class Registered:
    """The Node's UID, once it has one."""

    def __init__(self, uid: str = "u1") -> None:
        self.uid = uid

    async def wait(self) -> str:
        while not self.uid:
            await asyncio.sleep(0.1)
        return self.uid


@asynccontextmanager
async def renew(fake: FakeApiServer, registered: Registered) -> AsyncIterator[None]:
    async with fake.client("home") as client, asyncio.TaskGroup() as group:
        lease = NodeLease(client, "n", POLICY, registered.wait)
        task = group.create_task(lease.run())
        await asyncio.sleep(1)
        yield
        task.cancel()


def find(fake: FakeApiServer) -> KubeObject:
    return fake.get(LEASES, LEASE_NAMESPACE, "n")


async def test_lease_is_made_and_renewed_every_ten_seconds() -> None:
    async with FakeApiServer() as fake, renew(fake, Registered()):
        lease = find(fake)
        assert lease["spec"]["holderIdentity"] == "n"
        assert lease["spec"]["leaseDurationSeconds"] == 40
        assert lease["metadata"]["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u1"}
        ]
        renewed = parse_time(lease["spec"]["renewTime"])
        assert renewed is not None
        await asyncio.sleep(600)
        assert len(fake.calls("create leases")) == 1
        assert 57 <= len(fake.calls("patch leases")) <= 61
        assert parse_time(find(fake)["spec"]["renewTime"]) != renewed


async def test_nothing_is_written_before_the_node_is_there() -> None:
    registered = Registered("")
    async with FakeApiServer() as fake, renew(fake, registered):
        await asyncio.sleep(100)
        assert fake.requests == []
        registered.uid = "u2"
        await asyncio.sleep(1)
        assert find(fake)["metadata"]["ownerReferences"][0]["uid"] == "u2"


async def test_node_that_is_registered_again_owns_the_lease() -> None:
    registered = Registered()
    async with FakeApiServer() as fake, renew(fake, registered):
        registered.uid = "u2"
        await asyncio.sleep(11)
        assert [o["uid"] for o in find(fake)["metadata"]["ownerReferences"]] == ["u2"]


async def test_deleted_lease_is_made_again() -> None:
    async with FakeApiServer() as fake, renew(fake, Registered()):
        fake.remove(LEASES, LEASE_NAMESPACE, "n")
        await asyncio.sleep(11)
        assert find(fake)["spec"]["holderIdentity"] == "n"


async def test_failures_are_tried_again_soon_and_never_in_a_hurry() -> None:
    async with FakeApiServer() as fake, renew(fake, Registered()):
        fake.fail_next("patch leases", 500, times=3)
        fake.drop_next("patch leases")
        await asyncio.sleep(30)
        assert 5 <= len(fake.calls("patch leases")) <= 9


async def test_slow_answer_does_not_hold_up_the_next_renewal() -> None:
    async with FakeApiServer() as fake, renew(fake, Registered()):
        fake.delay_next("patch leases", 25.0)
        await asyncio.sleep(25)
        assert len(fake.calls("patch leases")) in {3, 4}


async def test_nodes_that_came_together_do_not_renew_together() -> None:
    random.seed(4)
    seconds: Counter[int] = Counter()
    async with FakeApiServer() as fake, fake.client("home") as client:

        def note(call: ApiCall) -> KubeObject:
            seconds[int(asyncio.get_running_loop().time())] += 1
            return {"kind": "Lease", "metadata": {"name": call.resource.name}}

        fake.handle("patch leases", note)
        async with asyncio.TaskGroup() as group:
            leases = [NodeLease(client, f"n{i}", POLICY, Registered().wait) for i in range(100)]
            tasks = [group.create_task(lease.run()) for lease in leases]
            await asyncio.sleep(30.5)
            for task in tasks:
                task.cancel()
    assert seconds.pop(0) >= 100  # none waits with its first
    assert max(seconds.values()) <= 25


async def test_times_are_micro_times() -> None:
    async with FakeApiServer() as fake, renew(fake, Registered()):
        text = find(fake)["spec"]["renewTime"]
        assert len(text) == len("2026-01-02T03:04:05.000000Z")
        moment = parse_time(text)
        assert moment is not None
        assert moment.utcoffset() == timedelta(0)
