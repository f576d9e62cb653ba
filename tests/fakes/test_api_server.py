import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from tests.fakes.api_objects import matches_labels, merge_patch, parse_path, strategic_merge
from tests.fakes.api_server import ApiCall, ApiFailureError, Ending, FakeApiServer, WatchList
from vkubelet.kube.client import KubeClient, PatchType
from vkubelet.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    GoneError,
    InvalidError,
    NotFoundError,
    ServerError,
    UnauthorizedError,
    UnreachableError,
)
from vkubelet.kube.objects import (
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    KubeObject,
    NamespacedName,
    Resource,
)

pytestmark = pytest.mark.virtual_time

KEY = NamespacedName("ns", "p")


@pytest.fixture
async def fake() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as server:
        yield server


@pytest.fixture
async def client(fake: FakeApiServer) -> AsyncIterator[KubeClient]:
    async with fake.client("home") as opened:
        yield opened


def build_pod(name: str = "p", **spec: Any) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


async def read_events(client: KubeClient, **arguments: Any) -> list[tuple[str, KubeObject]]:
    """All events of a watch of pods that lasts a second."""
    async with aclosing(client.watch(PODS, timeout_seconds=1, **arguments)) as stream:
        return [
            (event.type, json.loads(bytes(event.object)))
            async for event in stream
            if event.type != "BOOKMARK"
        ]


# Objects.


async def test_create_get_list_delete(fake: FakeApiServer, client: KubeClient) -> None:
    created = await client.create(PODS, build_pod())
    assert created["metadata"]["uid"]
    assert created["metadata"]["generation"] == 1
    assert created["status"]["phase"] == "Pending"
    assert await client.get(PODS, KEY) == created == fake.get(PODS, "ns", "p")
    assert await client.list(PODS) == [created]
    await client.delete(PODS, KEY)
    with pytest.raises(NotFoundError):
        await client.get(PODS, KEY)
    with pytest.raises(NotFoundError):
        await client.delete(PODS, KEY)
    assert [call.what for call in fake.requests][:3] == ["create pods", "get pods", "list pods"]


async def test_names(client: KubeClient) -> None:
    await client.create(PODS, build_pod())
    with pytest.raises(AlreadyExistsError):
        await client.create(PODS, build_pod())
    generated = build_pod("")
    generated["metadata"]["generateName"] = "p-"
    first, second = [await client.create(PODS, generated) for _ in range(2)]
    assert first["metadata"]["name"].startswith("p-")
    assert first["metadata"]["name"] != second["metadata"]["name"]
    with pytest.raises(InvalidError):
        await client.create(PODS, build_pod(""))
    with pytest.raises(BadRequestError):
        await client.create(PODS, build_pod("q"), namespace="other")


async def test_items_of_a_list_have_no_kind(fake: FakeApiServer, client: KubeClient) -> None:
    fake.put(build_pod())
    assert b'"items":[{"metadata"' in await client.get_bytes("/api/v1/pods")


async def test_pages_are_of_one_moment(fake: FakeApiServer, client: KubeClient) -> None:
    for number in range(5):
        fake.put(build_pod(f"p{number}"))
    first = await client.list_page(PODS, limit=3)
    fake.remove(PODS, "ns", "p4")
    second = await client.list_page(PODS, limit=3, continue_token=first.continue_token)
    assert (len(first.items), len(second.items), second.continue_token) == (3, 2, "")
    assert first.resource_version == second.resource_version
    fake.expire_history()
    with pytest.raises(GoneError):
        await client.list_page(PODS, limit=3, continue_token=first.continue_token)


async def test_field_selectors(fake: FakeApiServer, client: KubeClient) -> None:
    fake.put({**build_pod("a", nodeName="n"), "status": {"phase": "Running"}})
    fake.put(build_pod("b"))

    async def names(selector: str) -> str:
        found = await client.list(PODS, field_selector=selector)
        return "".join(pod["metadata"]["name"] for pod in found)

    assert await names("spec.nodeName=n") == "a"
    assert await names("spec.nodeName!=n") == "b"
    assert await names("spec.nodeName!=,status.phase==Running") == "a"
    assert await names("metadata.namespace=ns,metadata.name=b") == "b"
    with pytest.raises(BadRequestError, match="field label not supported"):
        await names("spec.hostname=x")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("a=1", True),
        ("a==1,b=2", True),
        ("a=1,b=3", False),
        ("a!=1", False),
        ("z!=1", True),
        ("a in (0, 1)", True),
        ("a notin (1)", False),
        ("z notin (1)", True),
        ("a,!z", True),
        ("!a", False),
        ("z", False),
        ("x.y/z-w in (v)", True),
    ],
)
def test_label_selectors(selector: str, expected: bool) -> None:
    body = {"metadata": {"labels": {"a": "1", "b": "2", "x.y/z-w": "v"}}}
    assert matches_labels(body, selector) is expected


