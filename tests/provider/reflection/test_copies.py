"""Writing copies: with the watch behind, with objects that come and go, and what is accepted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from provider.reflection.content import Content, decode_source
from provider.reflection.copies import COPY, RemoteCopies, build_metadata
from tests.fakes.api_server import ApiCall, FakeApiServer
from tests.provider.values import PEERING
from vkubelet.errors import RefusedError, RetryError
from vkubelet.kube.objects import CONFIG_MAPS, SECRETS, KubeObject, NamespacedName

pytestmark = pytest.mark.virtual_time

KEY = NamespacedName("demo-r", "copy")
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "vkubelet-cloud", "uid": "anchor"}
METADATA = build_metadata(PEERING, OWNER, role=COPY)


def source(**fields: Any) -> Content:
    return decode_source(msgspec.json.encode({"metadata": {"name": "a"}, **fields}))


ONE, TWO = source(data={"a": "1"}), source(data={"a": "2"})


@asynccontextmanager
async def run(fake: FakeApiServer, namespaces: tuple[str, ...] = ()) -> AsyncIterator[RemoteCopies]:
    async with fake.client("remote") as client:
        copies = RemoteCopies(client, PEERING, namespaces=namespaces)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(copies.run())
            await copies.wait_synced()
            yield copies
            task.cancel()


def data(fake: FakeApiServer) -> Any:
    return fake.get(CONFIG_MAPS, *KEY).get("data")


async def test_our_own_writes_are_known_before_the_watch_tells() -> None:
    async with FakeApiServer() as fake, run(fake) as copies:
        await fake.wait_for_watches(count=2)
        fake.mute_watches()
        for content in (ONE, ONE, TWO, TWO):
            await copies.bring("ConfigMap", KEY, content, METADATA)
        assert data(fake) == {"a": "2"}
        verbs = [call.verb for call in fake.requests if call.verb not in ("list", "watch")]
        assert verbs == ["create", "update"]
        known = copies.get("ConfigMap", KEY)
        assert known is not None
        await copies.delete("ConfigMap", known)
        assert copies.get("ConfigMap", KEY) is None
        await copies.bring("ConfigMap", KEY, ONE, METADATA)
        assert data(fake) == {"a": "1"}


async def test_what_an_earlier_process_made_is_found_though_not_watched_yet() -> None:
    async with FakeApiServer() as fake, run(fake) as copies:
        await fake.wait_for_watches(count=2)
        fake.mute_watches()
        async with run(fake) as other:
            await other.bring("ConfigMap", KEY, ONE, METADATA)
        await copies.bring("ConfigMap", KEY, TWO, METADATA)
        assert data(fake) == {"a": "2"}


async def test_a_foreign_object_is_refused_also_when_it_took_the_place_of_ours() -> None:
    async with FakeApiServer() as fake, run(fake) as copies:
        await fake.wait_for_watches(count=2)
        await copies.bring("ConfigMap", KEY, ONE, METADATA)
        fake.mute_watches()
        fake.remove(CONFIG_MAPS, *KEY)
        fake.put(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": "demo-r", "name": "copy", "labels": PEERING.labels},
                "data": {"whose": "theirs"},
            }
        )
        with pytest.raises(RefusedError, match="RemoteObjectNotOurs"):
            await copies.bring("ConfigMap", KEY, TWO, METADATA)
        assert data(fake) == {"whose": "theirs"}


async def test_one_that_is_being_deleted_has_to_go_first() -> None:
    async with FakeApiServer() as fake, run(fake) as copies:
        await copies.bring("ConfigMap", KEY, ONE, METADATA)
        body = fake.get(CONFIG_MAPS, *KEY)
        fake.put(
            {
                **body,
                "metadata": {
                    **body["metadata"],
                    "finalizers": ["a/b"],
                    "deletionTimestamp": "2026-01-01T00:00:00Z",
                },
            }
        )
        await asyncio.sleep(1)
        with pytest.raises(RetryError, match="is being deleted"):
            await copies.bring("ConfigMap", KEY, TWO, METADATA)


async def test_a_server_that_keeps_less_is_not_asked_again_and_again() -> None:
    async with FakeApiServer() as fake, run(fake) as copies:

        def drop_newer(call: ApiCall) -> KubeObject:
            kept = {name: value for name, value in call.body.items() if name != "newer"}
            return fake.put(kept)

        fake.handle("create configmaps", drop_newer)
        fake.handle("update configmaps", drop_newer)
        newer = source(data={"a": "1"}, newer={"x": 1})
        for _ in range(3):
            await copies.bring("ConfigMap", KEY, newer, METADATA)
            await asyncio.sleep(1)
        assert len(fake.calls("create configmaps")) == 1
        assert fake.calls("update configmaps") == []
        await copies.bring("ConfigMap", KEY, TWO, METADATA)
        assert data(fake) == {"a": "2"}


async def test_another_anchor_means_another_owner() -> None:
    async with FakeApiServer() as fake, run(fake) as copies:
        await copies.bring("ConfigMap", KEY, ONE, METADATA)
        owner = {**OWNER, "uid": "next"}
        await copies.bring("ConfigMap", KEY, ONE, build_metadata(PEERING, owner, role=COPY))
        (found,) = fake.get(CONFIG_MAPS, *KEY)["metadata"]["ownerReferences"]
        assert found["uid"] == "next"


@pytest.mark.parametrize(
    ("status", "message", "error", "said"),
    [
        (404, "namespaces demo-r not found", RetryError, "remote namespace demo-r is gone"),
        (403, "namespace is being terminated", RetryError, "being terminated"),
        (403, "exceeded quota", RefusedError, "RemoteObjectForbidden: exceeded quota"),
        (422, "c2VjcmV0 is wrong", RefusedError, "RemoteConfigMapInvalid: the remote API server"),
    ],
)
async def test_what_the_server_refuses(
    status: int, message: str, error: type[Exception], said: str
) -> None:
    async with FakeApiServer() as fake, run(fake) as copies:
        fake.fail_next("create configmaps", status, message=message)
        with pytest.raises(error, match=said):
            await copies.bring("ConfigMap", KEY, ONE, METADATA)


async def test_only_what_is_ours_is_seen_and_in_the_namespaces_that_are_followed() -> None:
    async with FakeApiServer() as fake, run(fake, ("demo-r", "other-r")) as copies:
        await copies.bring("ConfigMap", KEY, ONE, METADATA)
        await asyncio.sleep(1)
        assert [kind for kind, _ in copies.all()] == ["ConfigMap"]
        watched = {call.path for call in fake.calls("watch *")}
        assert "/api/v1/namespaces/other-r/secrets" in watched
        assert not watched & {"/api/v1/secrets", "/api/v1/configmaps"}
        selectors = {call.query["labelSelector"] for call in fake.calls("watch *")}
        assert selectors == {f"{PEERING.label_selector},vkubelet.io/dependent"}


async def test_tokens_are_written_and_replaced() -> None:
    async with FakeApiServer() as fake, run(fake) as copies:
        metadata = build_metadata(
            PEERING, OWNER, role="token", labels={"vkubelet.io/home-pod-uid": "u"}
        )
        for token in ("first", "second"):
            await copies.put_token(KEY, token, metadata)
        assert fake.get(SECRETS, *KEY)["data"] == {"token": "c2Vjb25k"}
        await asyncio.sleep(1)
        assert [content.metadata.name for content in copies.of_pod("Secret", "u")] == ["copy"]
        assert copies.of_pod("Secret", "v") == []
