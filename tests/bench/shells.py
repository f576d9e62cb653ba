"""The caller's side of commands that a bench runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from provider.streams.relay import RemoteStreams
from vkubelet.interface import ExitStatus, TerminalSize
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import NamespacedName


class Shell:
    """
    A command's streams: what is sent goes in, what comes out is counted and can be waited for.

    Attributes:
        received: Bytes of stdout so far.
    """

    stdin = True
    stdout = True
    stderr = False

    def __init__(self) -> None:
        self._pending: asyncio.Queue[bytes] = asyncio.Queue()
        self._arrived = asyncio.Event()
        self.received = 0

    def send(self, data: bytes) -> None:
        """Send to stdin; b"" ends it."""
        self._pending.put_nowait(data)

    async def wait_received(self, count: int) -> None:
        """Wait until that much has come out."""
        while self.received < count:
            self._arrived.clear()
            await self._arrived.wait()

    async def read_stdin(self) -> bytes:
        return await self._pending.get()

    async def write_stdout(self, data: bytes) -> None:
        self.received += len(data)
        self._arrived.set()

    async def write_stderr(self, data: bytes) -> None:
        pass

    async def wait_resize(self) -> TerminalSize:
        await asyncio.Event().wait()
        raise AssertionError("nothing sets that event")


async def run_command(
    client: KubeClient, pod: NamespacedName, shell: Shell, *command: str
) -> ExitStatus:
    """Run a command in a pod by an API server, until it ends."""
    return await RemoteStreams(client).exec(
        pod, "main", command, shell, tty=False, home_namespace=pod.namespace
    )


@asynccontextmanager
async def open_shell(
    client: KubeClient, pod: NamespacedName, *command: str
) -> AsyncIterator[Shell]:
    """Run a command in a pod; at the end its stdin is closed, and it has to end well."""
    shell = Shell()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run_command(client, pod, shell, *command))
        yield shell
        shell.send(b"")
        async with asyncio.timeout(60):
            status = await running
        assert status == ExitStatus(0), status
