"""Remote pods: made once, deleted by UID, and a feed that misses nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import pytest_asyncio

from provider.pods.namespaces import RemoteNamespaces
from provider.pods.remote_pods import RemotePods
from provider.reflection.dependents import Dependents
from provider.translation.affinity import VirtualNodeView
from provider.translation.pod import TranslatedPod, TranslationContext, translate_pod
from provider.translation.selection import Selection
from provider.translation.status import translate_status
from tests.fakes.api_server import FakeApiServer
from tests.provider.values import ANCHOR_NAME, PEERING, build_home_pod
from vkubelet.errors import RefusedError, RetryError
from vkubelet.interface import (
    Gone,
    PodRef,
    PodStatus,
    Reachable,
    StatusEvent,
    Synced,
    Unblocked,
    Unreachable,
)
from vkubelet.kube.errors import ConflictError
from vkubelet.kube.objects import PODS, KubeObject, NamespacedName
from vkubelet.kube.selector import parse_selector

REF = PodRef("demo", "web", "uid-web")


@dataclass
class Running:
    """Remote pods that run against a fake, and their feed."""

    fake: FakeApiServer
    pods: RemotePods
    feed: AsyncIterator[StatusEvent]

    async def next(self) -> StatusEvent:
        async with asyncio.timeout(5):
            return await anext(self.feed)

    async def until(self, kind: type[StatusEvent]) -> StatusEvent:
        while True:
            event = await self.next()
            if isinstance(event, kind):
                return event


def translate(node: str, pod: KubeObject, *, remote_namespace: str) -> TranslatedPod:
    context = TranslationContext(
        home_cluster_uid=PEERING.home_uid,
        peering=PEERING.remote_cluster,
        remote_namespace=remote_namespace,
        node=VirtualNodeView(node),
        selection=Selection.of_selector(parse_selector("type notin (virtual-kubelet)")),
    )
    return translate_pod(pod, context)


@asynccontextmanager
async def run(fake: FakeApiServer) -> AsyncIterator[Running]:
    async with fake.client("remote") as client:
        namespaces = RemoteNamespaces(client, PEERING, template="{namespace}-r", adopt=False)
        pods = RemotePods(
            client,
            PEERING,
            namespaces,
            Dependents(client, client, PEERING, namespaces),
            translate=translate,
            translate_status=lambda pod: translate_status(pod, None, host_address="192.0.2.1"),
        )
        async with asyncio.TaskGroup() as group:
            task = group.create_task(pods.run())
            yield Running(fake, pods, aiter(pods.watch_statuses()))
            task.cancel()


@pytest_asyncio.fixture
async def running() -> AsyncIterator[Running]:
    async with FakeApiServer() as fake, run(fake) as started:
        yield started


async def test_makes_the_pod_once_with_labels_and_controller(running: Running) -> None:
    assert await running.next() == Synced()
    await running.pods.apply("cloud", build_home_pod())
    event = await running.next()
    assert isinstance(event, PodStatus)
    assert (event.ref, event.node) == (REF, "cloud")
    await running.pods.apply("cloud", build_home_pod())
    assert len(running.fake.objects(PODS)) == 1
    metadata = running.fake.get(PODS, "demo-r", "web")["metadata"]
    assert PEERING.owns_labels(metadata["labels"])
    (owner,) = metadata["ownerReferences"]
    assert (owner["name"], owner["controller"]) == (ANCHOR_NAME, True)


async def test_an_answer_that_was_lost_makes_no_second_pod(running: Running) -> None:
    await running.until(Synced)
    running.fake.mute_watches("watch pods")
    await running.pods.apply("cloud", build_home_pod())
    await running.pods.apply("cloud", build_home_pod())  # the watch hasn't told of the first
    assert len(running.fake.objects(PODS)) == 1
    assert isinstance(await running.next(), PodStatus)


async def test_somebody_elses_pod_is_refused_and_left_alone(running: Running) -> None:
    foreign = build_home_pod(uid="foreign")
    foreign["metadata"]["namespace"] = "demo-r"
    running.fake.put(foreign)
    with pytest.raises(RefusedError, match="demo-r/web exists and is not of this peering"):
        await running.pods.apply("cloud", build_home_pod())
    await running.pods.delete(REF, grace_period_seconds=0)
    assert running.fake.find(PODS, "demo-r", "web") is not None
    assert await running.until(Gone) == Gone(REF)


async def test_an_earlier_pod_of_that_name_has_to_go_first(running: Running) -> None:
    await running.pods.apply("cloud", build_home_pod())
    await running.until(PodStatus)
    with pytest.raises(RetryError, match="earlier pod of that name"):
        await running.pods.apply("cloud", build_home_pod(uid="uid-next"))


@pytest.mark.parametrize(
    ("status", "message", "error", "said"),
    [
        (422, "spec is wrong", RefusedError, "RemotePodInvalid: .*spec is wrong"),
        (403, "exceeded quota: pods", RefusedError, "RemotePodForbidden: .*exceeded quota"),
        (403, "namespace demo-r because it is being terminated", RetryError, "being terminated"),
        (403, "error looking up service account demo-r/default: not found", RetryError, "account"),
        (404, "namespaces demo-r not found", RetryError, "remote namespace demo-r is gone"),
    ],
)
async def test_a_refusal_says_why(
    running: Running, status: int, message: str, error: type[Exception], said: str
) -> None:
    running.fake.fail_next("create pods", status, message=message)
    with pytest.raises(error, match=said):
        await running.pods.apply("cloud", build_home_pod())


async def test_what_cannot_travel_makes_nothing_over_there(running: Running) -> None:
    with pytest.raises(RefusedError):
        await running.pods.apply("cloud", build_home_pod(hostNetwork=True))
    assert running.fake.calls("create namespaces") == []


async def test_a_deletion_names_the_pod_by_its_uid_and_passes_the_grace(running: Running) -> None:
    await running.pods.apply("cloud", build_home_pod())
    await running.until(PodStatus)
    await running.pods.delete(REF, grace_period_seconds=7)
    (call,) = running.fake.calls("delete pods")
    uid = running.fake.find(PODS, "demo-r", "web")
    assert call.body["gracePeriodSeconds"] == 7
    assert call.body["preconditions"]["uid"]
    assert uid is None or uid["metadata"]["uid"] == call.body["preconditions"]["uid"]


async def test_deleting_before_the_watch_has_told(running: Running) -> None:
    await running.until(Synced)
    running.fake.mute_watches("watch pods")
    await running.pods.apply("cloud", build_home_pod())
    await running.pods.delete(REF, grace_period_seconds=0)
    assert len(running.fake.calls("delete pods")) == 1


async def test_another_uid_is_left_alone(running: Running) -> None:
    await running.pods.apply("cloud", build_home_pod())
    await running.until(PodStatus)
    other = PodRef("demo", "web", "uid-other")
    await running.pods.delete(other, grace_period_seconds=0)
    assert running.fake.calls("delete pods") == []
    assert await running.until(Gone) == Gone(other)


async def test_the_snapshot_comes_first_and_differences_after_a_gap() -> None:
    async with FakeApiServer() as fake:
        async with run(fake) as first:
            await first.until(Synced)
            await first.pods.apply("cloud", build_home_pod())
            await first.pods.apply("cloud", build_home_pod("db", uid="uid-db"))
        async with run(fake) as second:
            found = {(await second.next()).ref for _ in range(2)}  # type: ignore[union-attr]
            assert found == {REF, PodRef("demo", "db", "uid-db")}
            assert await second.next() == Synced()
            fake.cut_watches()
            fake.remove(PODS, "demo-r", "db")
            assert await second.until(Gone) == Gone(PodRef("demo", "db", "uid-db"))


async def test_a_status_arrives_translated(running: Running) -> None:
    await running.pods.apply("cloud", build_home_pod())
    await running.until(PodStatus)
    pod = running.fake.get(PODS, "demo-r", "web")
    pod["status"] = {"phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.1.1"}
    running.fake.put(pod)
    while True:
        event = await running.until(PodStatus)
        assert isinstance(event, PodStatus)
        if event.status["phase"] == "Running":
            break
    assert event.status["hostIP"] == "192.0.2.1"
    assert "podIP" not in event.status


async def test_trouble_is_passed_on_also_before_the_snapshot() -> None:
    async with FakeApiServer() as fake:
        fake.delay_next("watch pods", 60)
        async with run(fake) as started:
            started.pods.set_trouble("refused")
            assert await started.next() == Unreachable("refused")
            started.pods.set_trouble(None)
            assert await started.next() == Reachable()


async def test_a_pod_with_our_labels_but_no_home_pod_is_ignored(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    odd = build_home_pod()
    odd["metadata"] |= {"namespace": "demo-r", "labels": PEERING.labels, "name": "odd"}
    running.fake.put(odd)
    await running.pods.apply("cloud", build_home_pod())
    event = await running.until(PodStatus)
    assert isinstance(event, PodStatus)
    assert event.ref == REF
    assert "demo-r/odd" in caplog.text


async def apply_and_wait(running: Running, pod: KubeObject) -> None:
    await running.pods.apply("cloud", pod)
    await wait_known(running, lambda known: True)


async def wait_known(running: Running, wanted: Callable[[KubeObject], bool]) -> None:
    """Wait until the watch has told of the pod as wanted."""
    async with asyncio.timeout(5):
        while True:
            known = running.pods.followed.get(NamespacedName("demo-r", "web"))
            if known is not None and wanted(known.decode()):
                return
            await running.next()


@pytest.mark.parametrize("watched", [True, False])
async def test_a_change_at_home_travels(running: Running, *, watched: bool) -> None:
    await running.until(Synced)
    if watched:
        await apply_and_wait(running, build_home_pod())
    else:
        running.fake.mute_watches("watch pods")
        await running.pods.apply("cloud", build_home_pod())
    changed = build_home_pod(
        containers=[
            {"name": "main", "image": "new", "resources": {"requests": {"cpu": "2"}}},
        ],
        ephemeralContainers=[{"name": "debugger", "image": "busybox"}],
    )
    changed["metadata"]["labels"] = {"app": "other"}
    await running.pods.apply("cloud", changed)
    calls = [call.what for call in running.fake.requests if call.verb == "patch"]
    assert calls == ["patch pods/ephemeralcontainers", "patch pods/resize", "patch pods"]
    assert len(running.fake.objects(PODS)) == 1
    pod = running.fake.get(PODS, "demo-r", "web")
    assert pod["metadata"]["labels"]["app"] == "other"
    assert pod["spec"]["containers"][0]["image"] == "new"
    assert pod["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    assert [item["name"] for item in pod["spec"]["ephemeralContainers"]] == ["debugger"]


async def test_a_restart_changes_nothing() -> None:
    async with FakeApiServer() as fake:
        async with run(fake) as first:
            await apply_and_wait(first, build_home_pod())
        async with run(fake) as second:
            await second.until(Synced)
            fake.requests.clear()
            await second.pods.apply("cloud", build_home_pod())
            assert [call.what for call in fake.requests] == []


async def test_an_ephemeral_container_that_ended_is_not_started_again(running: Running) -> None:
    await apply_and_wait(running, build_home_pod())
    pod = build_home_pod(ephemeralContainers=[{"name": "debugger", "image": "busybox"}])
    ended = {"name": "debugger", "state": {"terminated": {"exitCode": 0}}}
    pod["status"] = {"ephemeralContainerStatuses": [ended]}
    await running.pods.apply("cloud", pod)
    assert running.fake.calls("patch pods/ephemeralcontainers") == []


async def test_a_privileged_debugger_is_told_of_and_not_started(running: Running) -> None:
    await apply_and_wait(running, build_home_pod())
    security = {"privileged": True}
    debugger = {"name": "debugger", "image": "busybox", "securityContext": security}
    warnings = await running.pods.apply("cloud", build_home_pod(ephemeralContainers=[debugger]))
    assert any("'debugger' is privileged" in warning for warning in warnings)
    assert running.fake.calls("patch pods/ephemeralcontainers") == []


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (422, RefusedError, "RemotePodChangeRefused: it can't be changed as at home: no"),
        (403, RefusedError, "RemotePodChangeRefused: it can't be changed as at home: no"),
        (404, RetryError, "remote pod demo-r/web is gone"),
        (409, ConflictError, "no"),
    ],
)
async def test_a_change_that_fails_says_why(
    running: Running, status: int, error: type[Exception], said: str
) -> None:
    await apply_and_wait(running, build_home_pod())
    running.fake.fail_next("patch pods", status, message="no")
    changed = build_home_pod(containers=[{"name": "main", "image": "new"}])
    with pytest.raises(error, match=said):
        await running.pods.apply("cloud", changed)


async def test_a_waiting_pod_is_made_anew_when_its_nodes_change(running: Running) -> None:
    await apply_and_wait(running, build_home_pod(nodeSelector={"disk": "ssd"}))
    running.pods.handle_selection("another-node")
    running.pods.handle_selection("cloud")
    assert await running.until(Unblocked) == Unblocked(REF)
    await running.pods.apply("cloud", build_home_pod(nodeSelector={"disk": "hdd"}))
    assert await running.until(Gone) == Gone(REF)
    await running.pods.apply("cloud", build_home_pod(nodeSelector={"disk": "hdd"}))
    pod = running.fake.get(PODS, "demo-r", "web")
    assert pod["spec"]["nodeSelector"] == {"disk": "hdd"}


async def test_a_placed_pod_stays_when_its_nodes_change(running: Running) -> None:
    await apply_and_wait(running, build_home_pod(nodeSelector={"disk": "ssd"}))
    pod = running.fake.get(PODS, "demo-r", "web")
    running.fake.put({**pod, "spec": {**pod["spec"], "nodeName": "n1"}})
    await wait_known(running, lambda known: "nodeName" in known["spec"])
    running.pods.handle_selection("cloud")
    await running.pods.apply("cloud", build_home_pod(nodeSelector={"disk": "hdd"}))
    assert running.fake.calls("delete pods") == []


async def test_a_pod_that_finds_no_node_is_told_as_such(running: Running) -> None:
    await running.pods.apply("cloud", build_home_pod())
    event = await running.until(PodStatus)
    assert isinstance(event, PodStatus)
    assert not event.unschedulable
    pod = running.fake.get(PODS, "demo-r", "web")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    running.fake.put({**pod, "status": {"phase": "Pending", "conditions": [condition]}})
    async with asyncio.timeout(5):
        while not event.unschedulable:
            found = await running.until(PodStatus)
            assert isinstance(found, PodStatus)
            event = found


async def test_a_change_that_is_taken_back_before_the_watch_told_of_it(running: Running) -> None:
    await apply_and_wait(running, build_home_pod())
    running.fake.mute_watches("watch pods")
    changed = build_home_pod(containers=[{"name": "main", "image": "new"}])
    changed["metadata"]["labels"] = {"app": "web", "extra": "yes"}
    await running.pods.apply("cloud", changed)
    await running.pods.apply("cloud", build_home_pod())
    pod = running.fake.get(PODS, "demo-r", "web")
    before = build_home_pod()
    assert pod["spec"]["containers"][0]["image"] == before["spec"]["containers"][0]["image"]
    assert "extra" not in pod["metadata"]["labels"]


async def test_the_store_is_trusted_again_once_it_has_our_change(running: Running) -> None:
    await apply_and_wait(running, build_home_pod())
    changed = build_home_pod(containers=[{"name": "main", "image": "new"}])
    await running.pods.apply("cloud", changed)
    await wait_known(running, lambda known: known["spec"]["containers"][0]["image"] == "new")
    running.fake.requests.clear()
    await running.pods.apply("cloud", changed)
    assert running.fake.requests == []


async def test_a_refused_change_does_not_hold_up_the_others(running: Running) -> None:
    await apply_and_wait(running, build_home_pod())
    running.fake.fail_next("patch pods/ephemeralcontainers", 403, message="no debuggers")
    changed = build_home_pod(
        containers=[{"name": "main", "image": "new", "resources": {"requests": {"cpu": "2"}}}],
        ephemeralContainers=[{"name": "debugger", "image": "busybox"}],
    )
    with pytest.raises(RefusedError, match="no debuggers"):
        await running.pods.apply("cloud", changed)
    pod = running.fake.get(PODS, "demo-r", "web")
    assert pod["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}


async def test_a_status_tells_by_which_generation_of_the_home_pod_it_goes(
    running: Running,
) -> None:
    home = build_home_pod()
    home["metadata"]["generation"] = 4
    await running.until(Synced)
    await running.pods.apply("cloud", home)

    async def generation(observed: int) -> int | None:
        """What the home pod's generation is, once the kubelet over there has seen so much."""
        pod = running.fake.get(PODS, "demo-r", "web")
        running.fake.put({**pod, "status": {"observedGeneration": observed}})
        while True:
            event = await running.next()
            assert isinstance(event, PodStatus)
            known = running.pods.followed.get(NamespacedName("demo-r", "web"))
            if known is not None and known.decode().get("status") == {
                "observedGeneration": observed
            }:
                return event.generation

    pod = running.fake.get(PODS, "demo-r", "web")
    running.fake.put({**pod, "metadata": {**pod["metadata"], "generation": 1}})
    assert await generation(1) == 4
    home["metadata"]["generation"] = 5
    home["spec"]["containers"][0]["image"] = "new"
    await running.pods.apply("cloud", home)
    assert await generation(1) is None
    assert await generation(2) == 5


