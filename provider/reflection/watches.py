"""Watches that are opened and closed one by one, as what they show comes into use."""

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import Generic, NoReturn, TypeVar

from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import HasMetadata
from vkubelet.supervision import run_component

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=HasMetadata)


class Watch(Generic[T]):
    """
    One watch.

    Attributes:
        informer: What keeps its Store.
        trouble: Why it doesn't work at present, None if it does.
    """

    def __init__(self, informer: Informer[T], task: asyncio.Task[NoReturn]) -> None:
        self.informer = informer
        self.trouble: Exception | None = None
        self.settled = asyncio.Event()
        self.task = task


class Watches(Generic[K, T]):
    """
    Watches by scope; `run` owns them.

    Opened and closed at once when `run` is under way, else when it starts.
    """

    def __init__(
        self,
        name: str,
        build: Callable[[K], Informer[T]],
        on_settled: Callable[[K], None] | None = None,
    ) -> None:
        """
        Say how; nothing is opened yet.

        Args:
            name: For task names.
            build: Makes the informer of a scope, with the handlers it needs.
            on_settled: Called when a scope is known for the first time, or again after trouble.
        """
        self._name = name
        self._build = build
        self._on_settled = on_settled
        self._wanted: dict[K, None] = {}
        self._open: dict[K, Watch[T]] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def scopes(self) -> frozenset[K]:
        """The scopes that are wanted."""
        return frozenset(self._wanted)

    def open(self, scope: K) -> None:
        """Have a scope watched."""
        if scope not in self._wanted:
            self._wanted[scope] = None
            if self._group is not None:
                self._start(scope, self._group)

    def close(self, scope: K) -> None:
        """Watch a scope no more; what was known of it is forgotten."""
        self._wanted.pop(scope, None)
        watch = self._open.pop(scope, None)
        if watch is not None:
            watch.task.cancel()
            watch.settled.set()

    def get(self, scope: K) -> Watch[T] | None:
        """Return the watch of a scope, None if it isn't open."""
        return self._open.get(scope)

    async def wait_settled(self, scope: K, *, timeout_seconds: float) -> Watch[T] | None:
        """Open a scope and wait until it's known or in trouble; None if it takes too long."""
        self.open(scope)
        watch = self._open.get(scope)
        if watch is None:
            return None
        try:
            async with asyncio.timeout(timeout_seconds):
                await watch.settled.wait()
        except TimeoutError:
            return None
        return watch

    async def run(self) -> NoReturn:
        """Keep the watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for scope in self._wanted:
                    self._start(scope, group)
                await asyncio.Event().wait()
            finally:
                self._group = None
                self._open.clear()
        raise AssertionError("nothing sets that event")

    def _start(self, scope: K, group: asyncio.TaskGroup) -> None:
        informer = self._build(scope)
        name = f"{self._name} {scope}"

        async def follow() -> NoReturn:
            async with asyncio.TaskGroup() as following:
                following.create_task(run_component(name, informer.run), name=name)
                await informer.wait_synced()
                self._settle(scope, watch, None)
            raise AssertionError("an informer ends only by an exception")

        watch = Watch(informer, group.create_task(follow(), name=name))
        self._open[scope] = watch
        informer.add_failure_handler(lambda error: self._settle(scope, watch, error))

    def _settle(self, scope: K, watch: Watch[T], trouble: Exception | None) -> None:
        watch.trouble = trouble
        if trouble is None and not watch.informer.synced:
            return  # the server answered, but not everything is there yet
        watch.settled.set()
        if trouble is None and self._on_settled is not None and self._open.get(scope) is watch:
            self._on_settled(scope)
