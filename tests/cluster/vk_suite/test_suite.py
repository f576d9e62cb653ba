"""Pods of the virtual-kubelet project's own suite do on a virtual node what it expects of them."""

import asyncio
import re

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.dependents.conftest import grant_namespace
from tests.cluster.go_program import ProgramMissingError
from tests.cluster.metrics_server import find_address
from tests.cluster.peering import PhysicalNodes, build_environment, run_vkubelet
from tests.cluster.vk_suite.program import PROGRAM

NODE = "suite"
SKIPPED = {
    # It asks a pod called as the node, by the API server's proxy, which has no credentials.
    "TestGetStatsSummary": "our kubelet API lets nobody in without credentials",
    "TestGetMetricsResource": "our kubelet API lets nobody in without credentials",
}

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


async def test_the_suite_passes(
    home: Cluster, remote: Cluster, physical_nodes: PhysicalNodes, namespace: str
) -> None:
    del physical_nodes
    try:
        program = PROGRAM.locate()
    except ProgramMissingError as error:
        pytest.fail(str(error), pytrace=False)
    await grant_namespace(home, namespace)
    environment = build_environment(
        SUITE_KUBECONFIG=str(home.admin_kubeconfig),
        SUITE_NAMESPACE=namespace,
        SUITE_NODE=NODE,
        SUITE_SKIPPED=",".join(SKIPPED),
    )
    arguments = [
        "--namespace=*",
        "--pod-network=routed",  # it takes no pod for ready that has no address
        f"--kubelet-address={find_address()}",  # API servers proxy nothing to loopback ones
    ]
    async with run_vkubelet(home, remote, remote_cluster=NODE, arguments=arguments):
        process = await asyncio.create_subprocess_exec(
            program,
            "-test.v",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
        )
        try:
            output = (await process.communicate())[0].decode()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    await home.kubectl("delete", "node", NODE, "--wait=false")
    results = {name: word for word, name in re.findall(r"--- (\w+): Suite/(\w+)", output)}
    assert process.returncode == 0, output
    assert {name for name, word in results.items() if word == "SKIP"} == set(SKIPPED), output
    assert sum(word == "PASS" for word in results.values()) >= 7, output
