"""Components that must not end, and signals that end the rest in order."""

import asyncio
import os
import signal

import pytest

from vkubelet.errors import ComponentExitedError, ShutdownRequested
from vkubelet.supervision import interruptible, run_component


async def test_a_component_that_ends_is_an_error() -> None:
    async def ends() -> None:
        pass

    with pytest.raises(ComponentExitedError, match="component 'lease' ended on its own"):
        await run_component("lease", ends)


async def test_its_own_error_comes_through() -> None:
    async def fails() -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await run_component("lease", fails)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_body_and_its_tasks(number: signal.Signals) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("task")

    async def serve() -> None:
        async with interruptible() as group:
            group.create_task(work())
            await asyncio.sleep(0)
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await serve()
    assert caught.group_contains(ShutdownRequested)
    assert ended == ["task"]


async def test_a_body_that_ends_waits_for_no_signal() -> None:
    async with interruptible():
        pass
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
