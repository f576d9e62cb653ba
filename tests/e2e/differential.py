"""The same request to a remote pod, directly and through the virtual node."""

import contextlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.cluster import launch
from tests.cluster.cluster import Cluster
from tests.cluster.product.cloud import build_pod, create, find_remote_pods, get_pod
from tests.cluster.waiting import wait_until
from tests.e2e.commands import Outcome, run_in_terminal, run_to_end
from tests.e2e.real_node import BUSYBOX_IMAGE

_TIMEOUT_SECONDS = 60.0
_LONG_LINE_BYTES = 40_000  # containerd cuts lines into parts of 16 KiB
CLIENTS: Mapping[str, Mapping[str, str]] = {
    "websocket": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true"},
    "spdy": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"},
}
"""kubectl's two ways to speak to an API server, by its environment."""

_CHANGING = re.compile(r"\b[0-9a-f]{64}\b|^[EIW]\d{4} [\d:.]+ +\d+ ", re.MULTILINE)
"""Ids of commands and containers, and the head of a line of kubectl's log."""

_TALK = f"""
i=1
while [ $i -le 20 ]; do echo "out $i"; echo "err $i" >&2; i=$((i+1)); done
head -c {_LONG_LINE_BYTES} /dev/zero | tr '\\0' x; echo
printf 'bytes \\001\\377 and no end of line'
exec sleep 3600
"""
_AGAIN = """
[ -e /state/ran ] && { echo second; exec sleep 3600; }
touch /state/ran; echo first; exit 3
"""
_SERVE = """
mkdir /www; head -c 6000000 /dev/urandom >/www/big
exec httpd -f -p 8080 -h /www
"""
_IDLE = ["sleep", "3600"]


def build_container(name: str, command: Sequence[str], **fields: Any) -> dict[str, Any]:
    """Build a container of the busybox image."""
    return {"name": name, "image": BUSYBOX_IMAGE, "command": list(command), **fields}


def shell(name: str, script: str, **fields: Any) -> dict[str, Any]:
    """Build a container that runs a script."""
    return build_container(name, ["sh", "-c", script], **fields)


PODS: Mapping[str, Mapping[str, Any]] = {
    "talker": {"containers": [shell("main", _TALK)]},
    "ended": {"containers": [shell("main", "echo bye; exit 3")], "restartPolicy": "Never"},
    "again": {
        "containers": [
            shell("main", _AGAIN, volumeMounts=[{"name": "state", "mountPath": "/state"}])
        ],
        "volumes": [{"name": "state", "emptyDir": {}}],
    },
    "inits": {
        "initContainers": [shell("prepare", "echo prepared")],
        "containers": [shell("main", "echo started; exec sleep 3600")],
    },
    "failed-init": {
        "initContainers": [shell("prepare", "echo broken >&2; exit 4")],
        "containers": [build_container("main", _IDLE)],
        "restartPolicy": "Never",
    },
    "initializing": {
        "initContainers": [shell("prepare", "echo working; exec sleep 3600")],
        "containers": [build_container("main", _IDLE)],
    },
    "no-image": {
        "containers": [
            {
                "name": "main",
                "image": "vkubelet.test/none:1",
                "imagePullPolicy": "Never",
                "command": _IDLE,
            }
        ],
    },
    "pair": {
        "containers": [
            shell("first", "echo I am first; exec sleep 3600"),
            shell("second", "echo I am second; exec sleep 3600"),
        ],
    },
    "reader": {
        "containers": [
            shell("main", "while read line; do echo got $line; done", stdin=True, stdinOnce=False)
        ],
    },
    "web": {"containers": [shell("main", _SERVE)]},
}
"""Specs by pod name; what the table's requests are made to."""


def _is_settled(name: str, pod: Mapping[str, Any]) -> bool:
    """Whether nothing of a pod will change any more."""
    status = pod.get("status", {})
    states = [item.get("state", {}) for item in status.get("containerStatuses", ())]
    waiting = [state.get("waiting", {}).get("reason") for state in states]
    match name:
        case "ended":
            return status.get("phase") in ("Succeeded", "Failed")
        case "failed-init":
            return bool(status.get("phase") == "Failed")
        case "again":
            restarts = [item["restartCount"] for item in status.get("containerStatuses", ())]
            return restarts == [1] and "running" in states[0]
        case "initializing":
            inits = status.get("initContainerStatuses", ())
            return any("running" in item.get("state", {}) for item in inits)
        case "no-image":
            return waiting == ["ErrImageNeverPull"]
        case _:
            return bool(states) and all("running" in state for state in states)


