"""Running a command's coroutine to its end, with one error for the command line."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import uvloop

T = TypeVar("T")


def run_to_end(start: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine in a loop of its own; Ctrl-C raises KeyboardInterrupt, as in any program."""

    async def run() -> T:
        return await start()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())
