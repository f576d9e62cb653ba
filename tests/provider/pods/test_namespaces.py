"""Remote namespaces and anchors: made once, never taken from anybody."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from provider.pods.namespaces import RemoteNamespaces, build_namespace, build_namespace_name
from tests.fakes.api_server import FakeApiServer
from tests.provider.values import PEERING
from vkubelet.errors import RefusedError, RetryError
from vkubelet.kube.errors import ServerError
from vkubelet.kube.objects import CONFIG_MAPS, NAMESPACES

TEMPLATE = "{namespace}-{home_cluster}"


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as server:
        yield server


@pytest_asyncio.fixture
async def namespaces(fake: FakeApiServer) -> AsyncIterator[RemoteNamespaces]:
    async with fake.client("remote") as client:
        yield RemoteNamespaces(client, PEERING, template=TEMPLATE, adopt=False)


def test_a_name_from_the_template() -> None:
    assert build_namespace_name(TEMPLATE, "demo", PEERING) == "demo-home"
    assert build_namespace_name("{remote_cluster}-x", "demo", PEERING) == "cloud-x"


@pytest.mark.parametrize("level", ["baseline", "privileged"])
async def test_pod_security_is_enforced_in_what_is_made(fake: FakeApiServer, level: str) -> None:
    async with fake.client("remote") as client:
        namespaces = RemoteNamespaces(
            client, PEERING, template=TEMPLATE, adopt=False, pod_security=level
        )
        await namespaces.ensure("demo")
    labels = fake.get(NAMESPACES, "", "demo-home")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == level


def test_long_names_are_cut_and_stay_apart() -> None:
    names = {
        build_namespace_name(TEMPLATE, namespace, PEERING)
        for namespace in ("a" * 63, "a" * 62 + "b", "a" * 60)
    }
    assert len(names) == 3
    assert all(len(name) <= 63 for name in names)


async def test_makes_both_for_the_first_pod_and_looks_no_more(
    fake: FakeApiServer, namespaces: RemoteNamespaces
) -> None:
    reference = await namespaces.ensure("demo")
    anchor = fake.get(CONFIG_MAPS, "demo-home", "vkubelet-cloud")
    assert reference["uid"] == anchor["metadata"]["uid"]
    assert (reference["kind"], reference["controller"]) == ("ConfigMap", True)
    labels = fake.get(NAMESPACES, "", "demo-home")["metadata"]["labels"]
    assert PEERING.owns_labels(labels)
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    asked = len(fake.requests)
    assert await namespaces.ensure("demo") == reference
    assert len(fake.requests) == asked


async def test_uses_what_an_earlier_process_made(
    fake: FakeApiServer, namespaces: RemoteNamespaces
) -> None:
    fake.put(build_namespace("demo-home", "demo", PEERING))
    await namespaces.ensure("demo")
    assert fake.calls("create namespaces") == []


async def test_a_namespace_of_somebody_else_is_refused(
    fake: FakeApiServer, namespaces: RemoteNamespaces
) -> None:
    fake.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo-home"}})
    with pytest.raises(RefusedError, match="demo-home exists and is not of this peering"):
        await namespaces.ensure("demo")
    assert fake.objects(CONFIG_MAPS) == []


async def test_it_is_used_when_that_is_asked_for(fake: FakeApiServer) -> None:
    fake.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo-home"}})
    async with fake.client("remote") as client:
        await RemoteNamespaces(client, PEERING, template=TEMPLATE, adopt=True).ensure("demo")
    assert "labels" not in fake.get(NAMESPACES, "", "demo-home")["metadata"]


async def test_a_namespace_of_another_home_namespace_is_refused(
    fake: FakeApiServer, namespaces: RemoteNamespaces
) -> None:
    fake.put(build_namespace("demo-home", "other", PEERING))
    with pytest.raises(RefusedError, match="already belongs to home namespace other"):
        await namespaces.ensure("demo")


async def test_an_anchor_of_somebody_else_is_refused(
    fake: FakeApiServer, namespaces: RemoteNamespaces
) -> None:
    fake.put(build_namespace("demo-home", "demo", PEERING))
    fake.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "vkubelet-cloud", "namespace": "demo-home"},
        }
    )
    with pytest.raises(RefusedError, match="demo-home/vkubelet-cloud exists"):
        await namespaces.ensure("demo")


async def test_one_that_is_being_deleted_is_waited_for(
    fake: FakeApiServer, namespaces: RemoteNamespaces
) -> None:
    body = build_namespace("demo-home", "demo", PEERING)
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    body["metadata"]["finalizers"] = ["kubernetes"]
    fake.put(body)
    with pytest.raises(RetryError, match="is being deleted"):
        await namespaces.ensure("demo")


async def test_a_failure_is_not_remembered(
    fake: FakeApiServer, namespaces: RemoteNamespaces
) -> None:
    fake.fail_next("create configmaps", 500)
    with pytest.raises(ServerError):
        await namespaces.ensure("demo")
    assert (await namespaces.ensure("demo"))["name"] == "vkubelet-cloud"


async def test_what_is_gone_is_made_again_once_told(
    fake: FakeApiServer, namespaces: RemoteNamespaces
) -> None:
    before = await namespaces.ensure("demo")
    fake.remove(CONFIG_MAPS, "demo-home", "vkubelet-cloud")
    namespaces.forget("demo-home")
    after = await namespaces.ensure("demo")
    assert after["uid"] != before["uid"]
