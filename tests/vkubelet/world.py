"""Runs a whole kubelet: a fake API server, a provider in memory, real ports and certificates."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from certs.rotation import SelfSignedCertificates
from tests.fakes.api_server import FakeApiServer
from tests.fakes.provider import FakeProvider, build_virtual_node
from vkubelet.config import ALL_NAMESPACES, KubeletPolicy, PortRange
from vkubelet.errors import VkubeletError
from vkubelet.interface import ServingCertificate
from vkubelet.kube.objects import EVENTS, LEASES, NODES, KubeObject
from vkubelet.kubelet import Kubelet

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


def has_certificate(folder: Path, node: str) -> bool:
    return any(path.name.startswith(node) for path in folder.rglob("*.pem"))


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


class FailingCertificates:
    """Certificates that fail for one node, some times."""

    def __init__(self, source: SelfSignedCertificates, times: int) -> None:
        self.source = source
        self.times = times

    async def run(self) -> None:
        await self.source.run()

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
