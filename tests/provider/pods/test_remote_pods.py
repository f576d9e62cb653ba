"""Remote pods: made once, deleted by UID, and a feed that misses nothing."""

import asyncio

import pytest

from tests.fakes.api_server import FakeApiServer
from tests.provider.pods.world import REF, Running, apply_and_wait, run
from tests.provider.values import PEERING, build_home_pod
from vkubelet.interface import (
    Gone,
    PodRef,
    PodStatus,
    Reachable,
    StatusEvent,
    Synced,
    Unreachable,
)
from vkubelet.kube.objects import PODS, NamespacedName


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
