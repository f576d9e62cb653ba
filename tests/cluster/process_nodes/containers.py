"""A container: its instances one after another, restarted with the kubelet's back-off."""

import asyncio
import contextlib
import functools
import os
import signal
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.cluster.process_nodes.console import Console
from tests.cluster.process_nodes.logs import ContainerLog, LogPipe
from tests.cluster.process_nodes.processes import (
    NotStartedError,
    build_exit_code,
    kill_processes,
    signal_group,
    start_process,
)
from tests.cluster.process_nodes.reaper import MARKER_VARIABLE, kill_marked
from tests.cluster.process_nodes.spec import ContainerSpec
from tests.cluster.process_nodes.terminals import TAKE_TERMINAL, open_writer
from vkubelet.interface import LogStream

_MAX_BACKOFF_SECONDS = 300.0

# Whoever ran this long starts again without back-off, as at the kubelet (twice its maximum).
_STABLE_SECONDS = 600.0

# A process that left its group and cleared its environment may keep a pipe open; it isn't awaited.
_DRAIN_SECONDS = 1.0

_REAP_SECONDS = 5.0

# What containerd reports for a command that couldn't be started.
_NOT_STARTED_CODE = 128


@dataclass(slots=True)
class Instance:
    """One run of a container; `exit_code` is None while it runs."""

    identity: str
    marker: str
    log: ContainerLog = field(default_factory=ContainerLog)
    console: Console = field(default_factory=Console)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    finished_at: datetime | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    process: asyncio.subprocess.Process | None = None

    def finish(self, code: int, *, reason: str = "", message: str = "") -> None:
        """Note how it ended."""
        self.exit_code = code
        self.finished_at = datetime.now(UTC)
        self.reason = reason or ("Error" if code else "Completed")
        self.message = message


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container doesn't run yet, or not now."""

    reason: str
    message: str = ""


