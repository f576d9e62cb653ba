"""An event loop whose clock jumps to the next timer whenever there is nothing else to do."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# Real time that sockets get to deliver before the clock jumps. Loopback delivers within the system
# call that sends, unless the kernel is busy and puts it off.
_SETTLE_SECONDS = 0.002


class _Selector(selectors.DefaultSelector):
    """Waits for sockets in real time only when the loop has no timer."""

    def __init__(self) -> None:
        super().__init__()
        self.jump: Callable[[float], None] = lambda _: None
        self.busy_threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None or self.busy_threads:
            return super().select(None)
        ready = super().select(_SETTLE_SECONDS)
        if not ready:
            self.jump(timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """
    A loop in virtual time: `sleep(3600)` takes no time, and takes exactly 3600 by `loop.time()`.

    Sockets within this loop (client and server in one test) work as usual: the clock stands still
    while bytes are under way, and while a thread of `asyncio.to_thread` works. What other processes
    do isn't waited for: a test that talks to one needs real time.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._clock_selector = _Selector()
        super().__init__(self._clock_selector)
        self._clock_selector.jump = self._jump

    def time(self) -> float:
        return self._now

    def _jump(self, seconds: float) -> None:
        # A timer is due at now + resolution; the tiny excess keeps rounding from spinning.
        self._now += seconds + 1e-9

    def run_in_executor(  # type: ignore[override]  # typeshed's overload for TypeVarTuple
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        self._clock_selector.busy_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_done)
        return future

    async def shutdown_default_executor(  # the signature is asyncio's
        self,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        self._clock_selector.busy_threads += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._clock_selector.busy_threads -= 1

    def _thread_done(self, _: object) -> None:
        self._clock_selector.busy_threads -= 1


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a virtual-time loop of its own, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
