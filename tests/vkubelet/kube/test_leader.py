"""The lock against a fake API server, in virtual time: who gets it, when, and who must stop."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.fakes.api_server import FakeApiServer
from vkubelet.errors import LeaseLostError
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import ForbiddenError
from vkubelet.kube.leader import LeaderLock
from vkubelet.kube.objects import LEASES, KubeObject

pytestmark = pytest.mark.virtual_time

NAMESPACE, NAME = "kube-system", "vkubelet-provider"


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as fake:
        yield fake


@pytest.fixture
async def client(server: FakeApiServer) -> AsyncIterator[KubeClient]:
    async with server.client("home") as client:
        yield client


def lock_of(client: KubeClient, identity: str) -> LeaderLock:
    return LeaderLock(client, namespace=NAMESPACE, name=NAME, identity=identity)


def never(holder: str) -> None:
    raise AssertionError(f"waited for {holder}")


def read_spec(server: FakeApiServer) -> KubeObject:
    spec: KubeObject = server.get(LEASES, NAMESPACE, NAME)["spec"]
    return spec


def put_lease(server: FakeApiServer, holder: str, **spec: object) -> None:
    server.put(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": NAMESPACE, "name": NAME, "labels": {"keep": "me"}},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, **spec},
        }
    )


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_first_one_gets_it(server: FakeApiServer, client: KubeClient) -> None:
    await lock_of(client, "a").acquire(never)
    spec = read_spec(server)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("a", 15)
    assert spec["leaseTransitions"] == 0
    assert spec["renewTime"].endswith("Z")


async def test_own_lock_is_taken_up_again(server: FakeApiServer, client: KubeClient) -> None:
    put_lease(server, "a", acquireTime="2026-01-01T00:00:00.000000Z", leaseTransitions=3)
    await lock_of(client, "a").acquire(never)
    spec = read_spec(server)
    assert spec["leaseTransitions"] == 3
    assert spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert server.get(LEASES, NAMESPACE, NAME)["metadata"]["labels"] == {"keep": "me"}


async def test_annotations_are_written_with_each_renewal(
    server: FakeApiServer, client: KubeClient
) -> None:
    put_lease(server, "")
    times = 0

    def annotate() -> dict[str, str]:
        nonlocal times
        times += 1
        return {"times": str(times)}

    lock = LeaderLock(client, namespace=NAMESPACE, name=NAME, identity="a", annotate=annotate)
    await lock.acquire(never)
    lease = server.get(LEASES, NAMESPACE, NAME)
    server.put({**lease, "metadata": {**lease["metadata"], "annotations": {"theirs": "1"}}})
    async with asyncio.TaskGroup() as group:
        task = group.create_task(lock.run())
        await asyncio.sleep(12)
        task.cancel()
    metadata = server.get(LEASES, NAMESPACE, NAME)["metadata"]
    assert metadata["annotations"]["theirs"] == "1"
    assert int(metadata["annotations"]["times"]) >= 3
    assert metadata["labels"] == {"keep": "me"}


async def test_silent_holder_is_replaced_after_its_duration(
    server: FakeApiServer, client: KubeClient
) -> None:
    # Its times say it was dead for years; what counts is how long we see it silent.
    put_lease(server, "b", renewTime="2020-01-01T00:00:00.000000Z", leaseTransitions=1)
    waits: list[str] = []
    await lock_of(client, "a").acquire(waits.append)
    assert waits == ["b"]
    assert 15 <= now() < 15 + 3
    assert read_spec(server)["holderIdentity"] == "a"
    assert read_spec(server)["leaseTransitions"] == 2


async def test_second_process_waits_until_release(
    server: FakeApiServer, client: KubeClient
) -> None:
    first, second = lock_of(client, "a"), lock_of(client, "b")
    waits: list[str] = []
    await first.acquire(never)
    async with asyncio.TaskGroup() as group:
        renewing = group.create_task(first.run())
        waiting = group.create_task(second.acquire(waits.append))
        await asyncio.sleep(100)
        assert waits == ["a"]
        assert not waiting.done()
        renewing.cancel()
        await first.release()
        released_at = now()
        await waiting
    assert now() - released_at < 3
    assert read_spec(server)["holderIdentity"] == "b"
    assert read_spec(server)["leaseDurationSeconds"] == 15


async def test_change_of_the_holder_is_told(server: FakeApiServer, client: KubeClient) -> None:
    put_lease(server, "b")
    waits: list[str] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(lock_of(client, "a").acquire(waits.append))
        await asyncio.sleep(10)
        put_lease(server, "c")
        await asyncio.sleep(10)
        assert waits == ["b", "c"]
        put_lease(server, "")


async def test_passing_trouble_while_acquiring(server: FakeApiServer, client: KubeClient) -> None:
    server.fail_next("get leases", 500, times=3)
    server.drop_next("create leases")
    server.fail_next("create leases", 409, reason="AlreadyExists")
    await lock_of(client, "a").acquire(never)
    assert read_spec(server)["holderIdentity"] == "a"


async def test_missing_right_ends_acquiring(server: FakeApiServer, client: KubeClient) -> None:
    server.fail_next("create leases", 403, reason="Forbidden", message="cannot create leases")
    with pytest.raises(ForbiddenError, match="cannot create leases"):
        await lock_of(client, "a").acquire(never)


async def test_run_renews(server: FakeApiServer, client: KubeClient) -> None:
    lock = lock_of(client, "a")
    await lock.acquire(never)
    async with asyncio.TaskGroup() as group:
        renewing = group.create_task(lock.run())
        await asyncio.sleep(61)
        renewing.cancel()
    assert len(server.calls("update leases")) == 12


async def test_foreign_write_that_leaves_the_holder(
    server: FakeApiServer, client: KubeClient
) -> None:
    lock = lock_of(client, "a")
    await lock.acquire(never)
    put_lease(server, "a")
    async with asyncio.TaskGroup() as group:
        renewing = group.create_task(lock.run())
        await asyncio.sleep(60)
        assert not renewing.done()
        renewing.cancel()


async def test_deleted_lease_is_made_again(server: FakeApiServer, client: KubeClient) -> None:
    lock = lock_of(client, "a")
    await lock.acquire(never)
    server.remove(LEASES, NAMESPACE, NAME)
    async with asyncio.TaskGroup() as group:
        renewing = group.create_task(lock.run())
        await asyncio.sleep(6)
        assert read_spec(server)["holderIdentity"] == "a"
        renewing.cancel()


async def test_another_holder_ends_run(server: FakeApiServer, client: KubeClient) -> None:
    lock = lock_of(client, "a")
    await lock.acquire(never)
    put_lease(server, "b")
    with pytest.raises(LeaseLostError, match="kube-system/vkubelet-provider: b has the lock now"):
        await lock.run()
    await lock.release()
    assert read_spec(server)["holderIdentity"] == "b"


@pytest.mark.parametrize(
    "break_server",
    [
        lambda server: server.fail_next("* leases", 500, times=100),
        lambda server: server.delay_next("* leases", 1000, times=100),
        lambda server: server.fail_next("* leases", 403, times=100),
    ],
    ids=["failing", "silent", "forbidden"],
)
async def test_holder_stops_before_another_may_start(
    server: FakeApiServer, client: KubeClient, break_server: Callable[[FakeApiServer], None]
) -> None:
    lock = lock_of(client, "a")
    await lock.acquire(never)
    break_server(server)
    with pytest.raises(LeaseLostError, match="couldn't be renewed in time"):
        await lock.run()
    assert now() == pytest.approx(12, abs=0.1)


async def test_short_outage_is_survived(server: FakeApiServer, client: KubeClient) -> None:
    lock = lock_of(client, "a")
    await lock.acquire(never)
    server.fail_next("* leases", 503, times=2)
    async with asyncio.TaskGroup() as group:
        renewing = group.create_task(lock.run())
        await asyncio.sleep(60)
        assert not renewing.done()
        renewing.cancel()


async def test_release_after_a_conflict(server: FakeApiServer, client: KubeClient) -> None:
    lock = lock_of(client, "a")
    await lock.acquire(never)
    put_lease(server, "a")
    await lock.release()
    assert read_spec(server)["holderIdentity"] == ""
    await lock.release()
    assert len(server.calls("update leases")) == 2


async def test_release_is_bounded(server: FakeApiServer, client: KubeClient) -> None:
    lock = lock_of(client, "a")
    await lock.acquire(never)
    server.delay_next("update leases", 1000)
    await lock.release()
    assert now() == pytest.approx(3, abs=0.1)


async def test_release_of_a_lock_that_is_gone(server: FakeApiServer, client: KubeClient) -> None:
    lock = lock_of(client, "a")
    await lock.release()
    await lock.acquire(never)
    server.remove(LEASES, NAMESPACE, NAME)
    await lock.release()
    assert server.find(LEASES, NAMESPACE, NAME) is None


async def test_run_without_the_lock(client: KubeClient) -> None:
    with pytest.raises(LeaseLostError, match="never ours"):
        await lock_of(client, "a").run()
