"""Which namespaces are reflected."""

import asyncio

import pytest

from tests.fakes.api_server import FakeApiServer
from vkubelet.config import NamespaceFilter
from vkubelet.kube.objects import NAMESPACES, KubeObject
from vkubelet.pods.namespaces import ReflectedNamespaces

pytestmark = pytest.mark.virtual_time


def build_namespace(name: str, **labels: str) -> KubeObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


async def test_names_alone_need_no_watch() -> None:
    async with FakeApiServer() as fake, fake.client("home") as client:
        namespaces = ReflectedNamespaces(client, NamespaceFilter(names=frozenset({"a"})))
        assert namespaces.synced
        await namespaces.wait_synced()
        assert namespaces.reflects("a")
        assert not namespaces.reflects("b")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(600):
                await namespaces.run()
        assert fake.requests == []


async def test_selector_is_followed() -> None:
    async with FakeApiServer() as fake, fake.client("home") as client, asyncio.TaskGroup() as group:
        fake.put(build_namespace("a", x="y"))
        fake.put(build_namespace("b"))
        fake.put(build_namespace("kube-system", x="y"))
        chosen = NamespaceFilter(names=frozenset({"named"}), selector="x=y")
        namespaces = ReflectedNamespaces(client, chosen)
        changed: list[str] = []
        namespaces.add_handler(changed.append)
        task = group.create_task(namespaces.run())
        await namespaces.wait_synced()
        assert [n for n in ("a", "b", "named", "kube-system") if namespaces.reflects(n)] == [
            "a",
            "named",
        ]
        changed.clear()
        fake.put(build_namespace("b", x="y"))
        fake.put(build_namespace("a", x="y", other="z"))
        await asyncio.sleep(1)
        assert namespaces.reflects("b")
        fake.remove(NAMESPACES, "", "a")
        await asyncio.sleep(1)
        assert not namespaces.reflects("a")
        assert changed == ["b", "a"]
        task.cancel()
