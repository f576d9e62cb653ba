"""Remote pods are made once, and changed as their home pods are."""

import pytest

from tests.fakes.api_server import FakeApiServer
from tests.provider.pods.world import REF, Running, apply_and_wait, run, wait_known
from tests.provider.values import ANCHOR_NAME, PEERING, build_home_pod
from vkubelet.errors import RefusedError, RetryError
from vkubelet.interface import (
    Gone,
    PodStatus,
    Synced,
    Unblocked,
)
from vkubelet.kube.errors import ConflictError
from vkubelet.kube.objects import PODS


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
