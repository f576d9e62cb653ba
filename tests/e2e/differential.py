"""The same request to a remote pod, directly and through the virtual node."""

import asyncio
import contextlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cluster import launch
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.peering import Vkubelet
from tests.cluster.product.cloud import build_pod, create, find_remote_pods, get, get_pod
from tests.cluster.waiting import wait_until
from tests.e2e.commands import Key, Outcome, StillRunsError, run_in_terminal, run_to_end
from tests.e2e.pods import PODS, is_settled
from tests.e2e.real_node import RealNode
from tests.e2e.right import MAX_RACES

_TIMEOUT_SECONDS = 60.0
_TRIES = 3
_COMMAND_TIMEOUT_SECONDS = 30.0
CLIENTS: Mapping[str, Mapping[str, str]] = {
    "websocket": {
        "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true",
        "KUBECTL_PORT_FORWARD_WEBSOCKETS": "true",
    },
    "spdy": {
        "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false",
        "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false",
    },
}
"""kubectl's two ways to speak to an API server, by its environment."""

_CHANGING = re.compile(r"\b[0-9a-f]{64}\b|^[EIW]\d{4} [\d:.]+ +\d+ ", re.MULTILINE)
"""Ids of commands and containers, and the head of a line of kubectl's log."""


races: list[str] = []
"""What was run again, and why."""


def _note_race(side: "Side", args: Sequence[str]) -> None:
    races.append(f"{side.node}: kubectl {' '.join(args)[:100]}: still runs")
    if len(races) > MAX_RACES:
        raise ClusterError("\n".join(["too much went wrong to be chance:", *races]))


async def _run(
    argv: Sequence[str],
    env: Mapping[str, str],
    stdin: Path | None,
    terminal: Sequence[Key] | None,
) -> Outcome:
    if terminal is not None:
        return await run_in_terminal(argv, env, terminal, timeout_seconds=_COMMAND_TIMEOUT_SECONDS)
    return await run_to_end(argv, env, stdin, timeout_seconds=_COMMAND_TIMEOUT_SECONDS)


