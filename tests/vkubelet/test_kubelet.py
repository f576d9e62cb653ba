"""A whole kubelet: a fake API server at home, a provider in memory, real ports and certificates."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from certs.rotation import SelfSignedCertificates
from tests.fakes.api_server import ApiCall, ApiFailureError, FakeApiServer
from tests.fakes.provider import FakeProvider, build_running_status, build_virtual_node
from tests.vkubelet.world import (
    FailingCertificates,
    ask,
    build_pod,
    build_policy,
    free_range,
    has_certificate,
    listens,
    occupy,
    open_world,
    provide,
)
from vkubelet.config import PortRange
from vkubelet.errors import ComponentExitedError
from vkubelet.interface import PodRef, VirtualNode
from vkubelet.kube.objects import EVENTS, LEASES, NODES, PODS, KubeObject
from vkubelet.kubelet import Kubelet

pytestmark = pytest.mark.virtual_time


async def test_nodes_are_published_with_port_and_lease(tmp_path: Path) -> None:
    async with FakeApiServer() as fake, open_world(fake, tmp_path, provide("n", "m")) as world:
        assert world.kubelet.ready
        assert world.port("n") != world.port("m")
        for name in ("n", "m"):
            assert await ask(world.port(name)) == (401, "Unauthorized")
            lease = fake.get(LEASES, "kube-node-lease", name)
            node = fake.get(NODES, "", name)
            assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


async def test_pods_run_and_their_logs_are_served(tmp_path: Path) -> None:
    def authenticate(call: Any) -> KubeObject:
        known = call.body["spec"]["token"] == "good"
        return {**call.body, "status": {"authenticated": known, "user": {"username": "u"}}}

    def allow(call: Any) -> KubeObject:
        return {**call.body, "status": {"allowed": True}}

    async with FakeApiServer() as fake:
        fake.handle("create tokenreviews", authenticate)
        fake.handle("create subjectaccessreviews", allow)
        fake.put(build_pod())
        async with open_world(fake, tmp_path, provide("n", "m")) as world:
            assert fake.get(PODS, "a", "p")["status"]["phase"] == "Running"
            path = "/containerLogs/a/p/c"
            assert await ask(world.port("n"), path, "good") == (200, "line\n")
            assert (await ask(world.port("n"), path, "bad"))[0] == 401
            assert (await ask(world.port("m"), path, "good"))[0] == 404
            assert [pod.metadata.name for pod in world.kubelet.home_pods] == ["p"]


async def test_stop_leaves_everything_as_it_is_and_closes_the_ports(tmp_path: Path) -> None:
    async with FakeApiServer() as fake:
        fake.put(build_pod())
        loop = asyncio.get_running_loop()
        async with open_world(fake, tmp_path, provide("n")) as world:
            port = world.port()
            assert listens(port)
            await asyncio.sleep(1)
            node, pod = fake.get(NODES, "", "n"), fake.get(PODS, "a", "p")
            stopped_at = loop.time()
        assert loop.time() - stopped_at < 10
        assert not listens(port)
        assert fake.get(NODES, "", "n") == node
        assert fake.get(PODS, "a", "p") == pod
        assert world.provider.deleted == []


async def test_restart_takes_the_same_port_and_writes_nothing(tmp_path: Path) -> None:
    async with FakeApiServer() as fake:
        fake.put(build_pod())
        provider = provide("n", "m")
        async with open_world(fake, tmp_path, provider) as world:
            ports = world.port("n"), world.port("m")
        fake.requests.clear()
        provider.set_nodes(build_virtual_node("n"), build_virtual_node("m"))
        async with open_world(fake, tmp_path, provider) as world:
            await asyncio.sleep(60)
            assert (world.port("n"), world.port("m")) == ports
            assert world.writes() == []
            assert fake.calls("patch leases")


async def test_nodes_of_an_earlier_life_are_served_before_the_provider_speaks(
    tmp_path: Path,
) -> None:
    async with FakeApiServer() as fake:
        async with open_world(fake, tmp_path, provide("n")) as world:
            port = world.port()
        fake.requests.clear()
        silent = FakeProvider(nodes=None, synced=False)
        async with open_world(fake, tmp_path, silent, ready=False) as world:
            await asyncio.sleep(5)
            assert not world.kubelet.ready
            assert (await ask(port))[0] == 401
            assert fake.calls("patch leases")
            assert world.writes() == []
            await asyncio.sleep(30)
            [ready] = fake.get(NODES, "", "n")["status"]["conditions"]
            assert (ready["status"], ready["reason"]) == ("False", "RemoteUnreachable")


async def test_no_new_node_before_the_provider_speaks(tmp_path: Path) -> None:
    async with FakeApiServer() as fake:
        provider = FakeProvider(nodes=None)
        async with open_world(fake, tmp_path, provider, ready=False) as world:
            assert fake.objects(NODES) == []
            provider.set_nodes(build_virtual_node("n"))
            async with asyncio.timeout(60):
                await world.kubelet.wait_ready()
            assert world.port()


async def test_lowest_free_port_of_the_range(tmp_path: Path) -> None:
    async with FakeApiServer() as fake:
        with free_range(3) as ports, occupy(ports.first):
            async with open_world(fake, tmp_path, provide("n"), ports=ports) as world:
                assert world.port() == ports.first + 1


async def test_range_that_is_too_small_is_named_and_other_nodes_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeApiServer() as fake:
        with free_range(1) as ports:
            policy: dict[str, Any] = {"ports": ports, "port_setting": "--kubelet-ports"}
            async with open_world(fake, tmp_path, provide("n", "m"), **policy) as world:
                assert [node["metadata"]["name"] for node in fake.objects(NODES)] in (["m"], ["n"])
                assert world.kubelet.ready
                errors = {r.getMessage() for r in caplog.records if r.levelno == logging.ERROR}
                assert any(f"no port is free in --kubelet-ports {ports}" in e for e in errors)
                [served] = [node["metadata"]["name"] for node in fake.objects(NODES)]
                other = ({"n", "m"} - {served}).pop()
                world.provider.set_nodes(build_virtual_node(other))
                await asyncio.sleep(60)
                assert world.port(other) == ports.first


async def test_address_that_is_not_ours_is_told_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeApiServer() as fake:
        policy: dict[str, Any] = {
            "bind_address": "203.0.113.9",
            "ports": PortRange(first=20000, last=29999),
        }
        async with open_world(fake, tmp_path, provide("n"), **policy):
            assert fake.objects(NODES) == []
            assert "203.0.113.9" in caplog.text


async def test_name_of_a_real_node(tmp_path: Path) -> None:
    async with FakeApiServer() as fake:
        real = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}, "spec": {}}
        before = fake.put(real)
        async with open_world(fake, tmp_path, provide("real", "n")) as world:
            await asyncio.sleep(100)
            assert fake.get(NODES, "", "real") == before
            assert fake.find(LEASES, "kube-node-lease", "real") is None
            assert [event["reason"] for event in fake.objects(EVENTS)] == ["NodeNameTaken"]
            assert await ask(world.port("n")) == (401, "Unauthorized")


def refuse(_: ApiCall) -> KubeObject:
    raise ApiFailureError(429, "TooManyRequests", "Cannot evict pod: the budget is used up.")


async def test_node_that_is_not_wanted_is_served_until_its_pods_have_gone(tmp_path: Path) -> None:
    async with FakeApiServer() as fake:
        provider = provide("n", "m")
        provider.auto = False
        async with open_world(fake, tmp_path, provider) as world:
            port, ref = world.port("m"), PodRef("a", "p", "uid-p")
            fake.put(build_pod("p", "m"))
            await asyncio.sleep(5)
            provider.show(ref, node="m")
            await asyncio.sleep(5)
            assert has_certificate(tmp_path, "m")
            provider.set_nodes(build_virtual_node("n"))
            await asyncio.sleep(10)
            assert provider.deleted == [(ref, 30)]
            assert (await ask(port))[0] == 401
            fake.requests.clear()
            await asyncio.sleep(20)
            assert {call.resource.name for call in fake.calls("patch leases")} == {"n", "m"}
            # Its status is shown to the last.
            provider.show(ref, build_running_status(phase="Failed"), node="m")
            await asyncio.sleep(5)
            assert fake.get(PODS, "a", "p")["status"]["phase"] == "Failed"
            provider.lose(ref)
            await asyncio.sleep(20)
            assert fake.find(PODS, "a", "p") is None
            assert fake.find(NODES, "", "m") is None
            assert not listens(port)
            assert not has_certificate(tmp_path, "m")
            assert has_certificate(tmp_path, "n")
            fake.requests.clear()
            await asyncio.sleep(30)
            assert {call.resource.name for call in fake.calls("patch leases")} == {"n"}
            assert fake.calls("create leases") == []


async def test_node_that_is_wanted_again_while_it_goes(tmp_path: Path) -> None:
    async with FakeApiServer() as fake:
        fake.handle("create pods/eviction", refuse)
        fake.put(build_pod("p", "m"))
        both = build_virtual_node("n"), build_virtual_node("m")
        async with open_world(fake, tmp_path, provide("n", "m")) as world:
            port = world.port("m")
            assert fake.get(PODS, "a", "p")["status"]["phase"] == "Running"
            world.provider.set_nodes(both[0])
            await asyncio.sleep(20)
            # A pod that comes to it all the same isn't started.
            fake.put(build_pod("late", "m"))
            await asyncio.sleep(5)
            assert fake.get(PODS, "a", "late")["status"]["reason"] == "NodeBeingRemoved"
            world.provider.set_nodes(*both)
            await asyncio.sleep(20)
            assert fake.get(PODS, "a", "late")["status"]["phase"] == "Running"
            assert fake.get(PODS, "a", "p")["status"]["phase"] == "Running"
            assert not fake.get(NODES, "", "m")["spec"].get("unschedulable")
            assert world.port("m") == port
            assert (await ask(port))[0] == 401
            assert world.provider.deleted == []


async def test_node_that_goes_and_comes_back_at_once_has_a_port_and_a_certificate(
    tmp_path: Path,
) -> None:
    async with FakeApiServer() as fake, open_world(fake, tmp_path, provide("n", "m")) as world:
        both = build_virtual_node("n"), build_virtual_node("m")
        for pause in (6.9, 7.0, 7.1, 8.0):
            world.provider.set_nodes(both[0])
            await asyncio.sleep(pause)
            world.provider.set_nodes(*both)
            await asyncio.sleep(10)
            assert (await ask(world.port("m")))[0] == 401
            assert has_certificate(tmp_path, "m")


async def test_certificate_that_can_not_be_removed_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Stuck(FailingCertificates):
        def forget(self, node_name: str) -> None:
            raise PermissionError(f"no way to remove {node_name}")

    async with FakeApiServer() as fake:
        stuck = Stuck(SelfSignedCertificates(tmp_path), times=0)
        async with open_world(fake, tmp_path, provide("k", "m"), certificates=stuck) as world:
            world.provider.set_nodes(build_virtual_node("k"))
            await asyncio.sleep(10)
            assert fake.find(NODES, "", "m") is None
            assert "m: its certificate stays: no way to remove m" in caplog.text
            assert (await ask(world.port("k")))[0] == 401


async def test_deleted_node_is_registered_again_on_its_port(tmp_path: Path) -> None:
    async with FakeApiServer() as fake, open_world(fake, tmp_path, provide("n")) as world:
        port, pod = world.port(), build_pod()
        fake.remove(NODES, "", "n")
        fake.put(pod)
        await asyncio.sleep(12)
        assert world.port() == port
        lease = fake.get(LEASES, "kube-node-lease", "n")
        node = fake.get(NODES, "", "n")
        assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


async def test_node_whose_certificate_fails_does_not_stop_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeApiServer() as fake:
        failing = FailingCertificates(SelfSignedCertificates(tmp_path), times=3)
        async with open_world(fake, tmp_path, provide("n", "m"), certificates=failing) as world:
            assert (await ask(world.port("m")))[0] == 401
            assert "no certificate today" in caplog.text
            await asyncio.sleep(60)
            assert (await ask(world.port("n")))[0] == 401


class EndingProvider(FakeProvider):
    """Its stream of nodes ends, which a provider must not do."""

    async def watch_nodes(self) -> AsyncIterator[Sequence[VirtualNode]]:
        yield [build_virtual_node("n")]


async def test_component_that_ends_ends_the_kubelet(tmp_path: Path) -> None:
    async with FakeApiServer() as fake, fake.client("home") as client:
        certificates = SelfSignedCertificates(tmp_path)
        kubelet = Kubelet(EndingProvider(), client, certificates, build_policy())
        with pytest.raises(ExceptionGroup) as raised:
            await kubelet.run()
        assert raised.group_contains(ComponentExitedError)


async def test_servers_go_by_the_policys_timeouts() -> None:
    async with FakeApiServer() as fake, fake.client("home") as client:
        policy = build_policy(stream_idle_seconds=7.0, stream_creation_seconds=5.0)
        kubelet = Kubelet(FakeProvider(), client, SelfSignedCertificates(Path()), policy)
        served = kubelet._services.policy
        assert (served.stream_idle_seconds, served.stream_creation_seconds) == (7.0, 5.0)


class EndingCertificates(FailingCertificates):
    """What follows the source of certificates ends, which it must not do."""

    async def run(self) -> None:
        return


async def test_source_of_certificates_is_run(tmp_path: Path) -> None:
    async with FakeApiServer() as fake, fake.client("home") as client:
        certificates = EndingCertificates(SelfSignedCertificates(tmp_path), times=0)
        kubelet = Kubelet(provide("n"), client, certificates, build_policy())
        with pytest.raises(ExceptionGroup) as raised:
            await kubelet.run()
        assert raised.group_contains(ComponentExitedError)


async def test_many_pods_and_a_slow_api_delay_no_lease(tmp_path: Path) -> None:
    async with FakeApiServer() as fake:
        for number in range(200):
            fake.put(build_pod(f"p{number}"))
        fake.delay_next("patch pods/status", 20.0, times=100)
        fake.delay_next("create nodes", 5.0)
        async with open_world(fake, tmp_path, provide("n")) as world:
            await asyncio.sleep(60)
            assert len(fake.calls("patch leases")) >= 6
            await asyncio.sleep(60)
            phases = {pod["status"]["phase"] for pod in fake.objects(PODS)}
            assert phases == {"Running"}
            assert len(world.provider.applied) == 200


async def test_slow_writes_of_a_node_delay_no_lease(tmp_path: Path) -> None:
    async with FakeApiServer() as fake, open_world(fake, tmp_path, provide("n")) as world:
        fake.delay_next("patch nodes/status", 50.0, times=100)
        fake.delay_next("apply nodes", 50.0, times=100)
        for number in range(6):
            fake.requests.clear()
            changed = build_virtual_node("n", allocatable={"cpu": str(number)})
            world.provider.set_nodes(changed)
            await asyncio.sleep(11)
            assert fake.calls("patch leases")


@pytest.mark.parametrize("moment", [0.0, 0.01, 0.1, 1.0, 7.0])
async def test_restart_at_any_moment(tmp_path: Path, moment: float) -> None:
    async with FakeApiServer() as fake:
        fake.put(build_pod())
        provider = provide("n")
        fake.delay_next("create nodes", 0.05)
        fake.delay_next("patch pods/status", 0.5)
        async with fake.client("home") as client, asyncio.TaskGroup() as group:
            certificates = SelfSignedCertificates(tmp_path)
            kubelet = Kubelet(provider, client, certificates, build_policy())
            running = group.create_task(kubelet.run())
            await asyncio.sleep(moment)
            running.cancel()
        provider.set_nodes(build_virtual_node("n"))
        async with open_world(fake, tmp_path, provider) as world:
            assert fake.get(PODS, "a", "p")["status"]["phase"] == "Running"
            assert world.provider.deleted == []
            assert len(fake.objects(NODES)) == 1
            assert set(provider.behind) == {PodRef("a", "p", "uid-p")}


async def test_metrics_of_nodes(tmp_path: Path) -> None:
    def read_expiry(node: str) -> float | None:
        name = "vkubelet_certificate_expiry_timestamp_seconds"
        return REGISTRY.get_sample_value(name, {"node": node})

    async with FakeApiServer() as fake:
        async with open_world(fake, tmp_path, provide("n", "m")):
            assert REGISTRY.get_sample_value("vkubelet_virtual_nodes") == 2
            for node in ("n", "m"):
                expiry = read_expiry(node)
                assert expiry is not None
                assert expiry > time.time()
        assert (read_expiry("n"), read_expiry("m")) == (None, None)
