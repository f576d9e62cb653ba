"""
A keyed, deduplicating work queue: one worker a key at a time, failures come with back-off.

Keys wait by share (of a namespace, say), and shares take turns: one that brings many keys keeps the
keys of others waiting for one of its own, not for all.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Set
from typing import Generic, NoReturn, TypeVar

from vkubelet.errors import RetryError
from vkubelet.kube.backoff import compute_delay, spread_out
from vkubelet.kube.errors import KubeError, TooManyRequestsError
from vkubelet.kube.metrics import QUEUE_DEPTH, RECONCILE_SECONDS, RECONCILES

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

# A key that failed and was added meanwhile comes back no later than this: what was new may have
# been the remedy. Not at once, or a reconcile that causes its own events would spin.
_FAILED_AND_ADDED_SECONDS = 1.0


class _Turns(Generic[K]):
    """Keys that wait, each in its share: the shares' next ones by turns."""

    def __init__(self, share_of: Callable[[K], Hashable] | None) -> None:
        self._share_of = share_of
        self._keys: set[K] = set()
        self._shares: dict[Hashable, dict[K, None]] = {}  # ordered, as sets aren't

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def keys(self) -> Set[K]:
        """All of them."""
        return self._keys

    def add(self, key: K) -> None:
        """Put a key at the end of its share; one that waits keeps its place."""
        if key not in self._keys:
            self._keys.add(key)
            share = self._share_of(key) if self._share_of else None
            self._shares.setdefault(share, {})[key] = None

    def take(self) -> K:
        """Take the next key; its share goes to the end of the line."""
        share, keys = next(iter(self._shares.items()))
        key = next(iter(keys))
        del keys[key], self._shares[share]
        if keys:
            self._shares[share] = keys
        self._keys.discard(key)
        return key


class WorkQueue(Generic[K]):
    """
    Keys waiting to be reconciled; a key that is added while it's worked on is worked on once more.

    Memory is bounded by the keys that wait, are delayed, worked on or failing.

    Args:
        name: Of the queue, in logs and metrics.
        share_of: What keys share a turn; all of them unless given.
        base_delay_seconds: Back-off after a first failure.
        max_delay_seconds: The longest back-off.
    """

    def __init__(
        self,
        name: str,
        *,
        share_of: Callable[[K], Hashable] | None = None,
        base_delay_seconds: float = 0.05,
        max_delay_seconds: float = 60.0,
    ) -> None:
        self._name = name
        self._base_delay_seconds = base_delay_seconds
        self._max_delay_seconds = max_delay_seconds
        self._ready: _Turns[K] = _Turns(share_of)
        self._working: set[K] = set()
        self._added_meanwhile: set[K] = set()
        self._delayed: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()
        self._depth = QUEUE_DEPTH.labels(name)
        self._seconds = RECONCILE_SECONDS.labels(name)
        self._done, self._failed, self._broken = (
            RECONCILES.labels(name, result) for result in ("done", "failed", "error")
        )

    def add(self, key: K) -> None:
        """
        Have the key reconciled; at once, or once more after the run that is under way.

        A delayed addition of the key stays: it will run then, too.
        """
        if key in self._working:
            self._added_meanwhile.add(key)
        else:
            self._ready.add(key)
            self._depth.set(len(self._ready))
            self._wake.set()

    def add_after(self, key: K, delay_seconds: float) -> None:
        """Have the key reconciled after a delay; the earliest of several wins."""
        if delay_seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + delay_seconds
        known = self._delayed.get(key)
        if known is not None:
            if known.when() <= due:
                return
            known.cancel()
        self._delayed[key] = loop.call_at(due, self._release, key)

    def __len__(self) -> int:
        """Keys that wait or are delayed or worked on."""
        return len(self._working | self._ready.keys | self._delayed.keys())

    async def run(
        self, reconcile: Callable[[K], Awaitable[float | None]], *, workers: int
    ) -> NoReturn:
        """
        Reconcile keys until cancelled, at most `workers` at once.

        `reconcile` returns None when done or the seconds after which it wants the key again. What
        it raises is logged (passing KubeError and RetryError as WARNING in one line, anything else
        as ERROR with its trace) and the key comes back with jittered, capped back-off, for ever;
        success resets the back-off. Cancelling cancels the reconciles under way and drops what is
        delayed.
        """
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._wake.clear()
                    while self._ready and len(self._working) < workers:
                        key = self._ready.take()
                        self._depth.set(len(self._ready))
                        self._working.add(key)
                        group.create_task(self._work(key, reconcile), name=f"{self._name} {key}")
                    await self._wake.wait()
        finally:
            for timer in self._delayed.values():
                timer.cancel()
            self._delayed.clear()
        raise AssertionError("a TaskGroup with an endless body only ends by an exception")

    async def _work(self, key: K, reconcile: Callable[[K], Awaitable[float | None]]) -> None:
        started = asyncio.get_running_loop().time()
        try:
            again = await reconcile(key)
        except (KubeError, RetryError) as error:
            self._failed.inc()
            again = self._count_failure(key, error)
            logger.warning("%s: %s failed, again in %.2f s: %s", key, self._name, again, error)
        except Exception as error:
            self._broken.inc()
            again = self._count_failure(key, error)
            logger.exception("%s: %s failed, again in %.2f s", key, self._name, again)
        else:
            self._done.inc()
            self._failures.pop(key, None)
        finally:
            self._seconds.observe(asyncio.get_running_loop().time() - started)
            self._working.discard(key)
            self._wake.set()
        if again is not None:
            self.add_after(key, again)
        if key in self._added_meanwhile:
            self._added_meanwhile.discard(key)
            self.add(key)

    def _count_failure(self, key: K, error: Exception) -> float:
        """Count a failure and return the seconds to wait: longer if the server asked for it."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = compute_delay(
            failures, base_seconds=self._base_delay_seconds, max_seconds=self._max_delay_seconds
        )
        if key in self._added_meanwhile:
            self._added_meanwhile.discard(key)
            delay = min(delay, _FAILED_AND_ADDED_SECONDS)
        if isinstance(error, TooManyRequestsError):
            delay = max(delay, spread_out(error.retry_after_seconds))
        return delay

    def _release(self, key: K) -> None:
        del self._delayed[key]
        self.add(key)
