"""
`python -m tests.bench.ledger_process`: nodes and ledger of `vkubelet run`, nothing else.

It prints JSON lines: one when it's synced, and one each time a line comes on its stdin; that line
says how many pods are counted once more, without a network, to see what that alone costs.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import msgspec

from provider.collector import calm_collector, set_known_aside
from provider.config import PlanConfig
from provider.node_plan import build_mapping, build_node_plan
from provider.nodes.remote_nodes import RemoteNodes
from provider.peering import Peering
from provider.pods.usage import RemoteUsage
from provider.requests import decode_counted_pod, pod_requests
from tests.bench.figures import read_usage
from tests.bench.remote_api import build_pod
from vkubelet.interface import VirtualNode
from vkubelet.kube.access import load_kubeconfig
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import encode_object
from vkubelet.kube.quantity import parse_quantity
from vkubelet.supervision import run_component

PEERING = Peering(home_uid="bench", home_cluster="home", remote_cluster="cloud")


class Bench:
    """The parts, and how far they are."""

    def __init__(self, client: KubeClient, arguments: argparse.Namespace) -> None:
        remote = {"cluster": "cloud", "kubeconfig": arguments.kubeconfig}
        config = PlanConfig.model_validate(
            {"remote": remote, "nodes": {"mapping": arguments.mapping}}
        )
        mapping = build_mapping(config.nodes, "cloud")
        plan = build_node_plan(config.nodes, config.capacity, mapping, PEERING)
        self.nodes = RemoteNodes(client, plan)
        self.usage = RemoteUsage(client, PEERING, self.nodes.ledger)
        self.yields = 0
        self.virtual_nodes: Sequence[VirtualNode] = ()

    async def follow(self) -> None:
        """Take the virtual nodes as the kubelet would."""
        await self.usage.wait_synced()
        async for nodes in self.nodes.watch():
            self.yields += 1
            self.virtual_nodes = nodes

    def count_events(self, number: int) -> float:
        """Decode and count pods that have changed; microseconds for each."""
        pods = [encode_object(build_pod(index, 5000, 2000 + index)) for index in range(number)]
        begun = time.process_time()
        for raw in pods:
            pod = decode_counted_pod(raw)
            self.nodes.ledger.set_remote_pod(
                pod.metadata.key, node=pod.spec.node_name, requests=pod_requests(pod)
            )
        return (time.process_time() - begun) / max(number, 1) * 1e6

    def report(self, started: float, *, events: int = 0) -> None:
        """Print how far it is, and what it has used."""
        usage = read_usage(os.getpid())
        line = {
            "seconds": time.monotonic() - started,
            "cpu_seconds": usage.cpu_seconds,
            "rss_mib": usage.rss_mib,
            "virtual_nodes": len(self.virtual_nodes),
            "free_cpu": float(sum(_free_cpu(node) for node in self.virtual_nodes)),
            "yields": self.yields,
            "event_us": self.count_events(events),
        }
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        sys.stdout.flush()


def _free_cpu(node: VirtualNode) -> Decimal:
    return parse_quantity(node.allocatable["cpu"])


async def run(arguments: argparse.Namespace) -> None:
    """Run until stdin ends."""
    access = await load_kubeconfig(arguments.kubeconfig, None)
    async with KubeClient(access, name="remote") as client, asyncio.TaskGroup() as group:
        bench = Bench(client, arguments)
        started = time.monotonic()
        tasks = [
            group.create_task(run_component(name, run), name=name)
            for name, run in (
                ("nodes", bench.nodes.informer.run),
                ("usage", bench.usage.run),
                ("follow", bench.follow),
            )
        ]
        while not bench.virtual_nodes:
            await asyncio.sleep(0.05)
        set_known_aside()
        bench.report(started)
        while line := await asyncio.to_thread(sys.stdin.readline):
            bench.report(started, events=int(line))
        for task in tasks:
            task.cancel()


def main(argv: Sequence[str]) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="ledger_process")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--mapping", default="cluster")
    calm_collector()
    asyncio.run(run(parser.parse_args(argv)))


if __name__ == "__main__":
    main(sys.argv[1:])
