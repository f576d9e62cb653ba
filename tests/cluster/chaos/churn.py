"""Pods that come and go, and a look from both APIs whether all of them fared as they may."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.product.cloud import HOME_POD_UID, build_pod, create

NODE = "chaos"
SELECTOR = "suite=chaos"
_OURS = f"vkubelet.io/peering={NODE}"


@dataclass
class Churn:
    """
    Pods of one namespace.

    Attributes:
        home: Where they are made.
        remote: Where they run.
        namespace: At home.
        folder: Where each start of a container leaves a line.
        random: What decides.
        living: Names of pods that are to be there.
    """

    home: Cluster
    remote: Cluster
    namespace: str
    folder: Path
    random: random.Random
    living: list[str] = field(default_factory=list)
    made: int = 0

    async def step(self) -> None:
        """Create and delete some pods."""
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
        self.made += 1
        name = f"pod-{self.made}"
        policy = self.random.choice(["Always", "Never", "Never"])
        ends = policy == "Never" and self.random.random() < 0.7
        last = f"sleep {self.random.randint(0, 3)}" if ends else "exec sleep 3600"
        command = ["sh", "-c", f"echo started >> {self.folder / name}; {last}"]
        pod = build_pod(
            name,
            self.namespace,
            command=command,
            restartPolicy=policy,
            nodeSelector={"vkubelet.io/peering": NODE},
        )
        pod["metadata"]["labels"]["suite"] = "chaos"
        return pod

    async def find_trouble(self) -> list[str]:
        """Say what isn't (yet) as it has to be in the end."""
        at_home = await _list(self.home, "pods", f"-n={self.namespace}", f"-l={SELECTOR}")
        there = await _list(self.remote, "pods", "-A", f"-l={_OURS}")
        trouble: list[str] = []
        by_uid = Counter(pod["metadata"]["labels"][HOME_POD_UID] for pod in there)
        uids = {pod["metadata"]["uid"] for pod in at_home}
        names = {pod["metadata"]["name"] for pod in at_home}
        wanted = set(self.living)
        trouble += [f"{name} should be there" for name in wanted - names]
        trouble += [f"{name} should be gone" for name in names - wanted]
        trouble += [f"a remote pod of {uid}, which is gone" for uid in by_uid.keys() - uids]
        phases = {pod["metadata"]["labels"][HOME_POD_UID]: pod["status"]["phase"] for pod in there}
        for pod in at_home:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            phase, behind = pod["status"]["phase"], phases.get(uid)
            if phase not in ("Running", "Succeeded"):
                trouble.append(f"{name} is {phase}: {pod['status'].get('message', '')}")
            elif behind is None and phase == "Running":
                trouble.append(f"{name} is Running without a remote pod")
            elif behind is not None and behind != phase:
                trouble.append(f"{name} is {phase}, and {behind} over there")
            if by_uid[uid] > 1:
                trouble.append(f"{name} has {by_uid[uid]} remote pods")
        return trouble

    def find_repeated(self) -> list[str]:
        """Name the pods whose containers were started more often than they may."""
        return [
            f"{file.name} was started {starts} times"
            for file in sorted(self.folder.iterdir())
            if (starts := len(file.read_text().splitlines())) > 1
        ]


async def _list(cluster: Cluster, kind: str, *args: str) -> list[dict[str, Any]]:
    return list((await cluster.kubectl("get", kind, *args, "-o=json")).json()["items"])
