"""List and watch one collection for ever, kept in a Store; differences go to handlers."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Generic, NoReturn, TypeAlias, TypeVar

import msgspec

from vkubelet.kube.backoff import compute_delay, jitter
from vkubelet.kube.client import KubeClient, WatchEvent
from vkubelet.kube.errors import (
    BadRequestError,
    GoneError,
    InvalidError,
    KubeError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)
from vkubelet.kube.headers import Header, decode_bookmark, decode_header
from vkubelet.kube.objects import HasMetadata, NamespacedName, Resource
from vkubelet.kube.store import Indexers, MutableStore, Store

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=HasMetadata)

Handler: TypeAlias = Callable[[T | None, T | None], None]
"""
Called with (old, new): None, new = added; old, new = modified; old, None = deleted.

Sync, quick, must not raise. The Store is already as after the change. `old` is exactly what the
handler last got as `new`. An object that was deleted and made again while the watch was down comes
as modified, with another UID.
"""

FailureHandler: TypeAlias = Callable[[Exception | None], None]

PAGE_SIZE = 500

# Events and items that are taken in one go before other tasks get a turn.
TURN_SIZE = 100

BASE_DELAY_SECONDS = 0.5
MAX_DELAY_SECONDS = 30.0

# A stream that held this long ended for a reason of its own: the next one needn't wait.
SOUND_STREAM_SECONDS = 5.0

# The server ends a watch after this up to twice as long, as client-go asks for.
WATCH_SECONDS = 300

# Bookmarks come about once a minute: after three that are missing the connection is dead.
SILENCE_SECONDS = 200.0

# A server that knows sendInitialEvents sends the first event or the closing bookmark well before.
INITIAL_SILENCE_SECONDS = 15.0

# How often at most an event puts off the end by silence: a timer costs as much as a small event.
PUT_OFF_SECONDS = 1.0

# What a server that is down, or on its way up or down, fails with.
_DOWN = UnreachableError | ServerError


class _NoInitialEventsError(Exception):
    """The server doesn't know sendInitialEvents."""


