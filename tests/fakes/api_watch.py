"""One watch of the fake API server: initial events, changes, bookmarks, and how it ends."""

import asyncio
import enum
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
from aiohttp import web

from tests.fakes.api_calls import ApiCall
from tests.fakes.api_objects import ApiFailureError, check_field_selector
from tests.fakes.api_state import ApiState, Change
from vkubelet.kube.objects import KubeObject

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
BOOKMARK_INTERVAL_SECONDS = 60.0
LAST_BOOKMARK_SECONDS = 2.0
"""How long before the end the last one comes."""


class Ending(enum.Enum):
    """How a watch ends."""

    CLEAN = "as after timeoutSeconds"
    CUT = "the connection breaks"
    MID_LINE = "the connection breaks within an event"


class WatchList(enum.Enum):
    """What the server makes of sendInitialEvents."""

    SUPPORTED = "as since Kubernetes 1.32"
    FORBIDDEN = "refused: the feature gate is off"
    IGNORED = "unknown parameter, as on servers before 1.27"


def gone(*, version: str) -> ApiFailureError:
    return ApiFailureError(410, "Expired", f"too old resource version: {version}")


def encode_event(kind: str, body: KubeObject) -> bytes:
    return msgspec.json.encode({"type": kind, "object": body}) + b"\n"


class Watch:
    """
    An open watch.

    Attributes:
        call: The request.
        outbox: Raw lines that a test has put in; sent before anything else.
    """

    def __init__(self, call: ApiCall, state: ApiState, watch_list: WatchList) -> None:
        self.call = call
        self.outbox: deque[bytes] = deque()
        self._state = state
        self._watch_list = watch_list
        self._wake = asyncio.Event()
        self._ending: Ending | None = None
        self._mute = False
        self._bookmarks = call.query.get("allowWatchBookmarks") == "true"
        self._position = state.version

    def wake(self) -> None:
        self._wake.set()

    def mute(self) -> None:
        """Send nothing any more, as when the peer's machine has vanished."""
        self._mute = True

    def end(self, ending: Ending) -> None:
        self._ending = ending
        self._wake.set()

    def check(self) -> None:
        """Refuse what a real API server refuses."""
        query = self.call.query
        check_field_selector(self.call.resource.resource, query.get("fieldSelector", ""))
        initial = "sendInitialEvents" in query
        if initial and self._watch_list is WatchList.FORBIDDEN:
            problem = (
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the "
                "WatchList feature gate is enabled"
            )
        elif initial and query.get("resourceVersionMatch") != "NotOlderThan":
            problem = (
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting "
                "resourceVersionMatch to NotOlderThan"
            )
        elif not initial and "resourceVersionMatch" in query:
            problem = (
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch "
                "unless sendInitialEvents is provided"
            )
        else:
            return
        if self._watch_list is not WatchList.IGNORED:
            message = f'ListOptions.meta.k8s.io "" is invalid: {problem}'
            raise ApiFailureError(422, "Invalid", message)

    def version_error(self) -> ApiFailureError | None:
        version = self.call.query.get("resourceVersion", "")
        if version not in {"", "0"} and int(version) < self._state.expired_before:
            return gone(version=version)
        return None

    async def serve(self, response: web.StreamResponse) -> None:
        """Send events until the watch ends; returns only when it ended cleanly."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + float(self.call.query.get("timeoutSeconds", 3600))
        bookmark_at = self._next_bookmark(ends_at)
        for line in self._initial_lines():
            await response.write(line)
        while True:
            self._wake.clear()
            if self._mute:
                await self._wait_for_ending()
            else:
                await self._write_news(response)
                if loop.time() >= bookmark_at:
                    bookmark_at = self._next_bookmark(ends_at)
                    await self._write_bookmark(response)
            if self._ending is Ending.CLEAN or loop.time() >= ends_at:
                return
            if self._ending is not None:
                await self._break(response, mid_line=self._ending is Ending.MID_LINE)
            try:
                async with asyncio.timeout_at(min(bookmark_at, ends_at)):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _write_news(self, response: web.StreamResponse) -> None:
        while self.outbox:
            await response.write(self.outbox.popleft())
        for line in self._pending_lines():
            await response.write(line)

    async def _wait_for_ending(self) -> None:
        while self._ending is None:
            self._wake.clear()
            await self._wake.wait()

    def _next_bookmark(self, ends_at: float) -> float:
        now = asyncio.get_running_loop().time()
        last = ends_at - LAST_BOOKMARK_SECONDS
        return min(now + BOOKMARK_INTERVAL_SECONDS, last if last > now else ends_at + 1)

    def bookmark(self, *, initial_end: bool = False) -> bytes:
        resource = self.call.resource.resource
        metadata: dict[str, Any] = {"resourceVersion": str(self._position)}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return encode_event("BOOKMARK", body)

    def put_bookmark(self) -> None:
        """Have a bookmark sent now."""
        self.outbox.append(self.bookmark())
        self._wake.set()

    async def _write_bookmark(self, response: web.StreamResponse) -> None:
        # From a version that is yet to come, nothing is sent.
        if self._bookmarks and self._position <= self._state.version:
            await response.write(self.bookmark())

    async def _break(self, response: web.StreamResponse, *, mid_line: bool) -> None:
        if mid_line:
            await response.write(b'{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"na')
        transport = self.call.request.transport
        if transport is not None:
            transport.abort()
        await asyncio.Event().wait()  # until aiohttp cancels the handler of the lost connection

    def _initial_lines(self) -> Iterator[bytes]:
        version = self.call.query.get("resourceVersion", "")
        initial = self.call.query.get("sendInitialEvents") == "true"
        if self._watch_list is WatchList.IGNORED:
            initial = False
        if version not in {"", "0"} and not initial:
            self._position = int(version)
            return
        self._position = self._state.version
        objects = list(self._state.collection(self.call.resource.resource).values())
        for body in objects:
            if self.call.selects(body):
                yield encode_event("ADDED", body)
        if initial and self._bookmarks:
            yield self.bookmark(initial_end=True)

    def _pending_lines(self) -> Iterator[bytes]:
        resource = self.call.resource.resource
        plural = (resource.group, resource.plural)
        history, upto = self._state.history, self._state.version
        first = len(history)
        while first and history[first - 1].version > self._position:
            first -= 1
        for change in history[first:]:
            self._position = change.version
            line = self._line(change) if change.plural == plural else None
            if line is not None:
                yield line
        self._position = max(self._position, upto)

    def _line(self, change: Change) -> bytes | None:
        was, stays = self.call.selects(change.before), self.call.selects(change.after)
        if stays and change.after is not None:
            return encode_event("MODIFIED" if was else "ADDED", change.after)
        if was and change.before is not None:
            metadata = {**change.before["metadata"], "resourceVersion": str(change.version)}
            return encode_event("DELETED", {**change.before, "metadata": metadata})
        return None