def test_bad_label_selector() -> None:
    with pytest.raises(ApiFailureError):
        matches_labels({"metadata": {}}, "a in b")


def test_paths() -> None:
    def words(path: str) -> tuple[str, str, str, str] | None:
        parsed = parse_path(path)
        if parsed is None:
            return None
        return parsed.resource.plural, parsed.namespace, parsed.name, parsed.subresource

    assert words("/api/v1/nodes") == ("nodes", "", "", "")
    assert words("/api/v1/nodes/n/status") == ("nodes", "", "n", "status")
    assert words("/api/v1/namespaces") == ("namespaces", "", "", "")
    assert words("/api/v1/namespaces/x") == ("namespaces", "", "x", "")
    assert words("/api/v1/namespaces/x/status") == ("namespaces", "", "x", "status")
    assert words("/api/v1/namespaces/x/pods") == ("pods", "x", "", "")
    assert words("/api/v1/namespaces/x/pods/p/log") == ("pods", "x", "p", "log")
    assert words("/apis/coordination.k8s.io/v1/namespaces/x/leases/l") == ("leases", "x", "l", "")
    assert words("/version") is None


async def test_unknown_resources_are_kept_too(fake: FakeApiServer, client: KubeClient) -> None:
    widgets = Resource("example.com", "v1", "widgets", "Widget")
    body: KubeObject = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"namespace": "ns", "name": "w"},
    }
    fake.put(body)
    assert (await client.get(widgets, NamespacedName("ns", "w")))["kind"] == "Widget"
    assert len(await client.list(widgets)) == 1


async def test_cluster_scoped(fake: FakeApiServer, client: KubeClient) -> None:
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}, "status": {"x": 1}}
    created = await client.create(NODES, node)
    assert created["status"] == {"x": 1}, "a Node may bring its status"
    assert fake.get(NODES, "", "n") == created
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "x"}}
    await client.create(NAMESPACES, namespace)
    assert fake.find(NAMESPACES, "", "x") is not None


# Updates.


async def test_put_needs_the_newest_version(fake: FakeApiServer, client: KubeClient) -> None:
    old = fake.put(build_pod())
    new = await client.replace(PODS, {**old, "spec": {**old["spec"], "nodeName": "n"}})
    assert new["metadata"]["generation"] == 2
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    with pytest.raises(ConflictError):
        await client.replace(PODS, old)


async def test_update_without_a_change_makes_no_version(
    fake: FakeApiServer, client: KubeClient
) -> None:
    old = fake.put(build_pod())
    assert await client.replace(PODS, old) == old
    patch = {"metadata": {"name": "p"}}
    assert await client.patch(PODS, KEY, patch, PatchType.MERGE) == old


async def test_status_has_its_own_door(fake: FakeApiServer, client: KubeClient) -> None:
    fake.put({**build_pod(), "status": {"phase": "Pending"}})
    both = {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    changed = await client.patch(PODS, KEY, both, PatchType.MERGE)
    assert (changed["spec"]["nodeName"], changed["status"]["phase"]) == ("n", "Pending")
    both = {"spec": {"nodeName": "other"}, "status": {"phase": "Running"}}
    changed = await client.patch(PODS, KEY, both, PatchType.MERGE, subresource="status")
    assert (changed["spec"]["nodeName"], changed["status"]["phase"]) == ("n", "Running")
    assert changed["metadata"]["generation"] == 2


def test_merge_patch() -> None:
    assert merge_patch({"a": 1, "b": {"c": 2, "d": [3]}}, {"a": None, "b": {"d": [4]}}) == {
        "b": {"c": 2, "d": [4]}
    }


def test_strategic_merge() -> None:
    before = {
        "conditions": [{"type": "Ready", "status": "False", "x": 1}, {"type": "Other"}],
        "taints": [{"key": "a"}, {"key": "b"}],
        "args": ["1", "2"],
        "map": {"a": 1},
        "finalizers": ["x"],
    }
    patch = {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "New"}],
        "taints": [{"key": "a", "$patch": "delete"}],
        "args": ["3"],
        "map": {"$patch": "replace", "b": 2},
        "finalizers": ["y"],
        "$setElementOrder/conditions": [],
    }
    assert strategic_merge(before, patch) == {
        "conditions": [
            {"type": "Ready", "status": "True", "x": 1},
            {"type": "Other"},
            {"type": "New"},
        ],
        "taints": [{"key": "b"}],
        "args": ["3"],
        "map": {"b": 2},
        "finalizers": ["x", "y"],
    }