class Side:
    """
    One cluster's view of the pods.

    Attributes:
        cluster: The cluster.
        namespace: Where the pods are.
        node: The Node that they are on.
    """

    def __init__(self, cluster: Cluster, namespace: str, node: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.node = node
        self._kubelet = ""

    async def find_kubelet(self) -> str:
        """Find the URL of the Node's port."""
        if not self._kubelet:
            status = (await get(self.cluster, "node", self.node))["status"]
            port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"]
            kinds = {item["type"]: item["address"] for item in status["addresses"]}
            self._kubelet = f"https://{kinds['InternalIP']}:{port}"
        return self._kubelet

    def build_command(self, *args: str) -> list[str]:
        """Build a kubectl command line; `{ns}` and `{node}` are filled in."""
        filled = (arg.replace("{ns}", self.namespace).replace("{node}", self.node) for arg in args)
        return launch.build_command(
            self.cluster.build_kubectl_command(f"--namespace={self.namespace}", *filled)
        )

    def build_environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        """Build kubectl's environment: nothing of this process's."""
        return {"PATH": os.defpath, "HOME": str(self.cluster.folder), **(env or {})}

    async def run(
        self,
        *args: str,
        stdin: Path | None = None,
        env: Mapping[str, str] | None = None,
        terminal: Sequence[Key] | None = None,
    ) -> Outcome:
        """
        Run kubectl to its end; again, if UPSTREAM_RACES["lost end of stdin"] may have come to pass.

        Args:
            args: Its arguments; see `build_command`.
            stdin: File that is its standard input.
            env: Added to its environment.
            terminal: What to type on a terminal of its own; None: it has no terminal.

        Raises:
            StillRunsError: If it takes too long.
        """
        argv, environment = self.build_command(*args), self.build_environment(env)
        for _ in range(_TRIES - 1):
            try:
                return await _run(argv, environment, stdin, terminal)
            except StillRunsError:
                if stdin is None:
                    raise
                _note_race(self, args)
        return await _run(argv, environment, stdin, terminal)

    @contextlib.asynccontextmanager
    async def open(
        self, *args: str, env: Mapping[str, str] | None = None
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run kubectl with pipes as its streams; what still runs at the end is killed."""
        async with self.cluster.kubectl_process(
            f"--namespace={self.namespace}", *args, env=env or {}
        ) as process:
            yield process


class Both:
    """
    The same pods seen from either side.

    Attributes:
        real_node: The real node that they run on.
        vkubelet: The product between.
        passes_websockets: Whether API servers pass WebSockets on to the Nodes as they are.
        direct: The remote cluster.
        through: Home, through the virtual node.
    """

    def __init__(
        self,
        home: Cluster,
        remote: Cluster,
        virtual_node: str,
        real_node: RealNode,
        vkubelet: Vkubelet,
        *,
        passes_websockets: bool,
    ) -> None:
        self.real_node = real_node
        self.vkubelet = vkubelet
        self.passes_websockets = passes_websockets
        self.direct = Side(remote, "", real_node.name)
        self.through = Side(home, f"both-{secrets.token_hex(4)}", virtual_node)

    async def start(self) -> None:
        """Create the pods, and wait until they are as they stay."""
        home, namespace = self.through.cluster, self.through.namespace
        await home.make_namespace(namespace)
        await self.add(PODS)
        (pod,) = await find_remote_pods(
            self.direct.cluster, await get_pod(home, "talker", namespace)
        )
        self.direct.namespace = pod["metadata"]["namespace"]

    async def add(self, pods: Mapping[str, Mapping[str, Any]]) -> None:
        """Create pods, and wait until they are as they stay at home."""
        namespace = self.through.namespace
        selector = {"kubernetes.io/hostname": self.through.node}
        await create(
            self.through.cluster,
            *(
                build_pod(name, namespace, **{"nodeSelector": selector, **spec})
                for name, spec in pods.items()
            ),
        )
        unsettled = set(pods)

        async def settled() -> bool:
            listed = await self.through.cluster.kubectl(
                "get", "pods", f"--namespace={namespace}", "-o", "json"
            )
            found = {pod["metadata"]["name"]: pod for pod in listed.json()["items"]}
            unsettled.difference_update(
                [name for name in unsettled if is_settled(name, found.get(name, {}))]
            )
            return not unsettled

        try:
            await wait_until(settled, "pods settled", timeout_seconds=_TIMEOUT_SECONDS)
        except ClusterError as error:
            raise ClusterError(f"{error}: not {', '.join(sorted(unsettled))}") from error

    async def run(
        self,
        *args: str,
        stdin: Path | None = None,
        env: Mapping[str, str] | None = None,
        terminal: Sequence[Key] | None = None,
    ) -> tuple[Outcome, Outcome]:
        """
        Run kubectl against the remote cluster directly, and against home; see `Side.run`.

        Returns:
            The direct outcome in home's names, and the one through the virtual node.
        """
        async with asyncio.TaskGroup() as group:
            direct, through = (
                group.create_task(side.run(*args, stdin=stdin, env=env, terminal=terminal))
                for side in (self.direct, self.through)
            )
        return self.translate(direct.result()), self.translate(through.result())

    def translate(self, outcome: Outcome) -> Outcome:
        """Put home's names for the remote ones; leave out what differs each time."""
        stderr = _CHANGING.sub("", self.rename(outcome.stderr))
        return Outcome(
            returncode=outcome.returncode,
            stdout=outcome.stdout.replace(
                self.direct.namespace.encode(), self.through.namespace.encode()
            ),
            stderr="".join(dict.fromkeys(stderr.splitlines(keepends=True))),  # kubectl tries again
        )

    def rename(self, text: str) -> str:
        """Put home's namespace and Node for the remote ones."""
        text = text.replace(self.direct.namespace, self.through.namespace)
        return text.replace(self.direct.node, self.through.node)
