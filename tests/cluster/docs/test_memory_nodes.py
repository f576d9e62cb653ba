"""The example of a provider: docs/examples/memory-nodes."""

import sys

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.peering import build_environment
from tests.cluster.product.cloud import build_pod, create, get_pod, wait_gone, wait_pod
from tests.cluster.waiting import wait_until
from tests.docs.commands import REPOSITORY

pytestmark = pytest.mark.cluster

EXAMPLE = REPOSITORY / "docs" / "examples" / "memory-nodes"


async def test_it_serves_a_node(fresh_clusters: tuple[Cluster, Cluster]) -> None:
    home, _ = fresh_clusters
    folder = home.folder / "memory-nodes"
    command = [sys.executable, "-m", "memory_nodes", f"--kubeconfig={home.admin_kubeconfig}"]
    environment = build_environment(PYTHONPATH=f"{REPOSITORY}:{EXAMPLE}")
    program = home.start_component(
        "memory-nodes", [*command, f"--data-dir={folder}"], env=environment
    )
    try:

        async def ready() -> bool:
            assert program.exit_code is None, program.read_log()
            shown = await home.kubectl("get", "nodes", "--selector=type=memory")
            return "memory   Ready" in shown.stdout

        await wait_until(ready, "the node is Ready")
        await home.make_namespace("memories")
        tolerations = [{"key": "example.com/memory", "operator": "Exists"}]
        selector = {"type": "memory"}
        await create(
            home, build_pod("first", "memories", nodeSelector=selector, tolerations=tolerations)
        )
        await wait_pod(home, "first", "memories", "a pod", phase="Running")
        log = await home.kubectl("logs", "first", "-n=memories")
        assert log.stdout == "main of memories/first pretends to run\n"
        done = await home.kubectl("exec", "first", "-n=memories", "--", "any", "words")
        assert done.stdout == "any words\n"
        refused = await home.kubectl("attach", "first", "-n=memories", check=False)
        assert "has nothing to attach to" in refused.stderr
        await home.kubectl("delete", "pod", "first", "-n=memories", "--wait=false")
        await wait_gone(home, "first", "memories")
        assert await get_pod(home, "first", "memories") == {}
    finally:
        await program.stop()
        await home.kubectl("delete", "node", "memory", "--ignore-not-found")
