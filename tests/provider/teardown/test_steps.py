"""A teardown, step by step, on two fake API servers."""

import asyncio
from typing import Any

import pytest

from tests.fakes.api_server import ApiCall, ApiFailureError
from tests.provider.teardown.worlds import build, build_home_pod, open_world
from vkubelet.kube.errors import KubeError
from vkubelet.kube.objects import NODES, PODS

pytestmark = pytest.mark.virtual_time


async def test_all_of_it_goes_and_nothing_else() -> None:
    async with open_world() as world:
        world.leave_peering("web", "db")
        world.run_remote_kubelet()
        assert await world.tear_down()
        assert world.names(world.home) == ["Node real"]
        assert world.names(world.remote) == ["ConfigMap kube-root-ca.crt"]
        evictions = world.home.calls("create pods/eviction")
        assert len(evictions) == 2
        deletions = world.remote.calls("delete pods")
        assert [call.body["gracePeriodSeconds"] for call in deletions] == [7, 7]
        assert {call.body["preconditions"]["uid"] for call in deletions} == {
            "uid-remote-web",
            "uid-remote-db",
        }


async def test_nodes_are_cordoned_before_a_pod_is_evicted() -> None:
    async with open_world() as world:
        world.leave_peering("web")
        world.run_remote_kubelet()
        await world.tear_down()
        verbs = [call.what for call in world.home.requests if call.verb not in ("list", "get")]
        assert verbs.index("patch nodes") < verbs.index("create pods/eviction")
        assert verbs.index("create pods/eviction") < verbs.index("delete nodes")


async def test_a_home_pod_ends_only_when_its_remote_pod_has() -> None:
    async with open_world() as world:
        world.leave_peering("web")
        async with asyncio.TaskGroup() as group:
            running = group.create_task(world.tear_down())
            await asyncio.sleep(20)
            assert "Pod web" in world.names(world.home)
            assert len(world.remote.calls("delete pods")) == 1
            world.run_remote_kubelet()
            world.remote.remove(PODS, "demo-home", "web")
            assert await running
        assert world.names(world.home) == ["Node real"]


async def test_a_budget_is_waited_for() -> None:
    async with open_world() as world:
        world.leave_peering("web")
        world.run_remote_kubelet()
        message = "Cannot evict pod as it would violate the pod's disruption budget."
        world.home.fail_next(
            "create pods/eviction", 429, reason="TooManyRequests", message=message, times=5
        )
        assert await world.tear_down()
        assert len(world.home.calls("create pods/eviction")) == 6
        assert sum(message in text for text in world.said) == 1


async def test_a_budget_is_not_waited_for_for_ever() -> None:
    async with open_world() as world:
        world.leave_peering("web")
        world.run_remote_kubelet()
        world.home.fail_next("create pods/eviction", 429, reason="TooManyRequests", times=1000)
        assert await world.tear_down(drain_seconds=30)
        assert world.names(world.home) == ["Node real"]
        assert any("aren't evicted in time" in text for text in world.said)


async def test_pods_of_daemon_sets_go_with_their_node() -> None:
    owner = {"kind": "DaemonSet", "name": "agent", "controller": True}
    async with open_world() as world:
        world.leave_peering()
        world.home.put(build_home_pod("agent", ownerReferences=[owner]))
        assert await world.tear_down()
        assert world.home.calls("create pods/eviction") == []
        assert world.names(world.home) == ["Node real"]


async def test_a_namespace_with_something_foreign_is_left() -> None:
    async with open_world() as world:
        world.leave_peering()
        world.remote.put(build("ConfigMap", "theirs", "demo-home", ours=False))
        assert await world.tear_down()
        assert world.names(world.remote) == [
            "ConfigMap kube-root-ca.crt",
            "ConfigMap theirs",
            "Namespace demo-home",
        ]
        assert any("it holds ConfigMap theirs, which isn't ours" in text for text in world.said)


async def test_a_namespace_that_cannot_be_looked_into_is_left() -> None:
    async with open_world() as world:
        world.leave_peering()
        world.remote.fail_next("list secrets", 403, reason="Forbidden")
        assert not await world.tear_down()
        assert "Namespace demo-home" in world.names(world.remote)
        assert any("can't be seen" in text for text in world.said)


async def test_remote_pods_that_do_not_end_are_left_with_what_they_need() -> None:
    async with open_world() as world:
        world.leave_peering("web")
        assert not await world.tear_down(drain_seconds=10)
        assert "ConfigMap vkubelet-cloud" in world.names(world.remote)
        assert any("aren't gone yet" in text for text in world.said)


async def test_without_a_remote_cluster_home_is_cleared_at_once() -> None:
    async with open_world() as world:
        world.leave_peering("web")
        await world.remote.stop()
        assert await world.tear_down(home_only=True)
        assert world.names(world.home) == ["Node real"]


async def test_twice_is_no_matter() -> None:
    async with open_world() as world:
        world.leave_peering("web")
        world.run_remote_kubelet()
        assert await world.tear_down()
        assert (await world.look()).is_empty
        assert await world.tear_down()


async def test_what_a_failure_interrupted_is_finished_by_the_next() -> None:
    async with open_world() as world:
        world.leave_peering("web")
        world.run_remote_kubelet()
        world.home.fail_next("delete nodes", 500, message="etcd is away")
        with pytest.raises(KubeError, match="etcd is away"):
            await world.tear_down()
        assert await world.tear_down()
        assert world.names(world.home) == ["Node real"]


async def test_another_node_of_the_same_name_is_left_alone() -> None:
    async with open_world() as world:
        world.leave_peering()

        def replace(call: ApiCall) -> Any:
            del call
            raise ApiFailureError(409, "Conflict", "the UID in the precondition differs")

        world.home.handle("delete nodes", replace)
        assert await world.tear_down()
        assert world.home.find(NODES, "", "cloud") is not None
