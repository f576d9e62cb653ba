"""kubectl as the tests' client: the built one, by its full path, in an environment of its own."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.cluster import launch
from tests.cluster.errors import ClusterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """
    What a command left.

    Attributes:
        name: What messages call it: the cluster and the command.
    """

    name: str
    returncode: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        """Decode the output (of `-o json`)."""
        return msgspec.json.decode(self.stdout)


@contextlib.asynccontextmanager
async def open_kubectl(
    argv: Sequence[str], *, home: Path, env: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """
    Run kubectl with pipes as its streams; whatever still runs at the end is killed.

    Args:
        argv: The whole command line.
        home: Its home and working folder, where it keeps its caches.
        env: Added to its environment, which has nothing of this process's.
    """
    process = await asyncio.create_subprocess_exec(
        *launch.build_command(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=home,
        env={"PATH": os.defpath, "HOME": str(home), **env},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


async def run_kubectl(
    argv: Sequence[str],
    *,
    name: str,
    home: Path,
    env: Mapping[str, str],
    stdin: str,
    timeout_seconds: float,
) -> Completed:
    """
    Run kubectl to its end, whatever its exit code is.

    Raises:
        ClusterError: If it takes too long.
    """
    async with open_kubectl(argv, home=home, env=env) as process:
        try:
            async with asyncio.timeout(timeout_seconds):
                out, err = await process.communicate(stdin.encode())
        except TimeoutError:
            raise ClusterError(f"{name}: still runs after {timeout_seconds:g} s") from None
    assert process.returncode is not None
    return Completed(
        name=name,
        returncode=process.returncode,
        stdout=out.decode(errors="replace"),
        stderr=err.decode(errors="replace"),
    )
