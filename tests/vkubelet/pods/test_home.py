"""Following the pods of a changing set of nodes."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

from tests.fakes.api_server import FakeApiServer
from vkubelet.kube.objects import PODS, KubeObject, NamespacedName, encode_object
from vkubelet.pods.home import MAX_NODES_APART, HomePods, decode_home_pod

pytestmark = pytest.mark.virtual_time

MANY = [f"n{number}" for number in range(MAX_NODES_APART + 4)]


def build_pod(name: str, node: str, **metadata: object) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "a", "name": name, "uid": f"u-{name}", **metadata},
        "spec": {"nodeName": node, "future": [1]},
        "status": {"phase": "Pending"},
    }


@asynccontextmanager
async def follow(fake: FakeApiServer, nodes: Iterable[str]) -> AsyncIterator[HomePods]:
    async with fake.client("home") as client:
        home = HomePods(client)
        assert not home.synced
        home.set_nodes(list(nodes))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(home.run())
            await home.wait_synced()
            yield home
            task.cancel()


def names(home: HomePods) -> set[str]:
    return {pod.metadata.name for pod in home}


async def change(home: HomePods, nodes: Iterable[str]) -> None:
    home.set_nodes(list(nodes))
    await asyncio.sleep(1)
    assert home.synced


def test_decode_keeps_everything_but_managed_fields() -> None:
    pod = build_pod("p", "n", labels={"x": "y"}, managedFields=[{"manager": "m"}], future={"z": 1})
    found = decode_home_pod(encode_object(pod))
    del pod["metadata"]["managedFields"]
    assert found.decode() == pod
    assert found.node == "n"
    assert found.metadata.labels == {"x": "y"}


def test_digest_is_of_what_is_applied() -> None:
    def digest(pod: KubeObject) -> int:
        return decode_home_pod(encode_object(pod)).digest

    pod = build_pod("p", "n", labels={"x": "y", "a": "b"})
    assert digest(pod) == digest({**pod, "status": {"phase": "Running"}})
    assert digest(pod) == digest(build_pod("p", "n", labels={"a": "b", "x": "y"}))
    assert digest(pod) != digest(build_pod("p", "n", labels={"x": "z", "a": "b"}))
    assert digest(pod) != digest(build_pod("p", "n", annotations={"x": "y", "a": "b"}))
    assert digest(pod) != digest({**pod, "spec": {"nodeName": "n"}})


def test_decode_of_an_item_without_type() -> None:
    pod = build_pod("p", "n")
    del pod["apiVersion"], pod["kind"], pod["status"]
    found = decode_home_pod(encode_object(pod)).decode()
    assert (found["apiVersion"], found["kind"]) == ("v1", "Pod")


async def test_no_nodes_is_synced_at_once() -> None:
    async with FakeApiServer() as fake, follow(fake, []) as home:
        assert len(home) == 0
        assert fake.requests == []


async def test_few_nodes_have_a_watch_each() -> None:
    async with FakeApiServer() as fake:
        for node in ("n0", "n1", "real"):
            fake.put(build_pod(f"p-{node}", node))
        async with follow(fake, ["n0", "n1"]) as home:
            assert names(home) == {"p-n0", "p-n1"}
            assert fake.watch_count("watch pods") == 2
            assert home.find("n0", "a", "p-n0") is not None
            assert home.find("n1", "a", "p-n0") is None
            assert [pod.metadata.name for pod in home.on_node("n1")] == ["p-n1"]
            assert home.get(NamespacedName("a", "p-real")) is None


async def test_nodes_come_and_go() -> None:
    async with FakeApiServer() as fake:
        for node in ("n0", "n1"):
            fake.put(build_pod(f"p-{node}", node))
        async with follow(fake, ["n0"]) as home:
            changed: list[str] = []
            home.add_handler(lambda key: changed.append(key.name))
            await change(home, ["n0", "n1"])
            assert names(home) == {"p-n0", "p-n1"}
            await change(home, ["n1"])
            assert names(home) == {"p-n1"}
            assert fake.watch_count("watch pods") == 1
            fake.remove(PODS, "a", "p-n1")
            await asyncio.sleep(1)
            assert changed == ["p-n1", "p-n0", "p-n1"]
            await change(home, [])
            assert fake.watch_count("watch pods") == 0


async def test_many_nodes_share_one_watch() -> None:
    async with FakeApiServer() as fake:
        for node in (*MANY, "real"):
            fake.put(build_pod(f"p-{node}", node))
        async with follow(fake, MANY) as home:
            assert names(home) == {f"p-{node}" for node in MANY}
            assert fake.watch_count("watch pods") == 1
            fake.put(build_pod("late", MANY[0]))
            fake.put(build_pod("foreign", "real"))
            await asyncio.sleep(1)
            assert home.find(MANY[0], "a", "late") is not None
            assert "foreign" not in names(home)
            fake.remove(PODS, "a", "late")
            fake.remove(PODS, "a", "foreign")
            await asyncio.sleep(1)
            assert len(home) == len(MANY)


async def test_growing_beyond_the_limit_and_back() -> None:
    async with FakeApiServer() as fake:
        for node in (*MANY, "new"):
            fake.put(build_pod(f"p-{node}", node))
        async with follow(fake, MANY[:2]) as home:
            await change(home, MANY)
            assert fake.watch_count("watch pods") == 1
            assert len(home) == len(MANY)
            fake.remove(PODS, "a", "p-n0")
            await asyncio.sleep(1)
            assert "p-n0" not in names(home)
            await change(home, [*MANY, "new"])  # its pod was there, and left out so far
            assert "p-new" in names(home)
            await change(home, MANY[:2])
            assert names(home) == {"p-n1"}
            assert fake.watch_count("watch pods") == 1


async def test_nodes_that_change_while_syncing() -> None:
    async with FakeApiServer() as fake:
        fake.put(build_pod("p", "n1"))
        fake.delay_next("watch pods", 5.0)
        async with fake.client("home") as client, asyncio.TaskGroup() as group:
            home = HomePods(client)
            home.set_nodes(["n0"])
            task = group.create_task(home.run())
            await asyncio.sleep(1)
            home.set_nodes(["n1"])
            await home.wait_synced()
            assert names(home) == {"p"}
            task.cancel()


async def test_pod_of_another_uid_under_the_same_name() -> None:
    async with FakeApiServer() as fake:
        fake.put(build_pod("p", "n0"))
        async with follow(fake, ["n0", "n1"]) as home:
            fake.remove(PODS, "a", "p")
            fake.put(
                {**build_pod("p", "n1"), "metadata": {"namespace": "a", "name": "p", "uid": "2"}}
            )
            await asyncio.sleep(1)
            found = home.get(NamespacedName("a", "p"))
            assert found is not None
            assert (found.metadata.uid, found.node) == ("2", "n1")


async def test_read_asks_the_api_server() -> None:
    async with FakeApiServer() as fake, fake.client("home") as client:
        home = HomePods(client)
        assert await home.read("a", "p") is None
        fake.put(build_pod("p", "n0"))
        pod = await home.read("a", "p")
        assert pod is not None
        assert (pod.metadata.uid, pod.node) == ("u-p", "n0")
        assert pod.decode()["status"] == {"phase": "Pending"}
        fake.fail_next("get pods", 403)
        assert await home.read("a", "p") is None
