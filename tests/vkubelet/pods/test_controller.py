"""Pods from both sides' point of view: a fake API server at home, a provider in memory behind."""

import asyncio

import pytest

from tests.fakes.api_server import FakeApiServer
from tests.fakes.provider import STARTED_AT, FakeProvider, build_running_status
from tests.vkubelet.pods.world import ADDRESS, DAEMON_SET, REF, build_pod, open_world
from vkubelet.config import ALL_NAMESPACES, DaemonSetPolicy, NamespaceFilter
from vkubelet.errors import RetryError
from vkubelet.interface import PodRef, Synced
from vkubelet.kube.objects import NAMESPACES, PODS

pytestmark = pytest.mark.virtual_time


async def test_pod_is_applied_and_its_status_shown() -> None:
    async with open_world(build_pod(spec={"future": {"kept": 1}})) as world:
        [(node, applied)] = world.provider.applied
        assert node == "n"
        assert applied["spec"]["future"] == {"kept": 1}
        assert world.status()["phase"] == "Running"
        assert world.status()["hostIP"] == ADDRESS
        assert world.condition("Ready") == "True"
        assert world.condition("PodScheduled") == "True"
        assert world.writes() == ["patch pods/status"]
        assert world.controller.synced


async def test_settled_pod_costs_nothing() -> None:
    async with open_world(build_pod()) as world:
        await world.settle(3600)
        assert len(world.provider.applied) == 1
        assert world.writes() == ["patch pods/status"]


async def test_only_pods_of_our_nodes() -> None:
    async with open_world(build_pod("other", node="real")) as world:
        assert world.provider.applied == []
        assert world.home.find("real", "a", "other") is None


async def test_change_of_the_pod_is_applied_again() -> None:
    async with open_world(build_pod()) as world:
        pod = world.pod()
        world.fake.put(
            {**pod, "spec": {**pod["spec"], "containers": [{"name": "c", "image": "j"}]}}
        )
        await world.settle()
        assert world.provider.applied[-1][1]["spec"]["containers"][0]["image"] == "j"
        world.fake.put(
            {**world.pod(), "metadata": {**world.pod()["metadata"], "labels": {"x": "y"}}}
        )
        await world.settle()
        assert len(world.provider.applied) == 3
        world.fake.put({**world.pod(), "status": {**world.status(), "nominatedNodeName": "z"}})
        await world.settle()
        assert len(world.provider.applied) == 3


async def test_nothing_is_decided_before_the_provider_is_synced() -> None:
    provider = FakeProvider(synced=False)
    orphan = PodRef("a", "orphan", "o")
    provider.show(orphan)
    async with open_world(build_pod(), provider=provider) as world:
        await world.settle(3600)
        assert provider.applied == []
        assert provider.deleted == []
        assert not world.controller.synced
        provider.finish_sync()
        await world.settle()
        assert len(provider.applied) == 1
        assert provider.deleted == [(orphan, None)]


async def test_busy_namespace_or_node_keeps_no_other_waiting() -> None:
    many = [build_pod(f"many-{number}") for number in range(100)]
    quiet = [build_pod("quiet", namespace="b"), build_pod("elsewhere", node="m")]
    provider = FakeProvider(synced=False)
    namespaces = NamespaceFilter(names=frozenset({"a", "b"}))
    async with open_world(
        *many, *quiet, provider=provider, namespaces=namespaces, pod_workers=1
    ) as world:
        world.home.set_nodes({"n", "m"})
        await world.settle()
        provider.send(Synced())
        await world.settle()
        names = [pod["metadata"]["name"] for _, pod in provider.applied]
        assert len(names) == len(many) + len(quiet)
        assert {"quiet", "elsewhere"} <= set(names[:3])


async def test_nothing_is_decided_while_out_of_reach_and_deletions_go_first() -> None:
    provider = FakeProvider()
    async with open_world(build_pod(), provider=provider, pod_workers=1) as world:
        provider.cut()
        await world.settle()
        world.fake.put(build_pod("q"))
        await world.delete()
        await world.settle(600)
        assert provider.deleted == []
        assert len(provider.applied) == 1
        provider.mend()
        order: list[str] = []
        while len(order) < 2:
            await asyncio.sleep(0)
            order += ["deleted"] if provider.deleted and "deleted" not in order else []
            order += ["applied"] if len(provider.applied) == 2 and "applied" not in order else []
        assert order == ["deleted", "applied"]
        await world.settle()
        assert world.find() is None