async def test_json_patch(fake: FakeApiServer, client: KubeClient) -> None:
    fake.put({**build_pod(), "metadata": {"namespace": "ns", "name": "p", "labels": {"a/b": "1"}}})
    changed = await client.patch(
        PODS,
        KEY,
        [
            {"op": "test", "path": "/metadata/labels/a~1b", "value": "1"},
            {"op": "replace", "path": "/metadata/labels/a~1b", "value": "2"},
            {"op": "add", "path": "/spec/containers/-", "value": {"name": "d"}},
            {"op": "remove", "path": "/spec/containers/0"},
        ],
        PatchType.JSON,
    )
    assert changed["metadata"]["labels"] == {"a/b": "2"}
    assert changed["spec"]["containers"] == [{"name": "d"}]
    for operation in (
        {"op": "test", "path": "/metadata/name", "value": "q"},
        {"op": "remove", "path": "/metadata/labels/none"},
        {"op": "replace", "path": "/spec/none", "value": 1},
        {"op": "fly", "path": "/spec"},
    ):
        with pytest.raises(InvalidError):
            await client.patch(PODS, KEY, [operation], PatchType.JSON)


async def test_version_in_a_patch_is_a_precondition(
    fake: FakeApiServer, client: KubeClient
) -> None:
    old = fake.put(build_pod())
    fake.put(build_pod(nodeName="n"))
    version = old["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}}
    with pytest.raises(ConflictError):
        await client.patch(PODS, KEY, patch, PatchType.MERGE)


async def test_apply_makes_merges_and_takes_back(fake: FakeApiServer, client: KubeClient) -> None:
    def node(**labels: str) -> KubeObject:
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n", "labels": labels},
        }

    await client.apply(NODES, node(a="1", b="2"), field_manager="us")
    key = NamespacedName("", "n")
    await client.patch(NODES, key, {"metadata": {"labels": {"user": "x"}}}, PatchType.MERGE)
    applied = await client.apply(NODES, node(a="1", c="3"), field_manager="us")
    assert applied["metadata"]["labels"] == {"a": "1", "c": "3", "user": "x"}
    assert [e["manager"] for e in applied["metadata"]["managedFields"]] == ["us"]
    again = await client.apply(NODES, node(a="1", c="3"), field_manager="us")
    assert again["metadata"]["resourceVersion"] == applied["metadata"]["resourceVersion"]
    assert fake.calls("apply nodes")[0].query["fieldManager"] == "us"


async def test_objects_without_status_subresource(client: KubeClient) -> None:
    body: KubeObject = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "ns", "name": "c"},
        "data": {"a": "1"},
    }
    created = await client.create(CONFIG_MAPS, body)
    assert "generation" not in created["metadata"]
    changed = await client.replace(CONFIG_MAPS, {**created, "data": {"a": "2"}})
    assert changed["data"] == {"a": "2"}
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": "ns", "name": "l"},
        "spec": {"holderIdentity": "me"},
    }
    assert (await client.create(LEASES, lease))["spec"] == {"holderIdentity": "me"}


# Deletion.


