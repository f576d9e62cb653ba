"""Remote namespaces and anchors: made once, never taken from anybody."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from provider.peering import Peering
from provider.pods.namespaces import RemoteNamespaces, build_namespace, build_namespace_name
from tests.fakes.api_server import FakeApiServer
from tests.provider.values import ANCHOR_NAME, PEERING
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
    anchor = fake.get(CONFIG_MAPS, "demo-home", ANCHOR_NAME)
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
            "metadata": {"name": ANCHOR_NAME, "namespace": "demo-home"},
        }
    )
    with pytest.raises(RefusedError, match=f"demo-home/{ANCHOR_NAME} exists"):
        await namespaces.ensure("demo")


async def test_two_home_clusters_may_share_a_namespace(fake: FakeApiServer) -> None:
    """Both call the remote cluster the same."""
    other = Peering(home_uid="uid-of-another", home_cluster="other", remote_cluster="cloud")
    async with fake.client("remote") as client:
        ours = RemoteNamespaces(client, PEERING, template="{namespace}", adopt=True)
        theirs = RemoteNamespaces(client, other, template="{namespace}", adopt=True)
        mine, yours = await ours.ensure("demo"), await theirs.ensure("demo")
    assert mine["uid"] != yours["uid"]
    assert {mine["name"][:15], yours["name"][:15]} == {"vkubelet-cloud-"}
    assert PEERING.owns_labels(fake.get(NAMESPACES, "", "demo")["metadata"]["labels"])


@pytest.mark.parametrize("verb", ["get", "create"])
async def test_one_that_may_not_be_read_or_made_is_a_refusal(
    fake: FakeApiServer, namespaces: RemoteNamespaces, verb: str
) -> None:
    fake.fail_next(f"{verb} namespaces", 403)
    with pytest.raises(RefusedError, match="demo-home can't be read, or isn't there") as caught:
        await namespaces.ensure("demo")
    assert caught.value.reason == "RemoteNamespaceForbidden"
    assert (await namespaces.ensure("demo"))["name"] == ANCHOR_NAME, "once the right is there"


async def test_other_failures_to_look_are_passed_on(
    fake: FakeApiServer, namespaces: RemoteNamespaces
) -> None:
    fake.fail_next("get namespaces", 500)
    with pytest.raises(ServerError):
        await namespaces.ensure("demo")
    assert fake.calls("create namespaces") == []


async def test_an_anchor_that_may_not_be_made_is_a_refusal(
    fake: FakeApiServer, namespaces: RemoteNamespaces
) -> None:
    fake.fail_next("create configmaps", 403, message="exceeded quota: few")
    with pytest.raises(RefusedError, match="exceeded quota: few"):
        await namespaces.ensure("demo")
    fake.fail_next("create configmaps", 403, message="demo-home is being terminated")
    with pytest.raises(RetryError, match="is being terminated"):
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
    assert (await namespaces.ensure("demo"))["name"] == ANCHOR_NAME


async def test_what_is_gone_is_made_again_once_told(
    fake: FakeApiServer, namespaces: RemoteNamespaces
) -> None:
    before = await namespaces.ensure("demo")
    fake.remove(CONFIG_MAPS, "demo-home", ANCHOR_NAME)
    namespaces.forget("demo-home")
    after = await namespaces.ensure("demo")
    assert after["uid"] != before["uid"]
