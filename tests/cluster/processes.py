"""Processes of a test cluster: in groups of their own, with a log, and never left behind."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.cluster import janitor, launch

_KILL_TIMEOUT_SECONDS = 10.0
_POLL_SECONDS = 0.02
_LOG_TAIL_BYTES = 64 * 1024


class ReservedPort:
    """
    A free port of 127.0.0.1, kept for programs that share ports (SO_REUSEPORT).

    The socket stays bound and doesn't listen: nobody else is given the port, not even while the
    program restarts, and a connection is refused while the program is down.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()


class Workspace:
    """
    A temporary folder, and a janitor that outlives this process if it's killed.

    The janitor kills the process groups that it was told of, and removes the folder.
    """

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"vkubelet-{name}-"))
        try:
            self._janitor = subprocess.Popen(
                [sys.executable, "-I", "-S", janitor.__file__, str(self.folder)],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(self.folder)
            raise

    def tell_janitor(self, line: str) -> None:
        """Tell that a group was started or has ended."""
        assert self._janitor.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # killed by hand; launch.py still does its part
            self._janitor.stdin.write(f"{line}\n".encode())
            self._janitor.stdin.flush()

    def close(self) -> None:
        """Have the rest cleaned up, and wait for it."""
        self._janitor.communicate(timeout=2 * _KILL_TIMEOUT_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)  # if the janitor was killed


class Component:
    """
    A program that runs beside the tests; it can be stopped and started again.

    Attributes:
        name: What logs and messages call it.
        log: File of its output.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        workspace: Workspace,
        *,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.argv = tuple(map(str, argv))
        self.log = workspace.folder / f"{name}.log"
        self.log.touch()
        self._env = env
        self._workspace = workspace
        self._process: subprocess.Popen[bytes] | None = None
        self._group: int | None = None  # as the janitor knows it

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def exit_code(self) -> int | None:
        """How it ended: None while it runs or before it was started, negative for a signal."""
        return self._process.poll() if self._process else None

    def start(self) -> None:
        """Start it, appending to its log."""
        assert self.pid is None, f"{self.name} runs already"
        with self.log.open("ab") as output:
            self._process = self._spawn(output)
        self._group = self._process.pid
        self._workspace.tell_janitor(f"+{self._group}")

    def _spawn(self, output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            launch.build_command(self.argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=self._env,
            cwd=self._workspace.folder,
            start_new_session=True,
        )

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to its process group, if it runs."""
        if (pid := self.pid) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)

    async def wait(self) -> int:
        """Wait until it has ended, and return its exit code."""
        assert self._process is not None, f"{self.name} was not started"
        while (code := self._process.poll()) is None:
            await asyncio.sleep(_POLL_SECONDS)
        if self._group is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._group, signal.SIGKILL)  # what it left in its group
            self._workspace.tell_janitor(f"-{self._group}")
            self._group = None
        return code

    async def stop(self, *, grace_seconds: float = 5.0) -> None:
        """End it by SIGTERM, and by SIGKILL after the grace; harmless if it doesn't run."""
        if self._process is None:
            return
        self.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_seconds):
                await self.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End it by SIGKILL."""
        self.send_signal(signal.SIGKILL)
        async with asyncio.timeout(_KILL_TIMEOUT_SECONDS):
            await self.wait()

    def read_log(self, *, offset: int = 0, lines: int = 40) -> str:
        """Read the last lines of its log, from a position on."""
        with self.log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(offset, end - _LOG_TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])
