"""
`python -m tests.bench.baseline`: a virtual node written the obvious way, to compare with.

Objects are the generated models of kubernetes_asyncio; each pod has a task that creates the remote
pod, watches it until it's Running, reads the home pod anew and replaces its status. There are no
certificates, no port, no Lease, no translation, no restarts: less than is needed.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from kubernetes_asyncio.client import (
    ApiClient,
    Configuration,
    CoreV1Api,
    V1Node,
    V1NodeCondition,
    V1NodeStatus,
    V1ObjectMeta,
    V1Pod,
)
from kubernetes_asyncio.config import load_kube_config
from kubernetes_asyncio.watch import Watch


async def _configure(kubeconfig: str) -> Configuration:
    configuration = Configuration()
    await load_kube_config(config_file=kubeconfig, client_configuration=configuration)
    return configuration


class Baseline:
    """The virtual node."""

    def __init__(self, home: CoreV1Api, remote: CoreV1Api, node: str) -> None:
        self._home = home
        self._remote = remote
        self._node = node

    async def run(self) -> None:
        """Register the node, and run its pods until cancelled."""
        await self._register()
        select = f"spec.nodeName={self._node}"
        async with asyncio.TaskGroup() as group, Watch() as watch:
            print("ready", flush=True)
            async for event in watch.stream(
                self._home.list_pod_for_all_namespaces, field_selector=select
            ):
                if event["type"] == "ADDED":
                    group.create_task(self._run_pod(event["object"]))

    async def _register(self) -> None:
        ready = V1NodeCondition(type="Ready", status="True", reason="Baseline")
        capacity = {"cpu": "1000", "memory": "4Ti", "pods": "10000"}
        status = V1NodeStatus(conditions=[ready], capacity=capacity, allocatable=capacity)
        node = V1Node(metadata=V1ObjectMeta(name=self._node), status=status)
        await self._home.create_node(node)

    async def _run_pod(self, pod: V1Pod) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        pod.spec.node_name = ""
        metadata = V1ObjectMeta(name=name, namespace=namespace, labels=pod.metadata.labels)
        await self._remote.create_namespaced_pod(namespace, V1Pod(metadata=metadata, spec=pod.spec))
        running = await self._watch_until_running(name, namespace)
        current = await self._home.read_namespaced_pod(name, namespace)
        current.status = running.status
        await self._home.replace_namespaced_pod_status(name, namespace, current)

    async def _watch_until_running(self, name: str, namespace: str) -> V1Pod:
        async with Watch() as watch:
            async for event in watch.stream(
                self._remote.list_namespaced_pod,
                namespace=namespace,
                field_selector=f"metadata.name={name}",
            ):
                found: V1Pod = event["object"]
                if found.status.phase == "Running":
                    return found
        raise AssertionError("a watch without a time-out doesn't end")


async def run(arguments: argparse.Namespace) -> None:
    """Run it until it's ended."""
    home_configuration = await _configure(arguments.kubeconfig)
    remote_configuration = await _configure(arguments.remote_kubeconfig)
    async with ApiClient(home_configuration) as home, ApiClient(remote_configuration) as remote:
        await Baseline(CoreV1Api(home), CoreV1Api(remote), arguments.node).run()


def main(argv: Sequence[str]) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="baseline")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--remote-kubeconfig", required=True)
    parser.add_argument("--node", required=True)
    asyncio.run(run(parser.parse_args(argv)))


if __name__ == "__main__":
    main(sys.argv[1:])
