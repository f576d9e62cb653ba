"""What the streaming tests share: nodes and how they are reached, kubectl, terminals."""

import asyncio
import contextlib
import enum
import fcntl
import os
import secrets
import struct
import subprocess
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.process_nodes.terminals import TerminalProtocol
from tests.cluster.product.cloud import build_pod, create, wait_pod

LEGS = ("direct", "passed", "translated")
"""
To a process node's own port; through a virtual node that declares that it takes WebSockets, and
through one that doesn't.
"""


class Client(enum.StrEnum):
    """What kubectl speaks to its API server."""

    WEBSOCKET = "websocket"
    SPDY = "spdy"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that say so."""
        value = "true" if self is Client.WEBSOCKET else "false"
        return {
            "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": value,
            "KUBECTL_PORT_FORWARD_WEBSOCKETS": value,
        }


CLIENTS = tuple(Client)


class Leg:
    """
    A node and its cluster.

    Attributes:
        name: One of `LEGS`.
        cluster: Where kubectl asks.
        node: The node.
        arguments: Of the product; None without it.
    """

    def __init__(self, name: str, home: Cluster, remote: Cluster) -> None:
        self.name = name
        self.cluster = remote if name == "direct" else home
        self.node = "ssd-1" if name == "direct" else f"streams-{name}"
        self.arguments = {
            "direct": None,
            "passed": (),
            "translated": ("--no-kubelet-websockets",),
        }[name]

    @property
    def passes_websockets(self) -> bool:
        """Whether the API server hands WebSockets on to the node."""
        return self.name != "translated"

    @property
    def placement(self) -> dict[str, Any]:
        """What brings a pod there."""
        return {
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "tolerations": [{"operator": "Exists"}],
        }


@dataclass(frozen=True, slots=True)
class Shell:
    """A pod to run commands in."""

    leg: Leg
    namespace: str
    name: str = "shell"

    def exec_args(self, *command: str, stdin: bool = False) -> tuple[str, ...]:
        """Arguments of kubectl that run a command."""
        flags = ("-i",) if stdin else ()
        return ("exec", *flags, self.name, f"-n={self.namespace}", "--", *command)

    async def run(
        self, client: Client, *command: str, stdin: bytes | None = None
    ) -> tuple[int, bytes, bytes]:
        """Run a command, and return its exit code, stdout and stderr."""
        args = self.exec_args(*command, stdin=stdin is not None)
        async with self.leg.cluster.kubectl_process(*args, env=client.environment) as process:
            async with asyncio.timeout(60):
                out, err = await process.communicate(stdin)
            assert process.returncode is not None
            return process.returncode, out, err


@asynccontextmanager
async def open_namespace(cluster: Cluster) -> AsyncIterator[str]:
    """Make a namespace that pods can be created in; it's deleted at the end."""
    name = f"streaming-{secrets.token_hex(4)}"
    await cluster.make_namespace(name)
    try:
        yield name
    finally:
        await cluster.kubectl("delete", "namespace", name, "--wait=false")


@asynccontextmanager
async def open_shell(leg: Leg) -> AsyncIterator[Shell]:
    """Run a pod that does nothing."""
    async with open_namespace(leg.cluster) as namespace:
        pod = build_pod("shell", namespace, **leg.placement)
        await create(leg.cluster, pod)
        await wait_pod(leg.cluster, "shell", namespace, "the shell", phase="Running")
        yield Shell(leg, namespace)


class Terminal:
    """A terminal with kubectl in it."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, master: int
    ) -> None:
        self.process = process
        self.text = b""
        self._reader = reader
        self._master = master

    def resize(self, width: int, height: int) -> None:
        """Change its size."""
        set_size(self._master, width, height)

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._master, text.encode())

    async def expect(self, wanted: str) -> None:
        """Wait until it shows a text."""
        try:
            async with asyncio.timeout(30):
                while wanted.encode() not in self.text:
                    data = await self._reader.read(4096)
                    assert data, f"the end instead of {wanted!r} after {self.text!r}"
                    self.text += data
        except TimeoutError:
            raise AssertionError(f"{wanted!r} isn't in {self.text!r}") from None

    async def wait(self) -> int:
        """Read to the end and return kubectl's exit code."""
        async with asyncio.timeout(30):
            while data := await self._reader.read(4096):
                self.text += data
            return await self.process.wait()


def set_size(terminal: int, width: int, height: int) -> None:
    """Set the size of a terminal."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


@asynccontextmanager
async def open_terminal(cluster: Cluster, client: Client, *args: str) -> AsyncIterator[Terminal]:
    """Run kubectl in a terminal of 100 by 30; it's killed at the end."""
    master, slave = os.openpty()
    set_size(slave, 100, 30)
    try:
        process = await asyncio.create_subprocess_exec(
            *("setsid", "--ctty", "--wait"),
            *cluster.build_kubectl_command(*args),
            stdin=slave,
            stdout=slave,
            stderr=subprocess.STDOUT,
            cwd=cluster.folder,
            env={
                "PATH": os.defpath,
                "HOME": str(cluster.folder),
                "TERM": "xterm",
                **client.environment,
            },
        )
    finally:
        os.close(slave)
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: TerminalProtocol(reader), os.fdopen(master, "rb", buffering=0)
    )
    try:
        yield Terminal(process, reader, master)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        transport.close()
