"""The caller's side of an exec, in memory."""

import asyncio

from vkubelet.interface import TerminalSize


class RecordedStreams:
    """Streams that a test feeds and that keep what is written."""

    def __init__(self, *, stdin: bool = False) -> None:
        self.stdin = stdin
        self.stdout = True
        self.stderr = True
        self.output = b""
        self.errors = b""
        self.blocked = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._sizes: asyncio.Queue[TerminalSize] = asyncio.Queue()
        self._written = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Give stdin more; b"" ends it."""
        self._input.put_nowait(data)

    def resize(self, width: int, height: int) -> None:
        """Change the terminal's size."""
        self._sizes.put_nowait(TerminalSize(width, height))

    async def wait_output(self, wanted: bytes) -> None:
        """Wait until stdout has it."""
        async with asyncio.timeout(10):
            while wanted not in self.output:
                self._written.clear()
                await self._written.wait()

    async def read_stdin(self) -> bytes:
        """Return what was fed; nothing when stdin isn't wanted."""
        return await self._input.get() if self.stdin else b""

    async def write_stdout(self, data: bytes) -> None:
        """Keep it; blocks while `open` is clear."""
        if not self.open.is_set():
            self.blocked.set()
            await self.open.wait()
        self.output += data
        self._written.set()

    async def write_stderr(self, data: bytes) -> None:
        """Keep it."""
        self.errors += data

    async def wait_resize(self) -> TerminalSize:
        """Return the next size."""
        return await self._sizes.get()
