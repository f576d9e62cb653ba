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


class StillRunsError(ClusterError):
    """A command takes too long."""


async def _wait(
    process: asyncio.subprocess.Process, argv: Sequence[str], timeout_seconds: float
) -> int:
    try:
        async with asyncio.timeout(timeout_seconds):
            return await process.wait()
    except TimeoutError:
        raise StillRunsError(f"{' '.join(argv)}: still runs") from None


async def run_to_end(
    argv: Sequence[str],
    env: Mapping[str, str],
    stdin: Path | None = None,
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Outcome:
    """
    Run a command to its end.

    Raises:
        StillRunsError: If it takes too long.
    """
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        (stdin or Path(os.devnull)).open("rb") as source,
    ):
        async with _start(argv, env, stdin=source, stdout=out, stderr=err) as process:
            code = await _wait(process, argv, timeout_seconds)
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
            code = await _wait(process, argv, TIMEOUT_SECONDS)
        err.seek(0)
        return Outcome(returncode=code, stdout=b"".join(chunks), stderr=err.read().decode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """
    Something to do on a terminal.

    Attributes:
        after: What must be shown first, since the key before it.
        typed: What is typed then.
        size: Rows and columns that the terminal gets then; None: as it is.
    """

    after: bytes
    typed: bytes = b""
    size: tuple[int, int] | None = None


class _Terminal:
    """A terminal: what is shown there, and typing."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        self._resize(ROWS, COLUMNS)
        os.set_blocking(self._ours, False)
        self.shown = bytearray()
        self._news = asyncio.Event()

    def read(self) -> bool:
        """Read what is there; whether there was anything."""
        try:
            self.shown += (data := os.read(self._ours, _CHUNK_BYTES))
        except OSError:  # nothing now, or nobody has the other end any more
            return False
        self._news.set()
        return bool(data)

    def _resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def type(self, keys: Sequence[Key], process: asyncio.subprocess.Process) -> None:
        """Type keys, each when it's time."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._ours, self.read)
        position = 0
        try:
            for key in keys:
                while (found := self.shown.find(key.after, position)) < 0:
                    self._news.clear()
                    await self._news.wait()
                position = found + len(key.after)
                os.write(self._ours, key.typed)
                if key.size is not None:
                    self._resize(*key.size)
                    process.send_signal(signal.SIGWINCH)  # it isn't its controlling terminal
            await asyncio.Event().wait()
        finally:
            loop.remove_reader(self._ours)

    def close(self) -> None:
        """Close it, and keep what was shown."""
        os.close(self.theirs)
        while self.read():
            pass
        os.close(self._ours)


async def run_in_terminal(
    argv: Sequence[str],
    env: Mapping[str, str],
    keys: Sequence[Key],
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Outcome:
    """
    Run a command in a terminal of its own, and type.

    Raises:
        StillRunsError: If it takes too long; the text has what was shown.
    """
    terminal = _Terminal()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal.theirs)
    try:
        async with (
            _start(argv, {"TERM": "xterm", **env}, **streams) as process,
            asyncio.TaskGroup() as group,
        ):
            typing = group.create_task(terminal.type(keys, process), name="typing")
            try:
                code = await _wait(process, argv, timeout_seconds)
            finally:
                typing.cancel()
    except* StillRunsError as errors:
        text = f"{errors.exceptions[0]}; shown: {bytes(terminal.shown)!r}"
        raise StillRunsError(text) from errors
    finally:
        terminal.close()
    return Outcome(returncode=code, stdout=bytes(terminal.shown))
