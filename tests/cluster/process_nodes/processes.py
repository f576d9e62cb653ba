"""Starting child processes as a container runtime would."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.process_nodes.reaper import kill_marked


class NotStartedError(Exception):
    """
    A command couldn't be started.

    Attributes:
        code: The exit code that a shell would give: 126 or 127.
        message: As runc says it.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


def find_program(name: str, *, search_path: str, folder: Path) -> str:
    """
    Find a command's program as execvp would.

    Raises:
        NotStartedError: If it doesn't exist or isn't executable.
    """
    if "/" not in name:
        program = shutil.which(name, path=search_path)
        if program is None:
            raise NotStartedError(127, f'exec: "{name}": executable file not found in $PATH')
        return program
    path = folder / name
    if not path.exists():
        raise NotStartedError(127, f'exec: "{name}": stat {name}: no such file or directory')
    if path.is_dir() or not os.access(path, os.X_OK):
        raise NotStartedError(126, f'exec: "{name}": permission denied')
    return str(path)


async def start_process(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    prefix: Sequence[str] = (),
    stdin: int,
    stdout: int,
    stderr: int,
) -> asyncio.subprocess.Process:
    """
    Start a command in a session of its own.

    Args:
        command: Program and arguments.
        environment: All of its environment.
        folder: Its working directory.
        prefix: A command that runs it.
        stdin: Descriptor, or a constant of asyncio.subprocess.
        stdout: Likewise.
        stderr: Likewise.

    Raises:
        NotStartedError: If it couldn't be.
    """
    program = find_program(command[0], search_path=environment.get("PATH", ""), folder=folder)
    arguments = [*prefix, program, *command[1:]]
    try:
        return await asyncio.create_subprocess_exec(
            *arguments,
            env=environment,
            cwd=folder,
            start_new_session=True,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
    except (OSError, ValueError) as error:
        text = (
            os.strerror(error.errno).lower()
            if isinstance(error, OSError) and error.errno
            else error
        )
        raise NotStartedError(126, f'exec: "{command[0]}": {text}') from error


def signal_group(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Signal the process group of a process that was started here, unless it has ended."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def kill_processes(process: asyncio.subprocess.Process, marker: str) -> None:
    """Kill a container's main process and all that it left."""
    signal_group(process, signal.SIGKILL)
    kill_marked(marker)


def build_exit_code(returncode: int) -> int:
    """Turn a return code, negative for a signal, into what a shell would report."""
    return returncode if returncode >= 0 else 128 - returncode
