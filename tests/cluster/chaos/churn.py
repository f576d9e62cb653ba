"""Pods, and what they need, that come, change and go at home, and are struck over there."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.product.cloud import HOME_POD_UID, build_pod, condition_of, create

NODE = "chaos"
SELECTOR = "suite=chaos"
OURS = f"vkubelet.io/peering={NODE}"
COPIES = f"{OURS},vkubelet.io/dependent"
SETTINGS = (("ConfigMap", "one"), ("ConfigMap", "two"), ("Secret", "three"))
"""What pods may refer to, by kind and name."""


@dataclass
class Churn:
    """
    Pods of one namespace.

    Attributes:
        home: Where they are made.
        remote: Where they run.
        namespace: At home.
        folder: Where each start of a container leaves a line, in a file named by the pod.
        random: What decides.
        living: Names of pods that are to be there.
        policies: Restart policies by pod, of all that were made.
        struck: Pods whose remote pod was deleted, by UID.
    """

    home: Cluster
    remote: Cluster
    namespace: str
    folder: Path
    random: random.Random
    living: list[str] = field(default_factory=list)
    policies: dict[str, str] = field(default_factory=dict)
    struck: dict[str, str] = field(default_factory=dict)
    copies_struck: int = 0

    async def prepare(self) -> None:
        """Make what pods refer to."""
        for kind, name in SETTINGS:
            metadata = {"name": name, "namespace": self.namespace}
            field_name = "data" if kind == "ConfigMap" else "stringData"
            content = {field_name: {"value": "0"}}
            await create(
                self.home, {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}
            )

    async def step(self) -> None:
        """Create and delete some pods, and change what they need."""
        older = list(self.living)
        for _ in range(self.random.randint(1, 6)):
            pod = self._build()
            await self._persist(partial(create, self.home, pod))
            self.living.append(pod["metadata"]["name"])
        for name in self.random.sample(older, min(len(older), self.random.randint(0, 5))):
            force = ["--force"] if self.random.random() < 0.2 else []
            where = (f"-n={self.namespace}", "--wait=false", "--ignore-not-found")
            await self._persist(partial(self.home.kubectl, "delete", "pod", name, *where, *force))
            self.living.remove(name)
        if self.random.random() < 0.3:
            kind, name = self.random.choice(SETTINGS)
            field_name = "data" if kind == "ConfigMap" else "stringData"
            patch = f'{{"{field_name}":{{"value":"{len(self.policies)}"}}}}'
            change = (kind, name, f"-n={self.namespace}", "--type=merge", f"-p={patch}")
            await self._persist(partial(self.home.kubectl, "patch", *change))

    async def strike(self) -> None:
        """
        Delete something over there that nobody at home has asked for; nothing if that fails.

        Of pods only those that home knows to run: whether another had started nobody can tell once
        it's gone, if the process was killed meanwhile.
        """
        try:
            if self.random.random() < 0.3:
                await self._strike_a_copy()
            else:
                await self._strike_a_pod()
        except ClusterError:
            return  # an API server is down

    async def _strike_a_pod(self) -> None:
        at_home = {
            pod["metadata"]["uid"]: pod
            for pod in await list_objects(
                self.home, "pods", f"-n={self.namespace}", f"-l={SELECTOR}"
            )
        }
        running = [
            pod
            for pod in await list_objects(self.remote, "pods", "-A", f"-l={OURS}")
            if pod["metadata"]["labels"][HOME_POD_UID] not in self.struck
            and _runs(at_home.get(pod["metadata"]["labels"][HOME_POD_UID], {}))
        ]
        if not running:
            return
        metadata = self.random.choice(running)["metadata"]
        self.struck[metadata["labels"][HOME_POD_UID]] = metadata["name"]
        where = (f"-n={metadata['namespace']}", "--wait=false", "--ignore-not-found")
        await self.remote.kubectl("delete", "pod", metadata["name"], *where)

    async def _strike_a_copy(self) -> None:
        kind = self.random.choice(("configmap", "secret"))
        copies = await list_objects(self.remote, kind, "-A", f"-l={COPIES}")
        if not copies:
            return
        metadata = self.random.choice(copies)["metadata"]
        where = (f"-n={metadata['namespace']}", "--ignore-not-found")
        await self.remote.kubectl("delete", kind, metadata["name"], *where)
        self.copies_struck += 1

    async def _persist(self, act: Callable[[], Awaitable[object]]) -> None:
        """Act though the API server at home may be down."""
        deadline = asyncio.get_running_loop().time() + 60
        while True:
            try:
                await act()
            except ClusterError as error:
                if "AlreadyExists" in str(error):
                    return
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.5)
            else:
                return

    def _build(self) -> dict[str, Any]:
        name = f"pod-{len(self.policies)}"
        policy = self.policies[name] = self.random.choice(["Always", "Never", "Never"])
        ends = policy == "Never" and self.random.random() < 0.7
        last = f"sleep {self.random.randint(0, 3)}" if ends else "exec sleep 3600"
        command = ["sh", "-c", f"echo started >> {self.folder / name}; {last}"]
        volumes = []
        if self.random.random() < 0.5:
            kind, needed = self.random.choice(SETTINGS)
            source = (
                {"configMap": {"name": needed}}
                if kind == "ConfigMap"
                else {"secret": {"secretName": needed}}
            )
            volumes = [{"name": "settings", **source}]
        pod = build_pod(
            name,
            self.namespace,
            command=command,
            restartPolicy=policy,
            nodeSelector={"vkubelet.io/peering": NODE},
            volumes=volumes,
        )
        pod["metadata"]["labels"]["suite"] = "chaos"
        return pod


async def list_objects(cluster: Cluster, kind: str, *args: str) -> list[dict[str, Any]]:
    """List objects with kubectl."""
    return list((await cluster.kubectl("get", kind, *args, "-o=json")).json()["items"])


def _runs(pod: dict[str, Any]) -> bool:
    """Whether a pod runs, and nobody has asked for its end."""
    if not pod or pod["metadata"].get("deletionTimestamp"):
        return False
    running: bool = pod["status"]["phase"] == "Running"
    return running and condition_of(pod, "Ready").get("status") == "True"
