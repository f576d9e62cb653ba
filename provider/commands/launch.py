"""Running a command's coroutine to its end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def run_to_end(start: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine in a loop of its own; Ctrl-C raises KeyboardInterrupt, as in any program."""

    async def run() -> T:
        return await start()

    return asyncio.run(run())
