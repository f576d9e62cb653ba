"""The steps of a pod's life, with all that can go wrong in them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fakes.api_server import FakeApiServer
from tests.fakes.provider import STARTED_AT, FakeProvider, build_running_status
from tests.vkubelet.pods.world import REF, build_pod, open_world
from vkubelet.errors import RefusedError, RetryError
from vkubelet.interface import PodEvent, PodRef, Unblocked
from vkubelet.kube.objects import EVENTS, PODS, KubeObject

pytestmark = pytest.mark.virtual_time


async def test_grace_of_zero_still_waits_for_the_end() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF)
    held = build_pod(metadata={"finalizers": ["x/y"]})
    async with open_world(held, provider=provider) as world:
        await world.delete(grace=0)
        await world.settle()
        assert provider.deleted == [(REF, 1)]


async def test_finalizers_hold_a_pod_that_has_ended() -> None:
    held = build_pod(metadata={"finalizers": ["x/y"]})
    async with open_world(held) as world:
        await world.delete()
        await world.settle(600)
        assert world.status()["phase"] == "Failed"
        finals = [c for c in world.fake.calls("delete pods") if c.body["gracePeriodSeconds"] == 0]
        assert len(finals) == 1
        assert len(world.provider.applied) == 1


async def test_another_pod_of_that_name_is_not_finalised() -> None:
    metadata = {"deletionTimestamp": STARTED_AT, "deletionGracePeriodSeconds": 30}
    async with FakeApiServer() as fake:
        fake.delay_next("delete pods", 5.0)
        async with open_world(build_pod(metadata=metadata), fake=fake) as world:
            fake.remove(PODS, "a", "p")
            fake.put(build_pod(uid="second"))
            await world.settle(60)
            assert world.pod()["metadata"]["uid"] == "second"
            assert world.status()["phase"] == "Running"


async def test_orphan_is_deleted_only_after_asking_the_api_server() -> None:
    provider = FakeProvider()
    elsewhere = PodRef("a", "elsewhere", "uid-elsewhere")
    provider.show(elsewhere)
    provider.show(PodRef("a", "gone", "g"))
    pods = (build_pod("elsewhere", node="a-node-that-is-not-followed"),)
    async with open_world(*pods, provider=provider) as world:
        await world.settle(600)
        assert [ref.name for ref, _ in provider.deleted] == ["gone"]
        assert "delete pods" not in world.writes()


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
async def test_orphan_is_deleted_whatever_became_of_it(phase: str) -> None:
    provider = FakeProvider()
    provider.show(REF, build_running_status(phase=phase))
    async with open_world(provider=provider) as world:
        await world.settle()
        assert provider.deleted == [(REF, None)]


async def test_orphan_stays_while_the_api_server_fails() -> None:
    provider = FakeProvider()
    provider.show(REF)
    async with FakeApiServer() as fake:
        fake.fail_next("get pods", 500, times=3)
        async with open_world(provider=provider, fake=fake) as world:
            await world.settle()
            assert len(fake.calls("get pods")) == 4
            assert provider.deleted == [(REF, None)]


@pytest.mark.parametrize("restart_policy", ["Never", "OnFailure"])
async def test_lost_pod_that_had_started_ends(restart_policy: str) -> None:
    provider = FakeProvider()
    pod = build_pod(spec={"restartPolicy": restart_policy})
    async with open_world(pod, provider=provider) as world:
        provider.lose(REF)
        await world.settle(600)
        assert world.status()["phase"] == "Failed"
        assert world.condition("DisruptionTarget") == "True"
        assert world.condition("Ready") == "False"
        assert "terminated" in world.status()["containerStatuses"][0]["state"]
        assert len(provider.applied) == 1
        assert world.reasons() == ["RemotePodLost"]


async def test_lost_pod_with_restart_policy_always_is_made_anew() -> None:
    provider = FakeProvider(auto=False)
    async with open_world(build_pod(), provider=provider) as world:
        provider.show(REF, build_running_status(restarts=2))
        await world.settle()
        provider.lose(REF)
        await world.settle()
        assert world.status()["phase"] == "Pending"
        assert world.condition("Ready") == "False"
        assert len(provider.applied) == 2
        provider.show(REF, build_running_status())
        await world.settle()
        assert world.status()["containerStatuses"][0]["restartCount"] == 3
        assert world.condition("Ready") == "True"
        assert "reason" not in world.status()


async def test_refused_pod_is_pending_with_a_reason_and_offered_again_ever_more_rarely() -> None:
    provider = FakeProvider(failures=[RefusedError("HostPath", "no host paths here")] * 3)
    async with open_world(build_pod(), provider=provider) as world:
        assert world.status()["reason"] == "HostPath"
        assert world.status()["message"] == "no host paths here"
        assert world.status()["phase"] == "Pending"
        assert world.reasons() == ["HostPath"]
        await world.settle(2.5)
        assert len(provider.failures) == 2
        await world.settle(8)  # offered after 5 to 10 s
        assert len(provider.failures) == 1
        await world.settle(20)  # and 10 to 20 s later
        assert provider.failures == []
        await world.settle(40)
        assert world.status()["phase"] == "Running"
        assert "reason" not in world.status()
        assert world.writes() == ["patch pods/status"] * 2


async def test_pod_that_stays_refused_costs_little() -> None:
    provider = FakeProvider(failures=[RefusedError("HostPath", "no host paths here")] * 1000)
    async with open_world(build_pod(), provider=provider) as world:
        await world.settle(1200)
        tries = 1000 - len(provider.failures)
        await world.settle(3600)
        assert 12 <= 1000 - len(provider.failures) - tries <= 24
        assert world.writes() == ["patch pods/status"]


EVICTION = "create pods/eviction"


async def test_pod_that_finds_no_place_is_evicted_after_a_while() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF, {"phase": "Pending"}, unschedulable=True)
    async with open_world(
        build_pod(), provider=provider, unschedulable_timeout_seconds=60.0
    ) as world:
        await world.settle(50)
        assert world.fake.calls(EVICTION) == []
        await world.settle(10)
        (call,) = world.fake.calls(EVICTION)
        assert call.body["deleteOptions"]["preconditions"]["uid"] == "uid-p"
        assert world.reasons() == ["RemoteUnschedulable"]
        await world.settle(2)
        assert provider.deleted == [(REF, 30)]


async def test_pod_that_finds_a_place_in_time_stays() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF, {"phase": "Pending"}, unschedulable=True)
    async with open_world(
        build_pod(), provider=provider, unschedulable_timeout_seconds=60.0
    ) as world:
        await world.settle(50)
        provider.show(REF, {"phase": "Pending"})
        await world.settle(50)
        provider.show(REF, {"phase": "Pending"}, unschedulable=True)  # the time starts anew
        await world.settle(50)
        provider.show(REF)
        await world.settle(600)
        assert world.fake.calls(EVICTION) == []


async def test_pod_that_finds_no_place_waits_for_ever_by_default() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF, {"phase": "Pending"}, unschedulable=True)
    async with open_world(build_pod(), provider=provider) as world:
        await world.settle(100_000)
        assert world.fake.calls(EVICTION) == []


async def test_pod_whose_far_side_is_ending_unasked_is_evicted_after_a_while() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF, deletion_timestamp=STARTED_AT)
    async with open_world(build_pod(), provider=provider, lost_timeout_seconds=60.0) as world:
        await world.settle(50)
        assert world.condition("Ready") == "False"
        assert world.fake.calls(EVICTION) == []
        await world.settle(10)
        assert len(world.fake.calls(EVICTION)) == 1
        assert world.reasons() == ["RemotePodLost"]


@pytest.mark.parametrize(("policy", "evictions"), [("Always", 1), ("OnFailure", 0), ("Never", 0)])
async def test_far_side_that_ended_but_is_held_is_no_end_of_a_pod_that_restarts(
    policy: str, evictions: int
) -> None:
    provider = FakeProvider(auto=False)
    ended = build_running_status(phase="Failed")
    provider.show(REF, ended, deletion_timestamp=STARTED_AT)
    pod = build_pod(spec={"restartPolicy": policy})
    async with open_world(pod, provider=provider, lost_timeout_seconds=60.0) as world:
        await world.settle(70)
        assert len(world.fake.calls(EVICTION)) == evictions


async def test_pod_that_is_deleted_at_home_is_not_evicted_too() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF)
    async with open_world(build_pod(), provider=provider, lost_timeout_seconds=60.0) as world:
        await world.delete()
        await world.settle(2)
        provider.show(REF, deletion_timestamp=STARTED_AT)
        await world.settle(600)
        assert world.fake.calls(EVICTION) == []


async def test_disruption_budget_holds_and_is_asked_again() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF, deletion_timestamp=STARTED_AT)
    async with FakeApiServer() as fake:
        fake.fail_next(EVICTION, 429, message="the budget says no", times=3)
        async with open_world(
            build_pod(), provider=provider, fake=fake, lost_timeout_seconds=60.0
        ) as world:
            await world.settle(70)
            assert len(fake.calls(EVICTION)) == 1
            assert "the budget says no" in fake.objects(EVENTS)[0]["message"]
            await world.settle(60)
            assert len(fake.calls(EVICTION)) == 4
            assert world.pod()["metadata"]["deletionTimestamp"]


async def test_refused_pod_is_offered_at_once_when_told_that_it_may_be() -> None:
    provider = FakeProvider(failures=[RefusedError("Missing", "x")] * 2)
    async with open_world(build_pod(), provider=provider) as world:
        world.controller.handle_status(Unblocked(PodRef("a", "p", "uid of another")))
        await world.settle()
        assert len(provider.failures) == 1
        world.controller.handle_status(Unblocked(REF))
        await world.settle()
        assert provider.failures == []
        assert world.status()["phase"] == "Pending"
        world.controller.handle_status(Unblocked(REF))
        world.controller.handle_status(Unblocked(PodRef("a", "unknown", "u")))
        await world.settle()
        assert world.status()["phase"] == "Running"


async def test_offers_that_were_asked_for_do_not_count_for_the_back_off() -> None:
    provider = FakeProvider(auto=False, failures=[RefusedError("No", "no")] * 30)
    async with open_world(build_pod(), provider=provider) as world:
        for _ in range(20):
            provider.send(Unblocked(REF))
            await world.settle(0.1)
        offers = 30 - len(provider.failures)
        assert offers == 21
        await world.settle(20)
        assert 30 - len(provider.failures) > offers


async def test_events_on_what_is_behind_are_shown_on_the_home_pod() -> None:
    def build(ref: PodRef) -> PodEvent:
        when = datetime(2026, 1, 1, tzinfo=UTC)
        return PodEvent(
            ref=ref,
            identity="e",
            type="Normal",
            reason="Pulled",
            message="m",
            count=7,
            first_time=when,
            last_time=when,
            component="kubelet",
        )

    async with open_world(build_pod()) as world:
        for ref in (PodRef("a", "p", "uid of another"), PodRef("a", "unknown", "u"), REF):
            world.controller.handle_status(build(ref))
        await world.settle()
        (event,) = world.fake.objects(EVENTS)
        assert (event["reason"], event["count"]) == ("Pulled", 7)
        assert event["involvedObject"]["uid"] == "uid-p"


async def test_refused_pod_that_changes_is_offered_at_once() -> None:
    provider = FakeProvider(failures=[RefusedError("X", "y")])
    async with open_world(build_pod(), provider=provider) as world:
        pod = world.pod()
        world.fake.put({**pod, "metadata": {**pod["metadata"], "labels": {"a": "b"}}})
        await world.settle()
        assert world.status()["phase"] == "Running"


async def test_refused_change_leaves_the_running_pod_as_it_is() -> None:
    provider = FakeProvider()
    async with open_world(build_pod(), provider=provider) as world:
        provider.failures.append(RefusedError("X", "y"))
        pod = world.pod()
        world.fake.put({**pod, "metadata": {**pod["metadata"], "labels": {"a": "b"}}})
        await world.settle(100)
        assert world.status()["phase"] == "Running"
        assert world.reasons() == ["X"]


async def test_passing_trouble_is_told_only_when_it_lasts() -> None:
    provider = FakeProvider(failures=[RetryError("busy")] * 2)
    async with open_world(build_pod(), provider=provider) as world:
        await world.settle()
        assert world.status()["phase"] == "Running"
        assert world.reasons() == []
    provider = FakeProvider(failures=[RetryError("busy")] * 8)
    async with open_world(build_pod(), provider=provider) as world:
        assert world.status()["phase"] == "Pending"
        assert world.status()["reason"] == "ProviderFailed"
        assert "busy" in world.status()["message"]
        assert world.reasons() == ["ProviderFailed"]
        await world.settle(120)
        assert world.status()["phase"] == "Running"


async def test_warnings_are_told_once() -> None:
    provider = FakeProvider(warnings=["priority doesn't travel"])
    async with open_world(build_pod(), provider=provider) as world:
        for number in range(3):
            pod = world.pod()
            labels = {"n": str(number)}
            world.fake.put({**pod, "metadata": {**pod["metadata"], "labels": labels}})
            await world.settle()
        assert len(provider.applied) == 4
        assert world.reasons() == ["PartlyReflected"]


async def test_conflicts_and_failures_of_status_writes_are_tried_again() -> None:
    async with FakeApiServer() as fake:
        fake.fail_next("patch pods/status", 409, reason="Conflict", times=2)
        fake.fail_next("patch pods/status", 500, times=2)
        fake.drop_next("patch pods/status")
        fake.cut_body_next("patch pods/status")
        async with open_world(build_pod(), fake=fake) as world:
            await world.settle(60)
            assert world.status()["phase"] == "Running"
            assert world.reasons() == []


async def test_status_that_the_api_server_refuses_is_not_written_for_ever() -> None:
    async with FakeApiServer() as fake:
        fake.fail_next("patch pods/status", 422, reason="Invalid", times=100)
        async with open_world(build_pod(), fake=fake) as world:
            await world.settle(3600)
            assert len(fake.calls("patch pods/status")) == 1
            assert world.reasons() == ["StatusRefused"]


async def test_fields_that_the_api_server_drops_are_not_written_for_ever() -> None:
    async with FakeApiServer() as fake:

        def drop(call: Any) -> KubeObject:
            pod = fake.get(PODS, "a", "p")
            kept = {
                k: v for k, v in call.body["status"].items() if k not in {"newer", "conditions"}
            }
            return fake.put({**pod, "status": {**pod["status"], **kept}})

        fake.handle("patch pods/status", drop)
        provider = FakeProvider(auto=False)
        provider.show(REF, {"phase": "Running", "newer": {"x": 1}})
        async with open_world(build_pod(), fake=fake, provider=provider) as world:
            for _ in range(3):
                provider.show(REF, {"phase": "Running", "newer": {"x": 1}})
                await world.settle()
            assert len(fake.calls("patch pods/status")) == 1


def build_pod_of(generation: int) -> KubeObject:
    return build_pod(metadata={"generation": generation})


async def test_status_tells_which_generation_of_the_pod_it_goes_by() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF)
    async with open_world(build_pod_of(2), provider=provider) as world:
        assert "observedGeneration" not in world.status()
        provider.show(REF, generation=2)
        await world.settle()
        assert world.status()["observedGeneration"] == 2
        told = {c["type"]: c.get("observedGeneration") for c in world.status()["conditions"]}
        assert told == {"PodScheduled": None, "Initialized": 2, "ContainersReady": 2, "Ready": 2}
        writes = len(world.fake.calls("patch pods/status"))
        provider.show(REF, generation=None)  # it's being changed
        await world.settle()
        assert len(world.fake.calls("patch pods/status")) == writes
        await world.delete(grace=30)
        await world.settle()
        assert world.status()["observedGeneration"] == 2
        provider.show(REF, generation=2, deletion_timestamp=STARTED_AT)
        await world.settle()
        assert world.status()["observedGeneration"] == world.pod()["metadata"]["generation"] == 3


async def test_status_of_our_own_goes_by_the_pod_as_it_is() -> None:
    provider = FakeProvider(failures=[RefusedError("No", "no")])
    async with open_world(build_pod_of(7), provider=provider) as world:
        assert world.status()["reason"] == "No"
        assert world.status()["observedGeneration"] == 7


async def test_api_server_that_does_not_keep_generations_is_not_told_them_for_ever() -> None:
    async with FakeApiServer() as fake:

        def drop(call: Any) -> KubeObject:
            pod = fake.get(PODS, "a", "p")
            status = {**pod["status"], **call.body["status"]}
            status.pop("observedGeneration", None)
            status["conditions"] = [
                {key: value for key, value in item.items() if key != "observedGeneration"}
                for item in status.get("conditions", ())
            ]
            return fake.put({**pod, "status": status})

        fake.handle("patch pods/status", drop)
        provider = FakeProvider(auto=False)
        provider.show(REF, generation=2)
        async with open_world(build_pod_of(2), fake=fake, provider=provider) as world:
            for number in range(4):
                pod = fake.get(PODS, "a", "p")
                pod["metadata"]["annotations"] = {"edited": str(number)}
                fake.put(pod)
                provider.show(REF, generation=2)
                await world.settle()
            assert len(fake.calls("patch pods/status")) == 1


async def test_others_may_edit_the_pod_meanwhile() -> None:
    provider = FakeProvider()
    async with open_world(build_pod(), provider=provider) as world:
        gate = {"type": "my/gate", "status": "True"}
        pod = world.pod()
        conditions = [*pod["status"]["conditions"], gate]
        world.fake.put({**pod, "status": {**pod["status"], "conditions": conditions}})
        provider.show(REF, build_running_status(restarts=1))
        await world.settle()
        assert gate in world.status()["conditions"]
        assert world.status()["containerStatuses"][0]["restartCount"] == 1


async def test_a_pod_that_starts_at_once_is_written_once() -> None:
    provider = FakeProvider(auto=False)
    async with open_world(provider=provider) as world:
        world.fake.put(build_pod())
        await world.settle(0.1)
        provider.show(REF, status={"phase": "Pending", "startTime": STARTED_AT})
        await world.settle(0.5)
        assert world.writes() == []
        provider.show(REF)
        await world.settle(0.01)
        assert world.status()["phase"] == "Running"
        await world.settle(5)
        assert world.writes() == ["patch pods/status"]


async def test_a_pod_that_takes_its_time_is_shown_meanwhile() -> None:
    provider = FakeProvider(auto=False)
    async with open_world(provider=provider) as world:
        world.fake.put(build_pod())
        await world.settle(0.1)
        provider.show(REF, status={"phase": "Pending", "startTime": STARTED_AT})
        await world.settle(0.5)
        assert "startTime" not in world.status()
        await world.settle(1)
        assert world.status()["startTime"] == STARTED_AT
