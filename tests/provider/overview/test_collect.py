"""An overview of what a home API shows."""

from collections.abc import AsyncIterator

import pytest

from provider.overview.collect import build_overview, take_overview
from provider.overview.report import Overview
from provider.vitals import Vitals
from tests.fakes.api_server import FakeApiServer
from tests.provider.overview.values import NOW, build_lock, build_pod, build_virtual_node
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import KubeError
from vkubelet.kube.objects import KubeObject


@pytest.fixture
async def home() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as fake:
        fake.put(build_virtual_node("cloud"))
        fake.put(build_virtual_node("other", "other"))
        fake.put(build_lock("cloud", namespace="vkubelet"))
        fake.put(build_lock("other"))
        fake.put(build_pod("web"))
        fake.put(build_pod("elsewhere", "real"))
        real = build_virtual_node("real")
        real["metadata"]["labels"] = {}
        fake.put(real)
        yield fake


@pytest.fixture
async def client(home: FakeApiServer) -> AsyncIterator[KubeClient]:
    async with home.client("home") as client:
        yield client


def names(overview: Overview) -> list[str]:
    return [peering.name for peering in overview.peerings]


async def test_all_peerings_wherever_their_locks_are(client: KubeClient) -> None:
    overview = await take_overview(client, None, None, NOW)
    assert names(overview) == ["cloud", "other"]
    cloud, other = overview.peerings
    assert [str(lock.key) for lock in cloud.locks] == ["vkubelet/vkubelet-cloud"]
    assert cloud.phases == {"Running": 1}
    assert [node.name for node in other.nodes] == ["other"]
    assert overview.warnings == ()


async def test_one_peering(client: KubeClient) -> None:
    overview = await take_overview(client, "other", None, NOW)
    assert names(overview) == ["other"]
    assert [str(lock.key) for lock in overview.peerings[0].locks] == ["kube-system/vkubelet-other"]


async def test_a_peering_that_is_not_there(client: KubeClient) -> None:
    overview = await take_overview(client, "nowhere", None, NOW)
    assert names(overview) == ["nowhere"]
    assert "nowhere: no process serves it" in overview.warnings[0]


async def test_locks_that_may_not_be_listed_are_read_where_they_are_said_to_be(
    home: FakeApiServer, client: KubeClient
) -> None:
    home.fail_next("list leases", 403, reason="Forbidden", times=2)
    overview = await take_overview(client, None, "vkubelet", NOW)
    assert overview.peerings[0].locks[0].holder == "vkubelet-0_1"
    assert "other: no lock vkubelet/vkubelet-other" in overview.warnings[0]
    home.fail_next("get leases", 403, reason="Forbidden")
    overview = await take_overview(client, "cloud", "vkubelet", NOW)
    assert "may not be read: get leases is needed" in overview.warnings[0]


async def test_nodes_that_may_not_be_listed(home: FakeApiServer, client: KubeClient) -> None:
    home.fail_next("list nodes", 403, reason="Forbidden")
    with pytest.raises(KubeError):
        await take_overview(client, None, None, NOW)


def overview_of(*objects: KubeObject) -> Overview:
    by_kind: dict[str, list[KubeObject]] = {"Node": [], "Pod": [], "Lease": []}
    for obj in objects:
        by_kind[obj["kind"]].append(obj)
    return build_overview(by_kind["Node"], by_kind["Pod"], by_kind["Lease"], NOW)


def test_what_a_node_says() -> None:
    vitals = Vitals(version="0.1.0", certificates={"cloud": "2027-01-31T12:00:00Z"})
    overview = overview_of(
        build_virtual_node("cloud", spec={"unschedulable": True}),
        build_lock(vitals=vitals),
        build_pod("a"),
        build_pod("b", phase="Succeeded"),
        build_pod("c", phase="Failed"),
        build_pod("d", deleted=True),
    )
    (node,) = overview.peerings[0].nodes
    assert (node.ready, node.reason, node.cordoned) == ("True", "KubeletReady", True)
    assert (node.members, node.eligible, node.pods) == (3, 2, 2)
    assert node.largest_free == {"name": "ssd-1", "free": {"cpu": "2", "memory": "6Gi"}}
    assert node.certificate_expires == "2027-01-31T12:00:00Z"


def test_a_node_that_says_nothing() -> None:
    node = build_virtual_node("cloud", annotations={"vkubelet.io/members": "not JSON"})
    del node["status"]
    (found,) = overview_of(node).peerings[0].nodes
    assert (found.ready, found.members, found.largest_free) == ("Unknown", None, None)


@pytest.mark.parametrize(
    ("lock", "warns", "tells"),
    [
        (build_lock(), False, True),
        (build_lock(renewed="2027-01-01T11:59:00Z"), True, False),
        (build_lock(holder=""), True, False),
        (build_lock(renewed="garbage"), True, False),
    ],
)
def test_what_a_process_said_counts_while_it_runs(
    lock: KubeObject, *, warns: bool, tells: bool
) -> None:
    overview = overview_of(build_virtual_node("cloud"), lock)
    assert any("no process serves it" in text for text in overview.warnings) is warns
    assert (overview.peerings[0].vitals is not None) is tells


def test_two_processes_with_locks_of_their_own() -> None:
    overview = overview_of(build_lock(namespace="a"), build_lock(namespace="b"))
    (warning,) = overview.warnings
    assert "with the locks a/vkubelet-cloud, b/vkubelet-cloud: stop all but one" in warning


def test_the_lock_that_was_renewed_last_comes_first() -> None:
    old = build_lock(namespace="old", renewed="2026-01-01T00:00:00Z")
    overview = overview_of(old, build_lock(namespace="new"))
    assert [lock.key.namespace for lock in overview.peerings[0].locks] == ["new", "old"]
    assert overview.warnings == ()
