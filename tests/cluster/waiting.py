"""Waiting for a cluster to come to a state."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.cluster.errors import ClusterError

_POLL_SECONDS = 0.15  # a probe by kubectl costs as much of a core


async def wait_until(
    probe: Callable[[], Awaitable[bool]], what: str, *, timeout_seconds: float = 30.0
) -> None:
    """
    Ask until the answer is yes.

    Raises:
        ClusterError: If it stays no; it names what was waited for.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            while not await probe():
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise ClusterError(f"waited {timeout_seconds:g} s in vain: {what}") from None