async def test_a_change_that_is_not_taken_whole_is_not_told_as_observed(running: Running) -> None:
    home = build_home_pod()
    home["metadata"]["generation"] = 4
    await apply_and_wait(running, home)
    running.fake.fail_next("patch pods/resize", 422, message="no", times=2)
    changed = build_home_pod(
        containers=[{"name": "main", "image": "any", "resources": {"requests": {"cpu": "2"}}}]
    )
    changed["metadata"]["generation"] = 5
    for _ in range(2):
        with pytest.raises(RefusedError, match="no"):
            await running.pods.apply("cloud", changed)
    assert running.fake.calls("patch pods") == []
    await running.pods.apply("cloud", changed)
    annotations = running.fake.get(PODS, "demo-r", "web")["metadata"]["annotations"]
    assert annotations["vkubelet.io/home-generation"] == "5"


async def test_the_last_status_comes_before_the_end(running: Running) -> None:
    await apply_and_wait(running, build_home_pod())
    pod = running.fake.get(PODS, "demo-r", "web")
    running.fake.put({**pod, "status": {"phase": "Succeeded"}})
    running.fake.remove(PODS, "demo-r", "web")
    last: StatusEvent | None = None
    while not isinstance(event := await running.next(), Gone):
        last = event
    assert isinstance(last, PodStatus)
    assert last.status["phase"] == "Succeeded"


