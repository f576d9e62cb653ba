"""A whole kubelet: a fake API server at home, a provider in memory, real ports and certificates."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from certs.rotation import SelfSignedCertificates
from tests.fakes.api_server import FakeApiServer
from tests.fakes.provider import FakeProvider, build_virtual_node
from vkubelet.config import ALL_NAMESPACES, KubeletPolicy, PortRange
from vkubelet.errors import ComponentExitedError, VkubeletError
from vkubelet.interface import PodRef, ServingCertificate, VirtualNode
from vkubelet.kube.objects import EVENTS, LEASES, NODES, PODS, KubeObject
from vkubelet.kubelet import Kubelet

pytestmark = pytest.mark.virtual_time

ADDRESS = "127.0.0.1"


def build_policy(**fields: Any) -> KubeletPolicy:
    values = {"namespaces": ALL_NAMESPACES, "bind_address": ADDRESS, **fields}
    return KubeletPolicy(owner_labels={"owner": "us"}, address=ADDRESS, **values)


def build_pod(name: str = "p", node: str = "n") -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "a", "name": name, "uid": f"uid-{name}"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending"},
    }


class World:
    """A kubelet that runs."""

    def __init__(self, fake: FakeApiServer, provider: FakeProvider, kubelet: Kubelet) -> None:
        self.fake = fake
        self.provider = provider
        self.kubelet = kubelet

    def port(self, name: str = "n") -> int:
        status = self.fake.get(NODES, "", name)["status"]
        port: int = status["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        return port

    def writes(self) -> list[str]:
        """What was written, Leases and events apart."""
        verbs = {"create", "update", "patch", "apply", "delete"}
        return [
            call.what
            for call in self.fake.requests
            if call.verb in verbs and call.resource.resource not in {LEASES, EVENTS}
        ]


@asynccontextmanager
async def open_world(
    fake: FakeApiServer,
    folder: Path,
    provider: FakeProvider,
    *,
    certificates: Any = None,
    ready: bool = True,
    **policy: Any,
) -> AsyncIterator[World]:
    certificates = certificates or SelfSignedCertificates(folder)
    async with fake.client("home") as client:
        kubelet = Kubelet(provider, client, certificates, build_policy(**policy))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(kubelet.run())
            if ready:
                async with asyncio.timeout(60):
                    await kubelet.wait_ready()
            await asyncio.sleep(2)
            yield World(fake, provider, kubelet)
            running.cancel()


def provide(*names: str) -> FakeProvider:
    return FakeProvider(nodes=[build_virtual_node(name) for name in names])


async def ask(port: int, path: str = "/healthz", token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://{ADDRESS}:{port}{path}", headers=headers, ssl=False) as response,
    ):
        return response.status, await response.text()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ADDRESS, port)) == 0


@contextmanager
def free_range(size: int) -> Iterator[PortRange]:
    """Ports in a row that nobody has at this moment."""
    for first in range(21000, 30000, size):
        probes = []
        try:
            for port in range(first, first + size):
                probe = socket.socket()
                probes.append(probe)
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((ADDRESS, port))
        except OSError:
            continue
        finally:
            for probe in probes:
                probe.close()
        yield PortRange(first=first, last=first + size - 1)
        return
    raise AssertionError("no free ports")


@contextmanager
def occupy(port: int) -> Iterator[None]:
    with socket.create_server((ADDRESS, port)):
        yield


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


async def test_node_that_goes_and_comes_back(tmp_path: Path) -> None:
    async with FakeApiServer() as fake, open_world(fake, tmp_path, provide("n", "m")) as world:
        port = world.port("m")
        fake.put(build_pod("late", "m"))
        world.provider.set_nodes(build_virtual_node("n"))
        await asyncio.sleep(20)
        assert not listens(port)
        assert fake.find(NODES, "", "m") is not None
        fake.requests.clear()
        await asyncio.sleep(60)
        renewed = {call.resource.name for call in fake.calls("patch leases")}
        assert renewed == {"n"}
        assert fake.get(PODS, "a", "late")["status"]["phase"] == "Running"
        both = build_virtual_node("n"), build_virtual_node("m")
        world.provider.set_nodes(*both)
        await asyncio.sleep(20)
        assert world.port("m") == port
        assert listens(port)
        await asyncio.sleep(1)


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


class FailingCertificates:
    """Certificates that fail for one node, some times."""

    def __init__(self, source: SelfSignedCertificates, times: int) -> None:
        self.source = source
        self.times = times

    async def watch_certificate(
        self, node_name: str, addresses: Sequence[str]
    ) -> AsyncIterator[ServingCertificate]:
        if node_name == "n" and self.times:
            self.times -= 1
            raise VkubeletError("no certificate today")
        async for certificate in self.source.watch_certificate(node_name, addresses):
            yield certificate
            if node_name == "m":
                yield certificate  # the same once more: it's replaced in flight

    def forget(self, node_name: str) -> None:
        self.source.forget(node_name)


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
