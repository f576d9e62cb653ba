"""Running components that must not end, and stopping them in order."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

from vkubelet.errors import ComponentExitedError, ShutdownRequested

logger = logging.getLogger(__name__)


async def run_component(name: str, run: Callable[[], Awaitable[object]]) -> NoReturn:
    """
    Run a component until it's cancelled.

    A TaskGroup lets a task end in silence; a component that ends is a fault.

    Raises:
        ComponentExitedError: If `run` returned.
    """
    await run()
    raise ComponentExitedError(name)


async def wait_for_signal() -> NoReturn:
    """
    Wait for SIGTERM or SIGINT.

    Raises:
        ShutdownRequested: When one arrives.
    """
    loop = asyncio.get_running_loop()
    received = asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, received.set)
    try:
        await received.wait()
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
    logger.info("stopping: a signal asked for it")
    raise ShutdownRequested


@asynccontextmanager
async def interruptible() -> AsyncIterator[asyncio.TaskGroup]:
    """
    Yield a task group that a signal ends, by ShutdownRequested in an ExceptionGroup.

    Used innermost, so that what was started around it stops after it, in reverse order. The body's
    end cancels nothing but the wait for the signal.
    """
    async with asyncio.TaskGroup() as group:
        signals = group.create_task(wait_for_signal(), name="signals")
        yield group
        signals.cancel()