async def test_ready_that_was_taken_while_the_node_was_lost_is_given_back() -> None:
    provider = FakeProvider()
    async with open_world(build_pod(), provider=provider) as world:
        provider.cut()
        await world.settle()
        pod = world.pod()
        for condition in pod["status"]["conditions"]:
            if condition["type"] == "Ready":  # as the node controller does it
                condition |= {"status": "False", "reason": "NodeNotReady"}
        world.fake.put(pod)
        await world.settle()
        assert world.condition("Ready") == "False"
        provider.mend()
        await world.settle()
        assert world.condition("Ready") == "True"


async def test_graceful_deletion() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF)
    async with open_world(build_pod(), provider=provider) as world:
        await world.delete(grace=60)
        await world.settle()
        assert provider.deleted == [(REF, 60)]
        assert world.find() is not None
        await world.delete(grace=5)
        await world.settle()
        assert provider.deleted[1:] == [(REF, 5)]
        ended = build_running_status(phase="Failed")
        provider.show(REF, ended, deletion_timestamp=STARTED_AT)
        await world.settle()
        assert world.status()["phase"] == "Failed"
        provider.lose(REF)
        await world.settle()
        assert world.find() is None
        [final] = world.fake.calls("delete pods")[2:]
        assert final.body["gracePeriodSeconds"] == 0
        assert final.body["preconditions"] == {"uid": "uid-p"}


async def test_pod_that_is_terminating_at_start_is_finished() -> None:
    metadata = {"deletionTimestamp": STARTED_AT, "deletionGracePeriodSeconds": 30}
    async with open_world(build_pod(metadata=metadata)) as world:
        assert world.find() is None
        assert world.provider.applied == []


async def test_deletion_is_asked_for_again_when_it_does_not_end() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF)
    async with open_world(build_pod(), provider=provider) as world:
        await world.delete(grace=30)
        await world.settle(290)
        assert len(provider.deleted) == 1
        await world.settle(30)
        assert len(provider.deleted) == 2


async def test_deletion_survives_failures_of_the_provider() -> None:
    provider = FakeProvider(auto=False, delete_failures=[RetryError("no"), RetryError("no")])
    provider.show(REF)
    async with open_world(build_pod(), provider=provider) as world:
        await world.delete()
        await world.settle()
        assert provider.deleted == [(REF, 30)]


async def test_deletion_before_the_first_status() -> None:
    provider = FakeProvider(auto=False)
    async with open_world(build_pod(), provider=provider) as world:
        assert len(provider.applied) == 1
        await world.delete()
        await world.settle()
        assert provider.deleted == [(REF, 30)]
        assert world.find() is not None
        provider.show(REF, {"phase": "Pending"})
        await world.settle()
        assert world.find() is not None
        provider.lose(REF)
        await world.settle()
        assert world.find() is None


async def test_deletion_when_the_first_status_never_comes() -> None:
    provider = FakeProvider(auto=False)
    async with open_world(build_pod(), provider=provider) as world:
        await world.delete()
        await world.settle(60)
        assert world.find() is None


async def test_name_that_is_used_again_waits_for_the_earlier_pod() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF)
    async with open_world(build_pod(), provider=provider) as world:
        world.fake.remove(PODS, "a", "p")
        world.fake.put(build_pod(uid="second"))
        await world.settle()
        assert provider.deleted == [(REF, None)]
        applied_before = len(provider.applied)
        provider.lose(REF)
        await world.settle()
        assert provider.applied[applied_before:][0][1]["metadata"]["uid"] == "second"
        assert len(provider.applied) == applied_before + 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_finished_pod_stays_when_what_is_behind_is_gone(phase: str) -> None:
    status = build_running_status(phase=phase)
    async with open_world(build_pod(status=status, spec={"restartPolicy": "Never"})) as world:
        await world.settle(3600)
        assert world.provider.applied == []
        assert world.writes() == []


async def test_terminal_phase_never_goes_back() -> None:
    provider = FakeProvider()
    async with open_world(build_pod(), provider=provider) as world:
        provider.show(REF, build_running_status(phase="Succeeded"))
        await world.settle()
        provider.show(REF, build_running_status())
        await world.settle()
        assert world.status()["phase"] == "Succeeded"


async def test_lost_pod_that_had_not_started_is_made_anew() -> None:
    provider = FakeProvider(auto=False)
    pod = build_pod(spec={"restartPolicy": "Never"})
    async with open_world(pod, provider=provider) as world:
        provider.show(REF, {"phase": "Pending"})
        await world.settle()
        provider.lose(REF)
        await world.settle()
        assert len(provider.applied) == 2


async def test_pod_that_keeps_being_lost_is_made_anew_ever_more_slowly() -> None:
    provider = FakeProvider()
    async with open_world(build_pod(), provider=provider) as world:
        for _ in range(300):
            if REF in provider.behind:
                provider.lose(REF)
            await world.settle(1)
        assert 6 <= len(provider.applied) <= 9


