"""Ending long requests from outside: when the client is gone, idles, or the server stops."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

from prometheus_client import Gauge

from vkubelet.server.errors import StreamInterruptedError

STREAMS = Gauge(
    "vkubelet_streams_open", "Logs, execs, attaches and port-forwards that are open, of all nodes."
)


class Interruption:
    """
    A flag that ends what runs inside `guard`, now or later.

    Attributes:
        reason: Why it was raised, None as long as it wasn't.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._scope: asyncio.Timeout | None = None

    def interrupt(self, reason: str) -> None:
        """Cancel what runs inside `guard`; the first reason stays."""
        if self.reason is not None:
            return
        self.reason = reason
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    @contextlib.asynccontextmanager
    async def guard(
        self, *, timeout_seconds: float | None = None, timeout_reason: str = ""
    ) -> AsyncIterator[None]:
        """
        Run a block that `interrupt` or a time-out cancels.

        Raises:
            StreamInterruptedError: In place of the cancellation; at once if `interrupt` came first.
        """
        if self.reason is not None:
            raise StreamInterruptedError(self.reason)
        scope = asyncio.timeout(timeout_seconds)
        try:
            async with scope:
                self._scope = scope
                yield
        except TimeoutError:
            if not scope.expired():
                raise
            raise StreamInterruptedError(self._find_reason(timeout_reason)) from None
        finally:
            self._scope = None

    def _find_reason(self, default: str) -> str:
        return default if self.reason is None else self.reason


class OpenStreams:
    """The long requests of a server, so that they can be ended kindly when it stops."""

    def __init__(self) -> None:
        self._interruptions: set[Interruption] = set()
        self._stop_reason: str | None = None

    def __len__(self) -> int:
        return len(self._interruptions)

    @contextlib.contextmanager
    def add(self, interruption: Interruption) -> Iterator[None]:
        """Hold a stream while it's open."""
        if self._stop_reason is not None:
            interruption.interrupt(self._stop_reason)
        self._interruptions.add(interruption)
        STREAMS.inc()
        try:
            yield
        finally:
            STREAMS.dec()
            self._interruptions.discard(interruption)

    def interrupt_all(self, reason: str) -> None:
        """End all streams, and those that come later."""
        self._stop_reason = reason
        for interruption in tuple(self._interruptions):
            interruption.interrupt(reason)
