"""The caller's side of an exec: feeds stdin and sizes, keeps output, may be slow."""

import asyncio

from vkubelet.interface import TerminalSize


class Caller:
    """
    What a test plays.

    Attributes:
        stdin_reads: How often stdin was read.
        unblock: Cleared by a test: what is written waits until it's set.
    """

    def __init__(self, *, stdin: bool = False, stdout: bool = True, stderr: bool = True) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self._stdout = bytearray()
        self._stderr = bytearray()
        self.stdin_reads = 0
        self.unblock = asyncio.Event()
        self.unblock.set()
        self.pending = asyncio.Queue[bytes]()
        self.sizes = asyncio.Queue[TerminalSize]()

    @property
    def output(self) -> bytes:
        """What arrived on stdout."""
        return bytes(self._stdout)

    @property
    def errors(self) -> bytes:
        """What arrived on stderr."""
        return bytes(self._stderr)

    def feed(self, *chunks: bytes) -> None:
        """Let stdin deliver these; b"" is its end."""
        for chunk in chunks:
            self.pending.put_nowait(chunk)

    async def read_stdin(self) -> bytes:
        self.stdin_reads += 1
        return await self.pending.get()

    async def write_stdout(self, data: bytes) -> None:
        await self.unblock.wait()
        self._stdout += data

    async def write_stderr(self, data: bytes) -> None:
        await self.unblock.wait()
        self._stderr += data

    async def wait_resize(self) -> TerminalSize:
        return await self.sizes.get()
