"""
What all tests share: virtual time, and hypothesis without chance.

A test, class or module marked `virtual_time` runs in a loop whose clock jumps to the next timer
when nothing else is to do (`tests.fakes.virtual_time`): time-outs, back-off and leases are tested
exactly and at once, with real sockets to fakes in the same loop.

    pytestmark = pytest.mark.virtual_time

    async def test_renews():
        await asyncio.sleep(3600)  # by loop.time(), which starts at 0

Hypothesis tests, and others that need a loop of their own, call `run_virtual(coroutine)` of
`tests.fakes.virtual_time` from a plain function.
"""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.virtual_time import VirtualTimeLoop

# The same examples on every run, however busy the machine is.
settings.register_profile(
    "deterministic",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deterministic")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "virtual_time: runs by a clock that jumps to the next timer")
    # Else pytest-asyncio asks for the current loop; before 3.14 that makes one, never closed.
    asyncio.set_event_loop(None)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    virtual = item.get_closest_marker("virtual_time") is not None
    return {"virtual": VirtualTimeLoop} if virtual else {"real": asyncio.new_event_loop}
