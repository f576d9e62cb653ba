"""Fixtures: a pod reached in each of the ways that an API server has to a kubelet."""

import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cluster.cluster import Cluster
from tests.cluster.peering import PhysicalNodes, run_vkubelet
from tests.cluster.processes import ReservedPort
from tests.cluster.product.cloud import build_pod, create, wait_pod
from tests.cluster.streaming.legs import CLIENTS, LEGS, Client, Leg, Shell, open_shell
from tests.cluster.waiting import wait_until

SERVER = """
import asyncio, hashlib, sys
async def answer(reader, writer):
    data = await reader.read(5)
    if data == b"line\\n":
        writer.write(b"echo line\\n")
        writer.close()
        return
    data += await reader.read(-1)
    writer.write(hashlib.sha256(data).hexdigest().encode() + data)
    await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[1]), backlog=500)
    print("listening", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@pytest_asyncio.fixture(scope="package", loop_scope="session", params=LEGS)
async def leg(
    request: pytest.FixtureRequest, home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes
) -> AsyncIterator[Leg]:
    """A node, and by what its port is reached."""
    del physical_nodes
    leg = Leg(request.param, home, remote)
    if leg.arguments is None:
        yield leg
        return
    arguments = [
        "--namespace=*",
        "--remote-namespace={namespace}-by-" + leg.node,
        f"--node-taint=streaming.test/only={leg.node}:NoSchedule",
        *leg.arguments,
    ]
    async with run_vkubelet(home, remote, remote_cluster=leg.node, arguments=arguments):
        yield leg
    await home.kubectl("delete", "node", leg.node, "--wait=false")


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def shell(leg: Leg) -> AsyncIterator[Shell]:
    """A pod on that node that does nothing."""
    async with open_shell(leg) as shell:
        yield shell


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def server(shell: Shell) -> int:
    """A port of a pod that answers to a line at once, to all else in the end with its digest."""
    reserved = ReservedPort()
    reserved.close()
    port = reserved.number
    pod = build_pod(
        "server",
        shell.namespace,
        command=[sys.executable, "-c", SERVER, str(port)],
        **shell.leg.placement,
    )
    cluster = shell.leg.cluster
    await create(cluster, pod)
    await wait_pod(cluster, "server", shell.namespace, "the server", phase="Running")

    async def listening() -> bool:
        logs = await cluster.kubectl("logs", "server", f"-n={shell.namespace}")
        return "listening" in logs.stdout

    await wait_until(listening, "the server in the pod", timeout_seconds=20)
    return port


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    """What kubectl speaks."""
    return Client(request.param)
