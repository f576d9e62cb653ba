"""
`python -m tests.bench.real_load`: creates pods and watches them come up, in a process of its own.

For each line of stdin, a JSON object (`Load`), it writes a line to stdout (`Outcome`). All pods are
made from one, and have the label `load` to be found by.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from vkubelet.kube.access import load_kubeconfig
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import PODS, KubeObject

TIMEOUT_SECONDS = 240.0


class Load(msgspec.Struct, kw_only=True):
    """
    What is to be made.

    Attributes:
        name: What the pods are called, before their numbers.
        namespace: Where they are made.
        count: How many.
        node: What they are bound to; "": the scheduler chooses.
        parallel: How many requests are under way at once.
        alone: Whether each has to run before the next is made.
        per_second: At most so many a second; 0: as fast as it goes.
    """

    name: str
    namespace: str
    count: int
    node: str = ""
    parallel: int = 16
    alone: bool = False
    per_second: float = 0.0


class Outcome(msgspec.Struct, kw_only=True):
    """
    How that went.

    Attributes:
        seconds: From before the first was created until the last was Running.
        created_seconds: Until the last was created.
        latencies: From before each was created until it was Running.
    """

    seconds: float
    created_seconds: float
    latencies: list[float]


class _Metadata(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Metadata


_decode_named = msgspec.json.Decoder(_Named).decode


def build_pod(load: Load, number: int) -> KubeObject:
    """Build a pod that depends on nothing."""
    bound = {"nodeName": load.node} if load.node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{load.name}-{number}",
            "namespace": load.namespace,
            "labels": {"app": load.name, "load": load.name},
        },
        "spec": {
            **bound,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/team/application:v1.2.3",
                    "command": ["sleep", "3600"],
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                }
            ],
        },
    }


class Generator:
    """Makes the pods of one load."""

    def __init__(self, client: KubeClient, load: Load) -> None:
        self._client = client
        self._load = load
        self._numbers = iter(range(load.count))
        self._asked: dict[str, float] = {}
        self._running: dict[str, float] = {}
        self._seen = asyncio.Condition()
        self._created_at = 0.0

    async def run(self) -> Outcome:
        """Make them, and wait until all are Running."""
        opened = asyncio.Event()
        async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch(opened))
            await opened.wait()
            begun = time.monotonic()
            async with asyncio.TaskGroup() as making:
                for _ in range(1 if self._load.alone else self._load.parallel):
                    making.create_task(self._make(begun))
            await self._wait_all()
            watching.cancel()
        return Outcome(
            seconds=max(self._running.values()) - begun,
            created_seconds=self._created_at - begun,
            latencies=[at - self._asked[name] for name, at in self._running.items()],
        )

    async def _make(self, begun: float) -> None:
        for number in self._numbers:
            pod = build_pod(self._load, number)
            name = pod["metadata"]["name"]
            if self._load.per_second:
                due = begun + number / self._load.per_second
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            self._asked[name] = time.monotonic()
            await self._client.create(PODS, pod)
            self._created_at = time.monotonic()
            if self._load.alone:
                await self._wait_running(name)

    async def _wait_running(self, name: str) -> None:
        async with self._seen:
            await self._seen.wait_for(lambda: name in self._running)

    async def _wait_all(self) -> None:
        async with self._seen:
            await self._seen.wait_for(lambda: len(self._running) == self._load.count)

    async def _watch(self, opened: asyncio.Event) -> None:
        """The server tells of those that run only: an event or two for each."""
        while True:
            events = self._client.watch(
                PODS,
                namespace=self._load.namespace,
                label_selector=f"load={self._load.name}",
                field_selector="status.phase=Running",
                on_open=opened.set,
            )
            async with contextlib.aclosing(events) as following:
                async for event in following:
                    if event.type in {"ADDED", "MODIFIED"}:
                        await self._see(_decode_named(event.object).metadata.name)
            print(f"{self._load.name}: the watch has ended, and begins anew", file=sys.stderr)

    async def _see(self, name: str) -> None:
        async with self._seen:
            self._running.setdefault(name, time.monotonic())
            self._seen.notify_all()


async def run(kubeconfig: Path) -> None:
    """Do what stdin asks for until it ends."""
    access = await load_kubeconfig(kubeconfig, None)
    async with KubeClient(access, name="load") as client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            load = msgspec.json.decode(line, type=Load)
            outcome = await Generator(client, load).run()
            print(msgspec.json.encode(outcome).decode(), flush=True)


def main(argv: Sequence[str]) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="real_load")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    asyncio.run(run(parser.parse_args(argv).kubeconfig))


if __name__ == "__main__":
    main(sys.argv[1:])
