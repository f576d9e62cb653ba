"""Commands whose every byte matters, with files or a terminal as their streams."""

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import tempfile
import termios
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.errors import ClusterError

TIMEOUT_SECONDS = 60.0
COLUMNS, ROWS = 101, 37
_QUIET_SECONDS = 0.4
_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    What a command showed.

    Attributes:
        returncode: Its exit code.
        stdout: What it wrote; by a terminal, all that was seen there.
        stderr: Its messages.
    """

    returncode: int
    stdout: bytes
    stderr: str = ""


@contextlib.asynccontextmanager
async def _start(
    argv: Sequence[str], env: Mapping[str, str], **streams: Any
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *argv, env=dict(env), start_new_session=True, **streams
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _wait(process: asyncio.subprocess.Process, argv: Sequence[str]) -> int:
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await process.wait()
    except TimeoutError:
        raise ClusterError(f"{' '.join(argv)}: still runs") from None


async def run_to_end(
    argv: Sequence[str], env: Mapping[str, str], stdin: Path | None = None
) -> Outcome:
    """
    Run a command to its end.

    Raises:
        ClusterError: If it takes too long.
    """
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        (stdin or Path(os.devnull)).open("rb") as source,
    ):
        async with _start(argv, env, stdin=source, stdout=out, stderr=err) as process:
            code = await _wait(process, argv)
        out.seek(0)
        err.seek(0)
        return Outcome(
            returncode=code, stdout=out.read(), stderr=err.read().decode(errors="replace")
        )


async def run_slowly(
    argv: Sequence[str], env: Mapping[str, str], *, bytes_per_second: float
) -> Outcome:
    """Run a command to its end, and read what it writes no faster than at a rate."""
    with tempfile.TemporaryFile() as err:
        pipe = asyncio.subprocess.PIPE
        async with _start(
            argv, env, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=err
        ) as process:
            assert process.stdout is not None
            chunks = []
            while chunk := await process.stdout.read(_CHUNK_BYTES):
                chunks.append(chunk)
                await asyncio.sleep(len(chunk) / bytes_per_second)
            code = await _wait(process, argv)
        err.seek(0)
        return Outcome(returncode=code, stdout=b"".join(chunks), stderr=err.read().decode())


async def run_in_terminal(
    argv: Sequence[str], keys: Sequence[bytes], env: Mapping[str, str]
) -> Outcome:
    """
    Run a command in a terminal of its own, and press keys: each when nothing more is shown.

    Raises:
        ClusterError: If it takes too long.
    """
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.set_blocking(ours, False)
        shown = bytearray()
        news = asyncio.Event()
        loop = asyncio.get_running_loop()

        def read() -> None:
            with contextlib.suppress(OSError):  # nobody has the other end any more
                shown.extend(os.read(ours, _CHUNK_BYTES))
            news.set()

        environment = {"TERM": "xterm", **env}
        async with _start(argv, environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
            loop.add_reader(ours, read)
            try:
                for key in keys:
                    await _wait_quiet(news, shown)
                    os.write(ours, key)
                code = await _wait(process, argv)
                await _wait_quiet(news, shown)
            finally:
                loop.remove_reader(ours)
        return Outcome(returncode=code, stdout=bytes(shown))
    finally:
        os.close(ours)
        os.close(theirs)


async def _wait_quiet(news: asyncio.Event, shown: bytearray) -> None:
    """Wait until something is shown, and then until nothing more comes for a while."""
    seen = -1
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while len(shown) != seen or not shown:
                seen = len(shown)
                news.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_QUIET_SECONDS):
                        await news.wait()
                        await asyncio.sleep(_QUIET_SECONDS / 4)