class Container:
    """
    A container of a pod.

    Attributes:
        current: The instance that runs, or the last if none will follow; None while waiting.
        previous: The instance before that.
        waiting: Why there is no current one.
        restart_count: How often it was started again.
    """

    def __init__(
        self,
        spec: ContainerSpec,
        *,
        pod_name: str,
        marker_prefix: str,
        backoff_seconds: float,
        stopping: asyncio.Event,
        publish: Callable[[], None],
    ) -> None:
        self.spec = spec
        self.current: Instance | None = None
        self.previous: Instance | None = None
        self.waiting = Waiting("ContainerCreating")
        self.restart_count = 0
        self._pod_name = pod_name
        self._marker_prefix = marker_prefix
        self._backoff_seconds = backoff_seconds
        self._stopping = stopping
        self._publish = publish

    @property
    def running(self) -> Instance | None:
        """The instance that runs now."""
        return self.current if self.current and self.current.exit_code is None else None

    def build_environment(self, instance: Instance) -> Mapping[str, str]:
        """Build the environment of a process that belongs to an instance."""
        return {**self.spec.environment, MARKER_VARIABLE: instance.marker}

    async def run(self, restart_policy: str) -> int:
        """
        Run it until it isn't started again, and return its last exit code.

        Cancelling kills it.
        """
        attempt = 0
        while not self._stopping.is_set():
            started = asyncio.get_running_loop().time()
            instance = await self._run_instance()
            code = instance.exit_code or 0
            if restart_policy == "Never" or (restart_policy == "OnFailure" and code == 0):
                return code
            if asyncio.get_running_loop().time() - started > _STABLE_SECONDS:
                attempt = 0
            await self._back_off(attempt)
            attempt += 1
        return self.current.exit_code or 0 if self.current else 1

    def signal(self, number: signal.Signals) -> None:
        """Signal the running instance; SIGKILL reaches all that belongs to it."""
        if (instance := self.running) is None or instance.process is None:
            return
        if number == signal.SIGKILL:
            kill_processes(instance.process, instance.marker)
        else:
            signal_group(instance.process, number)

    async def _back_off(self, attempt: int) -> None:
        """Wait before the next start: not at all, then ever longer; or until the pod stops."""
        if attempt == 0 or self._stopping.is_set():
            return
        delay = min(self._backoff_seconds * 2 ** min(attempt - 1, 30), _MAX_BACKOFF_SECONDS)
        self.current, self.previous = None, self.current
        self.waiting = Waiting(
            "CrashLoopBackOff",
            f"back-off {_format_duration(delay)} restarting failed"
            f" container={self.spec.name} pod={self._pod_name}",
        )
        self._publish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._stopping.wait()

    async def _run_instance(self) -> Instance:
        identity = str(uuid.uuid4())
        instance = Instance(identity, f"{self._marker_prefix}/{identity}")
        pipes: list[LogPipe] = []
        try:
            await asyncio.to_thread(self.spec.folder.mkdir, parents=True, exist_ok=True)
            instance.process = await self._start(instance, pipes)
        except (NotStartedError, OSError) as error:
            message = f"unable to start container process: {error}"
            instance.finish(_NOT_STARTED_CODE, reason="StartError", message=message)
        self._accept(instance)
        try:
            if instance.process is not None:
                await self._wait(instance, instance.process, pipes)
        finally:
            for pipe in pipes:
                pipe.close()
            instance.log.end()
            instance.console.end()
        self._publish()
        return instance

    def _accept(self, instance: Instance) -> None:
        if self.current is not None:
            self.previous = self.current
        if self.previous is not None:
            self.restart_count += 1
        self.current = instance
        self._publish()

    async def _start(self, instance: Instance, pipes: list[LogPipe]) -> asyncio.subprocess.Process:
        if self.spec.tty:
            return await self._start_with_terminal(instance, pipes)
        files: dict[str, int] = {}
        try:
            for stream in (LogStream.STDOUT, LogStream.STDERR):
                source, files[stream] = os.pipe()
                pipes.append(await self._read(instance, stream, source))
            process = await start_process(
                self.spec.command,
                environment=self.build_environment(instance),
                folder=self.spec.folder,
                stdin=asyncio.subprocess.PIPE if self.spec.stdin else asyncio.subprocess.DEVNULL,
                stdout=files[LogStream.STDOUT],
                stderr=files[LogStream.STDERR],
            )
        finally:
            for descriptor in files.values():
                os.close(descriptor)
        instance.console.stdin = process.stdin
        return process

    async def _start_with_terminal(
        self, instance: Instance, pipes: list[LogPipe]
    ) -> asyncio.subprocess.Process:
        master, slave = os.openpty()
        try:
            pipes.append(await self._read(instance, LogStream.STDOUT, master))
            process = await start_process(
                self.spec.command,
                environment={"TERM": "xterm", **self.build_environment(instance)},
                folder=self.spec.folder,
                prefix=(*TAKE_TERMINAL, os.ttyname(slave)),
                stdin=slave,
                stdout=slave,
                stderr=slave,
            )
        finally:
            os.close(slave)
        if self.spec.stdin:
            instance.console.stdin = await open_writer(os.dup(master))
        instance.console.terminal = master
        return process

    async def _read(self, instance: Instance, stream: LogStream, source: int) -> LogPipe:
        """Have a descriptor read, and owned, by a pipe."""
        pipe = functools.partial(LogPipe, stream, (instance.log.write, instance.console.write))
        _, protocol = await asyncio.get_running_loop().connect_read_pipe(
            pipe, os.fdopen(source, "rb", buffering=0)
        )
        instance.console.add_pipe(protocol)
        return protocol

    async def _wait(
        self, instance: Instance, process: asyncio.subprocess.Process, pipes: list[LogPipe]
    ) -> None:
        try:
            if self._stopping.is_set():  # while it was being started
                kill_processes(process, instance.marker)
            code = await process.wait()
        finally:
            if process.returncode is None:
                kill_processes(process, instance.marker)
                async with asyncio.timeout(_REAP_SECONDS):
                    await process.wait()
            kill_marked(instance.marker)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                for pipe in pipes:
                    await pipe.closed.wait()
        instance.finish(build_exit_code(code))


def _format_duration(seconds: float) -> str:
    """Write a duration as Go does, by whole seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
