"""Commands that run beside a container: what exec does."""

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.process_nodes.processes import (
    NotStartedError,
    build_exit_code,
    kill_processes,
    start_process,
)
from tests.cluster.process_nodes.reaper import MARKER_VARIABLE
from tests.cluster.process_nodes.terminals import (
    TAKE_TERMINAL,
    TerminalProtocol,
    open_writer,
)
from vkubelet.interface import CommandStreams, ExitStatus

_CHUNK_BYTES = 64 * 1024
_REAP_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command with what it inherits from its container; the marker is the command's own."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    marker: str


async def run_command(command: Command, streams: CommandStreams, *, tty: bool) -> ExitStatus:
    """
    Run a command until it has ended and all its output is written.

    Cancelling kills all that it started. What can't be started ends with 126 or 127 and runc's
    message, as with a shell.
    """
    try:
        code = await (_run_with_terminal if tty else _run_with_pipes)(command, streams)
    except NotStartedError as error:
        text = f"OCI runtime exec failed: exec failed: unable to start container process: {error}"
        write = streams.write_stdout if tty else streams.write_stderr
        await write(f"{text}\r\n".encode() if tty else f"{text}\n".encode())
        return ExitStatus(error.code)
    return ExitStatus(build_exit_code(code))


async def _run_with_pipes(command: Command, streams: CommandStreams) -> int:
    pipe = asyncio.subprocess.PIPE
    process = await start_process(
        command.arguments,
        environment={**command.environment, MARKER_VARIABLE: command.marker},
        folder=command.folder,
        stdin=pipe if streams.stdin else asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
    )
    async with _killed_when_cancelled(process, command.marker), asyncio.TaskGroup() as inputs:
        tasks = []
        if process.stdin is not None:
            tasks.append(inputs.create_task(_copy_stdin(streams, process.stdin), name="exec stdin"))
        assert process.stdout is not None
        assert process.stderr is not None
        async with asyncio.TaskGroup() as outputs:
            outputs.create_task(_copy(process.stdout, streams.write_stdout), name="exec stdout")
            outputs.create_task(_copy(process.stderr, streams.write_stderr), name="exec stderr")
        await process.wait()
        for task in tasks:
            task.cancel()
    if process.stdin is not None:
        process.stdin.close()
    return await process.wait()


async def _run_with_terminal(command: Command, streams: CommandStreams) -> int:
    master, slave = os.openpty()
    try:
        process = await start_process(
            command.arguments,
            environment={"TERM": "xterm", **command.environment, MARKER_VARIABLE: command.marker},
            folder=command.folder,
            prefix=(*TAKE_TERMINAL, os.ttyname(slave)),
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    async with (
        _killed_when_cancelled(process, command.marker),
        _open_terminal(master) as (reader, writer),
        asyncio.TaskGroup() as inputs,
    ):
        tasks = [inputs.create_task(_copy_sizes(streams, master), name="exec resize")]
        if streams.stdin:
            tasks.append(inputs.create_task(_copy_stdin(streams, writer), name="exec stdin"))
        await _copy(reader, streams.write_stdout)
        await process.wait()
        for task in tasks:
            task.cancel()
    return await process.wait()


@asynccontextmanager
async def _killed_when_cancelled(
    process: asyncio.subprocess.Process, marker: str
) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        kill_processes(process, marker)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REAP_SECONDS):
                await process.wait()
        raise


@asynccontextmanager
async def _open_terminal(
    master: int,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    source, _ = await loop.connect_read_pipe(
        lambda: TerminalProtocol(reader), os.fdopen(master, "rb", buffering=0)
    )
    writer = await open_writer(os.dup(master))
    try:
        yield reader, writer
    finally:
        if not writer.transport.is_closing():
            writer.transport.abort()
        source.close()


async def _copy(reader: asyncio.StreamReader, write: Callable[[bytes], Awaitable[None]]) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        await write(data)


async def _copy_stdin(streams: CommandStreams, writer: asyncio.StreamWriter) -> None:
    """Copy until the end, and close; what the command no longer wants is thrown away."""
    broken = False
    while data := await streams.read_stdin():
        if not broken:
            try:
                writer.write(data)
                await writer.drain()
            except ConnectionError:
                broken = True
    writer.close()


async def _copy_sizes(streams: CommandStreams, terminal: int) -> None:
    while True:
        size = await streams.wait_resize()
        fcntl.ioctl(
            terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0)
        )
