"""Programs of the benches as child processes."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

from tests.cluster.peering import build_environment

MAX_LINE_BYTES = 2**24
"""Of what they tell: times of thousands of pods come in a line."""


@contextlib.asynccontextmanager
async def run_module(
    module: str, *arguments: str, stdin: int | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a module with its standard output piped; it's killed at the end, unless it has ended."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        limit=MAX_LINE_BYTES,
        env=build_environment(),
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()