class Informer(Generic[T]):
    """
    Keep a Store in step with the API server, through cuts, 410, restarts of the server.

    Attributes:
        store: What is known; complete once synced.
    """

    store: Store[T]

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        decode: Callable[[bytes], T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        indexers: Indexers[T] | None = None,
    ) -> None:
        """
        Say what to follow; `run` does it.

        Args:
            client: Of the cluster.
            resource: Of the collection.
            decode: Makes what the Store keeps. What it can't decode is logged and left out.
            namespace: "" for all.
            label_selector: As the API takes it.
            field_selector: As the API takes it.
            indexers: Pure functions, by the name of their index.
        """
        self._client = client
        self._resource = resource
        self._decode = decode
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._items: MutableStore[T] = MutableStore(indexers)
        self.store = self._items
        self._handlers: list[Handler[T]] = []
        self._failure_handlers: list[FailureHandler] = []
        self._failing = False
        self._synced = asyncio.Event()
        self._initial_events = True
        self._version = ""  # where the next watch starts; "" when everything must be listed
        self._met: set[NamespacedName] | None = None  # keys met so far while all is listed
        self._opened_at: float | None = None
        # Of a cluster that was restored from a backup, or made anew, under the same address nothing
        # comes, not even bookmarks, until its versions have passed ours: so silence a second time
        # means to list again.
        self._silences = 0

    def __str__(self) -> str:
        scope = "/".join(filter(None, [self._namespace, self._resource.plural]))
        selectors = ",".join(filter(None, [self._label_selector, self._field_selector]))
        return f"{self._client.name} {scope}" + (f" ({selectors})" if selectors else "")

    def add_handler(self, handler: Handler[T]) -> None:
        """Register a handler; it first gets what is already in the Store as added."""
        self._handlers.append(handler)
        for item in self._items:
            self._call_handler(handler, None, item)

    def add_failure_handler(self, handler: FailureHandler) -> None:
        """
        Register what hears of failures.

        It's called with the error each time list or watch fails, and with None when the server has
        answered again. A stream that held and was then cut is no failure yet: the next try may be.
        """
        self._failure_handlers.append(handler)

    @property
    def synced(self) -> bool:
        """Whether the Store has been complete once."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the Store is complete for the first time."""
        await self._synced.wait()

    async def run(self) -> NoReturn:
        """List and watch until cancelled; failures are retried with jittered, capped back-off."""
        failures = 0
        was_down = False
        while True:
            self._opened_at = None
            error = await self._follow_once()
            down = isinstance(error, _DOWN)
            if was_down and not down:
                failures = 0  # it's up again: a refusal while it starts passes quickly
            was_down = down
            if self._held():
                failures = 0
                logger.debug("%s: stream ended (%s), opening the next", self, error or "by server")
                continue
            failures += 1
            delay = compute_delay(
                failures, base_seconds=BASE_DELAY_SECONDS, max_seconds=MAX_DELAY_SECONDS
            )
            if isinstance(error, GoneError):
                logger.info("%s: version is too old, listing again: %s", self, error)
                if failures == 1:
                    continue
            elif error is not None:
                if isinstance(error, TooManyRequestsError):
                    delay = max(delay, error.retry_after_seconds)
                logger.warning("%s: failed, again in %.1f s: %s", self, delay, error)
                self._report(error)
            await self._pause(delay, error)

    async def _pause(self, seconds: float, error: Exception | None) -> None:
        """Wait before the next try; no longer once the server is known to answer again."""
        if not isinstance(error, _DOWN):
            await asyncio.sleep(seconds)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._client.wait_recovered()

    async def _follow_once(self) -> Exception | None:
        """Follow until something ends it, and tell what; None if the server ended the stream."""
        try:
            await self._follow()
        except GoneError as error:
            self._version = ""
            return error
        except (KubeError, msgspec.DecodeError) as error:
            return error
        return None

    def _held(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self._opened_at is not None and now - self._opened_at >= SOUND_STREAM_SECONDS

    async def _follow(self) -> None:
        """List if need be, then watch until the stream ends."""
        if not self._version and self._initial_events:
            try:
                await self._watch(initial=True)
            except (BadRequestError, InvalidError, _NoInitialEventsError) as error:
                if self._version:
                    raise
                logger.info("%s: no initial events here, listing by pages: %s", self, error)
                self._initial_events = False
                self._opened_at = None
            else:
                return
        if not self._version:
            await self._list()
        await self._watch(initial=False)

    async def _list(self) -> None:
        """List page by page."""
        self._met = set()
        limit, token = PAGE_SIZE, ""
        while True:
            try:
                page = await self._client.list_page(
                    self._resource,
                    namespace=self._namespace,
                    label_selector=self._label_selector,
                    field_selector=self._field_selector,
                    limit=limit,
                    continue_token=token,
                )
            except GoneError:
                if not token:
                    raise
                limit, token = 0, ""  # it expired between pages: all at once, as client-go
                continue
            self._report(None)
            for number, raw in enumerate(page.items):
                if number % TURN_SIZE == TURN_SIZE - 1:
                    await asyncio.sleep(0)
                self._take(bytes(raw))
            token = page.continue_token
            if not token:
                break
        self._finish_listing(page.resource_version)

    async def _watch(self, *, initial: bool) -> None:
        """Watch until the stream ends, or is silent for too long."""
        self._met = set() if initial else None
        try:
            async with asyncio.timeout(SILENCE_SECONDS) as silence:
                await self._read_events(silence, initial=initial)
        except TimeoutError as error:
            if self._met is not None and self._opened_at is not None:
                raise _NoInitialEventsError("they were asked for, but nothing came") from error
            self._silences += 1
            if self._silences > 1:
                self._version = ""
            raise UnreachableError("the watch is open, but nothing came for too long") from error

    async def _read_events(self, silence: asyncio.Timeout, *, initial: bool) -> None:
        loop = asyncio.get_running_loop()

        def put_off() -> None:
            limit = SILENCE_SECONDS if self._met is None else INITIAL_SILENCE_SECONDS
            silence.reschedule(loop.time() + limit)

        def handle_open() -> None:
            self._opened_at = loop.time()
            self._report(None)
            put_off()

        events = self._client.watch(
            self._resource,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            resource_version=self._version,
            send_initial_events=initial,
            timeout_seconds=int(jitter(WATCH_SECONDS, spread=1.0)),
            on_open=handle_open,
        )
        async with aclosing(events):
            number, put_off_at = 0, 0.0
            async for event in events:
                self._handle_event(event)
                self._silences = 0
                if event.type == "BOOKMARK" or loop.time() >= put_off_at:
                    put_off()
                    put_off_at = loop.time() + PUT_OFF_SECONDS
                number += 1
                if number % TURN_SIZE == 0:
                    await asyncio.sleep(0)

    def _handle_event(self, event: WatchEvent) -> None:
        raw = bytes(event.object)
        match event.type:
            case "ADDED" | "MODIFIED":
                self._take(raw)
            case "DELETED":
                self._drop(raw)
            case "BOOKMARK":
                version, is_end = decode_bookmark(raw)
                if self._met is None:
                    self._advance(version)
                elif is_end:
                    self._finish_listing(version)
                else:
                    raise _NoInitialEventsError("a bookmark came before the end of initial events")
            case other:
                logger.warning("%s: event of unknown type %r ignored", self, other)

    def _take(self, raw: bytes) -> None:
        """Take an object as it is now into the Store."""
        header = self._identify(raw)
        if header is None:
            return
        key = NamespacedName(header.namespace, header.name)
        if self._met is not None:
            self._met.add(key)
        before = self._items.get(key)
        if before is not None and before.metadata.resource_version == header.resource_version:
            return
        try:
            item = self._decode(raw)
            self._items.put(item)
        except msgspec.DecodeError as error:
            logger.error("%s: %s can't be decoded, left as it was: %s", key, self, error)  # noqa: TRY400 - the trace says no more
        except Exception:
            logger.exception("%s: %s: decoder or indexer failed, left as it was", key, self)
        else:
            self._notify(before, item)

    def _drop(self, raw: bytes) -> None:
        """Take a deleted object out of the Store."""
        header = self._identify(raw)
        if header is None:
            return
        key = NamespacedName(header.namespace, header.name)
        if self._met is not None:
            self._met.discard(key)
        self._remove(key)

    def _identify(self, raw: bytes) -> Header | None:
        """Whose object it is, noting its version; None (and a line in the log) if it's nobody's."""
        try:
            header = decode_header(raw)
        except msgspec.DecodeError as error:
            logger.error("%s: object without usable metadata ignored: %s", self, error)  # noqa: TRY400 - as above
            return None
        if not header.name:
            logger.warning("%s: something without a name ignored: %.200r", self, raw)
            return None
        if self._met is None:
            self._advance(header.resource_version)
        return header

    def _advance(self, version: str) -> None:
        if version:
            self._version = version

    def _finish_listing(self, version: str) -> None:
        """Everything has been met: what wasn't is gone."""
        met, self._met = self._met or set(), None
        self._version = version
        gone = [key for key in self._items.keys() if key not in met]  # noqa: SIM118 - no dict
        for key in gone:
            self._remove(key)
        logger.debug("%s: %d objects at version %s", self, len(self._items), version)
        self._synced.set()

    def _remove(self, key: NamespacedName) -> None:
        before = self._items.remove(key)
        if before is not None:
            self._notify(before, None)

    def _notify(self, old: T | None, new: T | None) -> None:
        for handler in tuple(self._handlers):
            self._call_handler(handler, old, new)

    def _call_handler(self, handler: Handler[T], old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception:
            item = new if new is not None else old
            key = item.metadata.key if item is not None else ""
            logger.exception("%s: a handler of %s failed", key, self)

    def _report(self, error: Exception | None) -> None:
        """Tell the failure handlers, of success only after a failure."""
        if error is None and not self._failing:
            return
        self._failing = error is not None
        if error is None:
            logger.info("%s: answered again", self)
        for handler in tuple(self._failure_handlers):
            try:
                handler(error)
            except Exception:
                logger.exception("%s: a failure handler failed", self)