async def test_terminating_behind_that_nobody_asked_for_is_not_ready() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF)
    async with open_world(build_pod(), provider=provider) as world:
        assert world.condition("Ready") == "True"
        provider.show(REF, deletion_timestamp=STARTED_AT)
        await world.settle()
        assert world.condition("Ready") == "False"
        assert world.status()["phase"] == "Running"
        assert provider.deleted == []


async def test_namespace_that_is_not_reflected() -> None:
    async with open_world(build_pod(namespace="b")) as world:
        assert world.status(namespace="b")["reason"] == "NamespaceNotReflected"
        assert world.provider.applied == []
        assert world.reasons() == ["NamespaceNotReflected"]
        async with world.fake.client("user") as client:
            await client.delete(PODS, PodRef("b", "p", "").key)
        await world.settle()
        assert world.find(namespace="b") is None


async def test_namespace_by_selector_follows_its_labels() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    namespaces = NamespaceFilter(selector="reflect=yes")
    async with FakeApiServer() as fake:
        fake.put(namespace)
        async with open_world(build_pod(), fake=fake, namespaces=namespaces) as world:
            assert world.status()["reason"] == "NamespaceNotReflected"
            labelled = {**fake.get(NAMESPACES, "", "a")["metadata"], "labels": {"reflect": "yes"}}
            fake.put({**namespace, "metadata": labelled})
            await world.settle()
            assert world.status()["phase"] == "Running"


async def test_system_namespaces_need_a_filter_that_says_so() -> None:
    pod = build_pod(namespace="kube-system")
    async with open_world(pod, namespaces=NamespaceFilter(everything=True)) as world:
        assert world.provider.applied == []
    async with open_world(pod, namespaces=ALL_NAMESPACES) as world:
        assert len(world.provider.applied) == 1


async def test_mirror_pods_are_left_alone() -> None:
    metadata = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    async with open_world(build_pod(metadata=metadata)) as world:
        assert world.provider.applied == []
        assert world.writes() == []


async def test_daemonset_placeholder() -> None:
    pod = build_pod(metadata={"ownerReferences": [DAEMON_SET]})
    async with open_world(pod) as world:
        assert world.provider.applied == []
        assert world.status()["phase"] == "Running"
        assert world.condition("Ready") == "True"
        assert world.condition("vkubelet.io/Placeholder") == "True"
        assert "containerStatuses" not in world.status()
        await world.settle(600)
        assert world.reasons() == ["Placeholder"]
        assert world.writes() == ["patch pods/status"]
        await world.delete()
        await world.settle()
        assert world.find() is None


@pytest.mark.parametrize(
    ("policy", "phase", "applies"),
    [(DaemonSetPolicy.PENDING, "Pending", 0), (DaemonSetPolicy.REFLECT, "Running", 1)],
)
async def test_daemonset_policies(policy: DaemonSetPolicy, phase: str, applies: int) -> None:
    pod = build_pod(metadata={"ownerReferences": [DAEMON_SET]})
    async with open_world(pod, daemonset_pods=policy) as world:
        assert world.status()["phase"] == phase
        assert len(world.provider.applied) == applies


async def test_restart_of_the_process_writes_nothing() -> None:
    provider = FakeProvider()
    async with FakeApiServer() as fake:
        pods = (build_pod(), build_pod("q"))
        async with open_world(*pods, fake=fake, provider=provider) as world:
            assert world.status("q")["phase"] == "Running"
        fake.requests.clear()
        async with open_world(fake=fake, provider=provider) as world:
            await world.settle(600)
            assert world.writes() == []
            assert provider.deleted == []


async def test_changes_while_the_process_was_down_converge() -> None:
    provider = FakeProvider()
    async with FakeApiServer() as fake:
        names = ("stays", "deleted", "vanished", "lost", "done")
        pods = [build_pod(name) for name in names]
        pods[3]["spec"]["restartPolicy"] = "Never"
        async with open_world(*pods, fake=fake, provider=provider) as world:
            assert {ref.name for ref in provider.behind} == set(names)
        async with fake.client("user") as client:
            await client.delete(PODS, PodRef("a", "deleted", "").key)
        fake.remove(PODS, "a", "vanished")
        del provider.behind[PodRef("a", "lost", "uid-lost")]
        done = PodRef("a", "done", "uid-done")
        provider.show(done, build_running_status(phase="Succeeded"))
        fake.put(build_pod("fresh"))
        async with open_world(fake=fake, provider=provider) as world:
            assert {ref.name for ref in provider.behind} == {"stays", "done", "fresh"}
            assert world.find("deleted") is None
            assert world.status("lost")["phase"] == "Failed"
            assert world.status("done")["phase"] == "Succeeded"
            assert world.status("fresh")["phase"] == "Running"


