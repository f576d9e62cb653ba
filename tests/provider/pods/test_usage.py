"""What pods take, from either side's API into the ledger."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import given, strategies as st

from provider.capacity import CapacityLedger
from provider.labels import HOME_POD_UID
from provider.pods.followed import FollowedPods
from provider.pods.usage import HomeUsage, OwnUsage, RemoteUsage, SharedValues
from provider.requests import decode_counted_pod, pod_requests
from tests.fakes.api_server import FakeApiServer
from tests.provider.values import PEERING
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import PODS, KubeObject, NamespacedName
from vkubelet.pods.home import HomePods
from vkubelet.supervision import run_component


class Told:
    """Lets a test wait until the ledger says what it should."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self.ledger = CapacityLedger(self._on_change, self._on_change)

    def _on_change(self, _: str) -> None:
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def running(*runs: Callable[[], Any]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run_component("tested", run)) for run in runs]
        yield
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def open_api() -> AsyncIterator[tuple[FakeApiServer, KubeClient]]:
    async with FakeApiServer() as fake, fake.client("remote") as client:
        yield fake, client


def build_pod(name: str, node: str, cpu: str = "1", **parts: Any) -> KubeObject:
    metadata = {"name": name, "namespace": "a", **parts.pop("metadata", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": "Running", **parts},
    }


def ours(uid: str) -> KubeObject:
    return {"labels": {**PEERING.labels, HOME_POD_UID: uid}}


async def test_all_pods_of_the_remote_cluster_are_counted_until_they_end() -> None:
    told = Told()
    async with open_api() as (fake, client):
        fake.put(build_pod("there", "n1", "2"))
        fake.put(build_pod("done", "n1", phase="Succeeded"))
        usage = RemoteUsage(client, PEERING, told.ledger)
        async with running(usage.run):
            await usage.wait_synced()
            assert told.ledger.used("n1") == {"cpu": Decimal(2), "pods": Decimal(1)}
            fake.put(build_pod("more", "n1", "500m"))
            await told.until(lambda: told.ledger.used("n1").get("cpu") == Decimal("2.5"))
            fake.put(build_pod("there", "n1", "2", phase="Failed"))
            await told.until(lambda: told.ledger.used("n1").get("cpu") == Decimal("0.5"))
            fake.remove(PODS, "a", "more")
            await told.until(lambda: not told.ledger.used("n1"))


async def test_only_our_own_label_makes_a_pod_ours() -> None:
    told = Told()
    told.ledger.set_home_pod("u1", virtual_node="cloud", requests={"cpu": Decimal(1)})
    async with open_api() as (fake, client):
        stranger = {"labels": {HOME_POD_UID: "u1"}}  # somebody's claim, without the peering
        fake.put(build_pod("forged", "n1", metadata=stranger))
        usage = RemoteUsage(client, PEERING, told.ledger)
        async with running(usage.run):
            await usage.wait_synced()
            assert told.ledger.returned("cloud") == {}
            fake.put(build_pod("true", "n1", metadata=ours("u1")))
            await told.until(lambda: told.ledger.returned("cloud") == {"cpu": Decimal(1)})


async def test_without_the_others_only_our_own_are_counted() -> None:
    told = Told()
    async with open_api() as (fake, client):
        fake.put(build_pod("foreign", "n1", "2"))
        fake.put(build_pod("own", "n1", "1", metadata=ours("u1")))
        pods = FollowedPods(client, label_selector=PEERING.label_selector)
        usage = OwnUsage(pods, told.ledger)
        async with running(pods.run, usage.run):
            await usage.wait_synced()
            assert told.ledger.used("n1") == {"cpu": Decimal(1), "pods": Decimal(1)}
            fake.put(build_pod("own", "n1", "1", metadata=ours("u1"), phase="Succeeded"))
            await told.until(lambda: not told.ledger.used("n1"))
            fake.remove(PODS, "a", "own")


async def test_home_pods_are_counted_for_the_node_they_are_bound_to() -> None:
    told = Told()
    for uid in ("u1", "u2"):
        told.ledger.set_remote_pod(
            NamespacedName("a", uid), node="n1", requests={"cpu": Decimal(1)}, home_uid=uid
        )
    async with open_api() as (fake, client):
        fake.put(build_pod("p", "cloud", "1", metadata={"uid": "u1"}))
        pods, usage = HomePods(client), HomeUsage(told.ledger)
        usage.follow(pods)
        async with running(pods.run):
            pods.set_nodes(["cloud"])
            async with asyncio.timeout(5):
                await usage.wait_synced()
            assert told.ledger.returned("cloud")["cpu"] == Decimal(1)
            # Another pod of the same name: the first one's share is forgotten.
            fake.put(build_pod("p", "cloud", "3", metadata={"uid": "u2"}))
            await told.until(lambda: told.ledger.returned("cloud").get("cpu") == Decimal(3))
            fake.put(build_pod("p", "cloud", "3", metadata={"uid": "u2"}, phase="Failed"))
            await told.until(lambda: told.ledger.returned("cloud") == {})
            fake.remove(PODS, "a", "p")


def test_equal_values_become_one_up_to_a_limit() -> None:
    shared = SharedValues(limit=2)
    first = {"cpu": Decimal(1)}
    assert shared.share_resources(first) is first
    assert shared.share_resources({"cpu": Decimal("1.0")}) is first
    assert shared.share_resources({"cpu": Decimal(2)}) == {"cpu": Decimal(2)}
    late = {"cpu": Decimal(3)}
    assert shared.share_resources(late) is late
    assert shared.share_resources({"cpu": Decimal(3)}) is not late
    assert shared.share_resources({"cpu": Decimal(1)}) is first
    assert [shared.share_text(text) for text in ("a", "b", "c", "a")] == ["a", "b", "c", "a"]


texts = st.text(max_size=5)
unknown = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)
quantities = st.sampled_from(["1", "500m", "2Gi", "1e3", "0"])
requests = st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/x"]), quantities)


@given(
    requests,
    st.dictionaries(st.sampled_from(["volumes", "future", "affinity"]), unknown),
    st.dictionaries(st.sampled_from(["podIP", "future"]), unknown),
)
def test_what_is_not_counted_does_not_matter(
    amounts: dict[str, str], spec: dict[str, Any], status: dict[str, Any]
) -> None:
    pod = build_pod("p", "n1", **status)
    pod["spec"]["containers"][0]["resources"]["requests"] = amounts
    plain = pod_requests(decode_counted_pod(msgspec.json.encode(pod)))
    pod["spec"] |= spec
    odd = decode_counted_pod(msgspec.json.encode(pod))
    assert pod_requests(odd) == plain
    assert odd.spec.node_name == "n1"
