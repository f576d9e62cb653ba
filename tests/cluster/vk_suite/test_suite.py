"""Pods of the virtual-kubelet project's own suite do on a virtual node what it expects of them."""

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.dependents.conftest import grant_namespace
from tests.cluster.go_program import ProgramMissingError
from tests.cluster.metrics_server import MetricsServer, find_address
from tests.cluster.peering import PhysicalNodes, build_environment, run_vkubelet
from tests.cluster.vk_suite.door import open_door
from tests.cluster.vk_suite.program import PROGRAM

NODE = "suite"
KUBELET_PORT = 10250
"""That it asks a pod called as the node for, by the API server, which has no credentials there."""

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


async def publish_door(home: Cluster, namespace: str, address: str) -> None:
    """Make a pod called as the node; it never runs, but has an address."""
    spec = {
        "schedulerName": "nobody",
        "containers": [{"name": "door", "image": "door"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NODE}, "spec": spec}
    text = msgspec.json.encode(pod).decode()
    await home.kubectl("create", f"--namespace={namespace}", "-f", "-", stdin=text)
    status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
    await home.kubectl(
        *("patch", "pod", NODE, f"--namespace={namespace}", "--subresource=status"),
        *("--type=merge", f"--patch={msgspec.json.encode(status).decode()}"),
    )


async def read_kubelet(home: Cluster, address: str) -> str:
    """URL of the node's port."""
    node = (await home.kubectl("get", "node", NODE, "-o", "json")).json()
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    return f"https://{address}:{port}"


@contextlib.asynccontextmanager
async def door(home: Cluster, namespace: str, address: str) -> AsyncIterator[None]:
    """A way for those without credentials to the node's port, while the block runs."""
    pair = home.client_ca.issue_client("suite", ["system:masters"]).write(home.folder, "suite")
    client = ssl.create_default_context(cadata=home.serving_ca.certificate.decode())
    client.load_cert_chain(*pair)
    pair = home.serving_ca.issue_server(NODE, [address]).write(home.folder, "suite-door")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(*pair)
    await publish_door(home, namespace, address)
    kubelet = await read_kubelet(home, address)
    with socket.create_server((address, KUBELET_PORT)) as listener:
        async with open_door(listener, kubelet, client, server):
            yield


async def run_suite(home: Cluster, namespace: str, program: Path) -> tuple[int | None, str]:
    """Run the suite; its exit code, and what it tells."""
    process = await asyncio.create_subprocess_exec(
        program,
        "-test.v",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=build_environment(
            SUITE_KUBECONFIG=str(home.admin_kubeconfig),
            SUITE_NAMESPACE=namespace,
            SUITE_NODE=NODE,
        ),
    )
    try:
        output = (await process.communicate())[0].decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, output


async def test_the_suite_passes(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes, namespace: str
) -> None:
    del physical_nodes
    try:
        program = PROGRAM.locate()
        metrics = MetricsServer(remote)
    except ProgramMissingError as error:
        pytest.fail(str(error), pytrace=False)
    await grant_namespace(home, namespace)
    address = find_address()  # API servers proxy nothing to loopback ones
    arguments = [
        "--namespace=*",
        "--pod-network=routed",  # it takes no pod for ready that has no address
        f"--kubelet-address={address}",
    ]
    try:
        await metrics.start()
        async with (
            run_vkubelet(home, remote, remote_cluster=NODE, arguments=arguments),
            door(home, namespace, address),
        ):
            code, output = await run_suite(home, namespace, program)
    except ProgramMissingError as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        await metrics.stop()
    await home.kubectl("delete", "node", NODE, "--wait=false")
    results = {name: word for word, name in re.findall(r"--- (\w+): Suite/(\w+)", output)}
    assert code == 0, output
    assert len(results) >= 9, output
    assert set(results.values()) == {"PASS"}, output