async def test_cut_watches_lose_nothing() -> None:
    provider = FakeProvider()
    async with open_world(build_pod(), provider=provider) as world:
        await world.settle(10)
        world.fake.cut_watches()
        world.fake.remove(PODS, "a", "p")
        world.fake.put(build_pod("q"))
        world.fake.expire_history()
        await world.settle(60)
        assert provider.deleted == [(REF, None)]
        assert world.status("q")["phase"] == "Running"


async def test_memory_of_pods_does_not_grow() -> None:
    provider = FakeProvider()
    async with open_world(provider=provider) as world:
        for number in range(20):
            world.fake.put(build_pod(f"p{number}"))
        await world.settle()
        assert len(world.controller._memories) == 20
        for number in range(20):
            await world.delete(name=f"p{number}")
        await world.settle()
        assert world.controller._memories == {}
        assert world.controller._behind == {}
        assert len(world.home) == 0


@pytest.mark.parametrize(
    ("phase", "shown"), [("Running", "Failed"), ("Succeeded", "Succeeded"), ("Failed", "Failed")]
)
async def test_pod_that_ran_while_home_was_down_never_runs_again(phase: str, shown: str) -> None:
    provider = FakeProvider(auto=False)
    async with open_world(build_pod(spec={"restartPolicy": "Never"}), provider=provider) as world:
        assert len(provider.applied) == 1
        world.fake.fail_next("patch pods/status", 500, times=1000)
        provider.show(REF, build_running_status(phase=phase))
        await world.settle()
        provider.lose(REF)
        await world.settle(30)
        assert world.status()["phase"] == "Pending"
        world.fake.heal()
        await world.settle(120)
        assert world.status()["phase"] == shown
        assert ("RemotePodLost" in world.reasons()) is (phase == "Running")
        assert len(provider.applied) == 1


async def test_start_and_end_that_are_told_at_once_are_a_start() -> None:
    provider = FakeProvider(auto=False)
    async with open_world(build_pod(spec={"restartPolicy": "Never"}), provider=provider) as world:
        provider.show(REF)
        provider.lose(REF)
        await world.settle()
        assert world.status()["phase"] == "Failed"
        assert len(provider.applied) == 1


async def test_pod_that_ended_and_was_deleted_unseen_is_finalised() -> None:
    provider = FakeProvider(auto=False)
    async with open_world(build_pod(spec={"restartPolicy": "Never"}), provider=provider) as world:
        world.fake.fail_next("patch pods/status", 500, times=1000)
        provider.show(REF, build_running_status(phase="Succeeded"))
        await world.settle()
        provider.lose(REF)
        await world.delete()
        world.fake.heal()
        await world.settle(120)
        assert world.find() is None
        assert provider.deleted == []


async def test_force_deleted_pod_that_a_finalizer_holds_ends_as_failed() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF)
    pod = build_pod(metadata={"finalizers": ["batch.kubernetes.io/job-tracking"]})
    async with open_world(pod, provider=provider) as world:
        await world.delete(grace=0)
        await world.settle()
        assert provider.deleted == [(REF, 1)]
        provider.lose(REF)
        await world.settle()
        assert world.status()["phase"] == "Failed"
        writes = len(world.writes())
        await world.settle(600)
        assert len(world.writes()) == writes


async def test_what_somebody_else_ended_at_home_does_not_go_on() -> None:
    provider = FakeProvider(auto=False)
    provider.show(REF)
    async with open_world(build_pod(), provider=provider) as world:
        world.fake.put({**world.pod(), "status": {**world.status(), "phase": "Failed"}})
        await world.settle()
        assert provider.deleted == [(REF, None)]
        provider.lose(REF)
        await world.settle(600)
        assert world.status()["phase"] == "Failed"
        assert len(provider.applied) == 1


async def test_restarts_add_up_over_a_restart_of_the_process() -> None:
    provider = FakeProvider(auto=False)
    counted = build_running_status(restarts=3)
    provider.show(REF, build_running_status(restarts=1), restarts={"c": 3})
    async with open_world(build_pod(status=counted), provider=provider) as world:
        assert world.status()["containerStatuses"][0]["restartCount"] == 4
        provider.show(REF, build_running_status(restarts=2), restarts={"c": 3})
        await world.settle()
        assert world.status()["containerStatuses"][0]["restartCount"] == 5


async def test_memory_of_pods_that_go_while_out_of_reach_does_not_stay() -> None:
    provider = FakeProvider(auto=False)
    async with open_world(build_pod(), provider=provider) as world:
        provider.show(REF)
        await world.settle()
        provider.cut()
        await world.settle()
        world.fake.remove(PODS, "a", "p")
        provider.lose(REF)
        await world.settle()
        assert len(world.controller._memories) == 1
        provider.mend()
        await world.settle()
        assert world.controller._memories == {}