class Both:
    """
    The same pods seen from either side.

    Attributes:
        home: The home cluster.
        remote: The remote cluster.
        namespace: Home's namespace.
        remote_namespace: The remote one.
    """

    def __init__(self, home: Cluster, remote: Cluster, namespace: str) -> None:
        self.home = home
        self.remote = remote
        self.namespace = namespace
        self.remote_namespace = ""

    @classmethod
    @contextlib.asynccontextmanager
    async def create(cls, home: Cluster, remote: Cluster) -> AsyncIterator[Self]:
        """Create the pods, and wait until they are as they stay."""
        both = cls(home, remote, f"both-{secrets.token_hex(4)}")
        await home.kubectl("create", "namespace", both.namespace)
        await home.kubectl(
            *("wait", "--for=create", "serviceaccount/default", f"-n={both.namespace}"),
            "--timeout=25s",
        )
        await create(
            home, *(build_pod(name, both.namespace, **spec) for name, spec in PODS.items())
        )
        for name in PODS:
            await both.wait_settled(name)
        (pod,) = await find_remote_pods(remote, await get_pod(home, "talker", both.namespace))
        both.remote_namespace = pod["metadata"]["namespace"]
        yield both
        await home.kubectl("delete", "namespace", both.namespace, "--wait=false")

    async def wait_settled(self, name: str) -> None:
        """Wait until a pod's status at home doesn't change any more."""

        async def settled() -> bool:
            return _is_settled(name, await get_pod(self.home, name, self.namespace))

        await wait_until(settled, f"pod {name} settled", timeout_seconds=_TIMEOUT_SECONDS)

    def _fill(self, args: Sequence[str], cluster: Cluster) -> list[str]:
        namespace = self.namespace if cluster is self.home else self.remote_namespace
        return [f"--namespace={namespace}", *(arg.replace("{ns}", namespace) for arg in args)]

    async def run(
        self,
        *args: str,
        stdin: Path | None = None,
        env: Mapping[str, str] | None = None,
        terminal: Sequence[bytes] | None = None,
    ) -> tuple[Outcome, Outcome]:
        """
        Run kubectl against the remote cluster directly, and against home.

        Args:
            args: Its arguments; `{ns}` is the namespace.
            stdin: File that is its standard input.
            env: Added to its environment.
            terminal: Keys to press on a terminal of its own, one after the other.

        Returns:
            The direct outcome, and the one through the virtual node.
        """
        direct, through = [
            await self.run_at(cluster, *args, stdin=stdin, env=env, terminal=terminal)
            for cluster in (self.remote, self.home)
        ]
        return direct, through

    async def run_at(
        self,
        cluster: Cluster,
        *args: str,
        stdin: Path | None = None,
        env: Mapping[str, str] | None = None,
        terminal: Sequence[bytes] | None = None,
    ) -> Outcome:
        """Run kubectl against one of the clusters; see `run`."""
        argv = launch.build_command(cluster.build_kubectl_command(*self._fill(args, cluster)))
        environment = {"PATH": os.defpath, "HOME": str(cluster.folder), **(env or {})}
        if terminal is not None:
            return self._translate(await run_in_terminal(argv, terminal, environment))
        return self._translate(await run_to_end(argv, environment, stdin))

    def _translate(self, outcome: Outcome) -> Outcome:
        """Put home's namespace for the remote one; leave out what differs each time."""
        stderr = outcome.stderr.replace(self.remote_namespace, self.namespace)
        stderr = _CHANGING.sub("", stderr)
        return Outcome(
            returncode=outcome.returncode,
            stdout=outcome.stdout.replace(self.remote_namespace.encode(), self.namespace.encode()),
            stderr="".join(dict.fromkeys(stderr.splitlines(keepends=True))),  # kubectl tries again
        )