async def test_pod_on_a_node_goes_gracefully(fake: FakeApiServer, client: KubeClient) -> None:
    fake.put(build_pod(nodeName="n", terminationGracePeriodSeconds=120))
    await client.delete(PODS, KEY)
    metadata = fake.get(PODS, "ns", "p")["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 120
    assert metadata["deletionTimestamp"]
    await client.delete(PODS, KEY, grace_period_seconds=500)
    assert fake.get(PODS, "ns", "p")["metadata"] == metadata, "never longer"
    await client.delete(PODS, KEY, grace_period_seconds=5)
    assert fake.get(PODS, "ns", "p")["metadata"]["deletionGracePeriodSeconds"] == 5
    await client.patch(PODS, KEY, {"status": {"x": 1}}, PatchType.MERGE, subresource="status")
    await client.delete(PODS, KEY, grace_period_seconds=0)
    assert fake.find(PODS, "ns", "p") is None


@pytest.mark.parametrize(
    "pod",
    [build_pod(), {**build_pod(nodeName="n"), "status": {"phase": "Succeeded"}}],
    ids=["no node", "ended"],
)
async def test_pods_without_grace(fake: FakeApiServer, client: KubeClient, pod: KubeObject) -> None:
    fake.put(pod)
    await client.delete(PODS, KEY)
    assert fake.find(PODS, "ns", "p") is None


async def test_preconditions(fake: FakeApiServer, client: KubeClient) -> None:
    metadata = fake.put(build_pod())["metadata"]
    with pytest.raises(ConflictError, match="UID in the precondition"):
        await client.delete(PODS, KEY, uid="other")
    with pytest.raises(ConflictError):
        await client.delete(PODS, KEY, resource_version="1")
    await client.delete(
        PODS, KEY, uid=metadata["uid"], resource_version=metadata["resourceVersion"]
    )
    assert fake.find(PODS, "ns", "p") is None


async def test_finalizers_hold_the_object(fake: FakeApiServer, client: KubeClient) -> None:
    pod = build_pod()
    pod["metadata"]["finalizers"] = ["x/y"]
    fake.put(pod)
    await client.delete(PODS, KEY)
    await client.delete(PODS, KEY, grace_period_seconds=0)
    assert fake.get(PODS, "ns", "p")["metadata"]["deletionTimestamp"]
    await client.patch(PODS, KEY, {"metadata": {"finalizers": None}}, PatchType.MERGE)
    assert fake.find(PODS, "ns", "p") is None


async def test_eviction_and_binding(fake: FakeApiServer, client: KubeClient) -> None:
    fake.put(build_pod())
    await client.create(
        PODS,
        {"apiVersion": "v1", "kind": "Binding", "target": {"name": "n"}},
        namespace="ns",
        name="p",
        subresource="binding",
    )
    assert fake.get(PODS, "ns", "p")["spec"]["nodeName"] == "n"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    await client.create(PODS, eviction, namespace="ns", name="p", subresource="eviction")
    assert fake.get(PODS, "ns", "p")["metadata"]["deletionGracePeriodSeconds"] == 30


# Watches.


async def test_watch_gives_what_changed(fake: FakeApiServer, client: KubeClient) -> None:
    version = fake.put(build_pod("before"))["metadata"]["resourceVersion"]
    fake.put(build_pod("a"))
    fake.put(build_pod("a", nodeName="n"))
    await client.delete(PODS, NamespacedName("ns", "a"), grace_period_seconds=0)
    events = await read_events(client, resource_version=version)
    seen = [(kind, body["metadata"].get("deletionGracePeriodSeconds")) for kind, body in events]
    assert seen == [("ADDED", None), ("MODIFIED", None), ("MODIFIED", 0), ("DELETED", 0)]
    versions = [int(body["metadata"]["resourceVersion"]) for _, body in events]
    assert versions == sorted(set(versions))
    assert all(body["kind"] == "Pod" for _, body in events)


async def test_watch_with_a_selector_sees_objects_come_and_go(
    fake: FakeApiServer, client: KubeClient
) -> None:
    version = fake.put(build_pod("a"))["metadata"]["resourceVersion"]
    fake.put(build_pod("a", nodeName="n"))
    fake.put(build_pod("a", nodeName="n", x=1))
    last = fake.put(build_pod("a", nodeName="other"))
    events = await read_events(client, resource_version=version, field_selector="spec.nodeName=n")
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    gone = events[-1][1]
    assert gone["spec"]["nodeName"] == "n"
    assert gone["metadata"]["resourceVersion"] == last["metadata"]["resourceVersion"]


async def test_watch_without_a_version_starts_with_what_is_there(
    fake: FakeApiServer, client: KubeClient
) -> None:
    fake.put(build_pod("a"))
    assert [kind for kind, _ in await read_events(client)] == ["ADDED"]
    fake.watch_list = WatchList.IGNORED
    assert [kind for kind, _ in await read_events(client, send_initial_events=True)] == ["ADDED"]


async def test_initial_events_end_with_a_bookmark(fake: FakeApiServer, client: KubeClient) -> None:
    fake.put(build_pod("a"))
    kinds = []
    watch = client.watch(PODS, send_initial_events=True, timeout_seconds=150)
    async with aclosing(watch) as stream:
        async for event in stream:
            body = json.loads(bytes(event.object))
            annotations = body["metadata"].get("annotations", {})
            kinds.append((event.type, annotations.get("k8s.io/initial-events-end")))
    assert kinds == [
        ("ADDED", None),
        ("BOOKMARK", "true"),
        ("BOOKMARK", None),
        ("BOOKMARK", None),
        ("BOOKMARK", None),
    ], "each minute, and short before the end"
    assert asyncio.get_running_loop().time() == pytest.approx(150)


async def test_server_without_watch_list(fake: FakeApiServer, client: KubeClient) -> None:
    fake.watch_list = WatchList.FORBIDDEN
    with pytest.raises(InvalidError, match="sendInitialEvents is forbidden for watch unless"):
        await read_events(client, send_initial_events=True)


async def test_watch_from_an_expired_version(fake: FakeApiServer, client: KubeClient) -> None:
    version = fake.put(build_pod("a"))["metadata"]["resourceVersion"]
    fake.expire_history()
    with pytest.raises(GoneError, match="too old resource version"):
        await read_events(client, resource_version=version)
    fresh = (await client.list_page(PODS)).resource_version
    fake.put(build_pod("b"))
    assert len(await read_events(client, resource_version=fresh)) == 1


# Faults and hooks.


async def test_faults_meet_the_calls_they_are_for(fake: FakeApiServer, client: KubeClient) -> None:
    fake.put(build_pod())
    fake.fail_next("get pods", 500, times=2)
    fake.fail_next(lambda call: call.query.get("labelSelector") == "a", 503)
    for _ in range(2):
        with pytest.raises(ServerError):
            await client.get(PODS, KEY)
    await client.get(PODS, KEY)
    await client.list(PODS)
    with pytest.raises(ServerError):
        await client.list(PODS, label_selector="a")
    fake.drop_next("delete pods", times=2)
    with pytest.raises(UnreachableError):
        await client.delete(PODS, KEY)
    assert fake.find(PODS, "ns", "p") is not None
    fake.cut_body_next("list")
    with pytest.raises(UnreachableError):
        await client.list(PODS)


async def test_delay(fake: FakeApiServer, client: KubeClient) -> None:
    fake.put(build_pod())
    fake.delay_next("get *", 20)
    await client.get(PODS, KEY)
    assert asyncio.get_running_loop().time() == pytest.approx(20)


@pytest.mark.parametrize("ending", list(Ending))
async def test_watches_end_as_told(fake: FakeApiServer, client: KubeClient, ending: Ending) -> None:
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(read_events_or_error(client))
        await fake.wait_for_watches()
        fake.cut_watches(ending)
    assert isinstance(watching.result(), UnreachableError) is (ending is not Ending.CLEAN)
    assert fake.watch_count() == 0


async def read_events_or_error(client: KubeClient) -> object:
    try:
        return await read_events(client)
    except UnreachableError as error:
        return error


async def test_watch_that_ends_at_once_and_one_that_errs(
    fake: FakeApiServer, client: KubeClient
) -> None:
    fake.put(build_pod())
    fake.end_next()
    assert await read_events(client) == []
    fake.fail_next("watch pods", 410, reason="Expired", as_event=True)
    with pytest.raises(GoneError):
        await read_events(client)


async def test_stop_and_start_keep_port_and_state(fake: FakeApiServer, client: KubeClient) -> None:
    fake.put(build_pod())
    await client.get(PODS, KEY)
    await fake.stop()
    with pytest.raises(UnreachableError):
        await client.get(PODS, KEY)
    await fake.start()
    await client.get(PODS, KEY)


async def test_tokens(fake: FakeApiServer) -> None:
    fake.tokens = {"good"}
    async with fake.client("home", token="good") as client:
        await client.list(PODS)
        fake.tokens = {"newer"}
        with pytest.raises(UnauthorizedError):
            await client.list(PODS)


async def test_hooks_answer_in_place_of_the_fake(fake: FakeApiServer, client: KubeClient) -> None:
    def allow(call: ApiCall) -> KubeObject:
        allowed = call.body["spec"]["user"] == "admin"
        return {**call.body, "status": {"allowed": allowed}}

    async def refuse(call: ApiCall) -> KubeObject:
        raise ApiFailureError(429, "TooManyRequests", "budget", retry_after_seconds=3)

    fake.handle("create subjectaccessreviews", allow)
    fake.handle("create pods/eviction", refuse)
    fake.handle("GET /metrics", lambda _: {"hello": "there"})
    review = await client.create(SUBJECT_ACCESS_REVIEWS, {"spec": {"user": "admin"}})
    assert review["status"]["allowed"] is True
    own = await client.create(SELF_SUBJECT_ACCESS_REVIEWS, {"spec": {}})
    assert own["status"]["allowed"] is True, "the default"
    assert json.loads(await client.get_bytes("/metrics")) == {"hello": "there"}
    assert await client.get_bytes("/livez") == b"ok"
    with pytest.raises(NotFoundError):
        await client.get_bytes("/nowhere")