@pytest.mark.parametrize("note", [None, '{"main":3}', "nonsense"])
async def test_restarts_of_earlier_pods_are_kept_over_there(
    running: Running, note: str | None
) -> None:
    home = build_home_pod()
    home["status"] = {"containerStatuses": [{"name": "main", "restartCount": 3}]}
    await running.pods.apply("cloud", home)
    event = await running.until(PodStatus)
    assert isinstance(event, PodStatus)
    assert event.restarts == {"main": 3}
    home["status"]["containerStatuses"][0]["restartCount"] = 5  # its own two are not to be added
    home["metadata"]["labels"] = {"app": "other"}
    await running.pods.apply("cloud", home)
    pod = running.fake.get(PODS, "demo-r", "web")
    assert pod["metadata"]["annotations"]["vkubelet.io/restarts"] == '{"main":3}'
    assert pod["metadata"]["labels"]["app"] == "other"
    annotations = {**pod["metadata"]["annotations"], "vkubelet.io/restarts": note}
    if note is None:
        del annotations["vkubelet.io/restarts"]
    running.fake.put({**pod, "metadata": {**pod["metadata"], "annotations": annotations}})
    while True:
        event = await running.until(PodStatus)
        assert isinstance(event, PodStatus)
        if event.restarts == ({"main": 3} if note == '{"main":3}' else {}):
            break


async def test_a_pod_that_replaces_none_has_no_note(running: Running) -> None:
    await running.pods.apply("cloud", build_home_pod())
    pod = running.fake.get(PODS, "demo-r", "web")
    assert "vkubelet.io/restarts" not in pod["metadata"]["annotations"]
