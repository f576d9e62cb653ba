"""Many small writes in one go, over few connections of their own (HTTP pipelining)."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from vkubelet.kube.access import ClusterAccess, Connection
from vkubelet.kube.answers import Answer, AnswerParser, Broken
from vkubelet.kube.backoff import compute_delay
from vkubelet.kube.dialing import CallWriter
from vkubelet.kube.errors import KubeError, ServerError, UnauthorizedError, UnreachableError
from vkubelet.kube.failures import describe_network_error
from vkubelet.kube.objects import KubeObject, NamespacedName, Resource, encode_object
from vkubelet.kube.quiet import QuietConnection, open_quietly
from vkubelet.kube.requests import JSON, Call, PatchType, collection_path, key_of, object_path
from vkubelet.kube.sessions import KEEP_ALIVE_SECONDS
from vkubelet.kube.statuses import build_status_error
from vkubelet.kube.transport import Transport

logger = logging.getLogger(__name__)

MAX_TOGETHER = 10
"""Calls that go together over a connection: a server works on them one after the other."""

MAX_LINKS = 10
"""Connections that are used at once: the slower the server, the more it takes."""

GATHER_SECONDS = 0.25
"""Answers aren't looked at before, so that most come in one go."""

ANSWER_SECONDS = 5.0
"""When no answer has come for so long, the rest is called apart: one may hold up all others."""

ROUNDS = 2
"""A kept connection may have been closed meanwhile, and credentials may be newer."""

AVOID_SECONDS = 15.0
MAX_AVOID_SECONDS = 3600.0
"""Pauses of pipelining where something on the way doesn't stand it."""


class _Batch:
    """
    Calls that are sent together.

    Attributes:
        deadline: When they fail that have no answer, by the loop's clock.
        waiting: Numbers of those without an answer, in order.
        errors: What those failed by that were answered by a failure.
        sent_at: When they were sent together, by the loop's clock; None if they weren't.
        complaint: Why some weren't answered.
    """

    def __init__(self, calls: Sequence[Call], deadline: float) -> None:
        self.calls = calls
        self.deadline = deadline
        self.waiting = list(range(len(calls)))
        self.errors: dict[int, KubeError] = {}
        self.sent_at: float | None = None
        self.complaint = ""

    def note(self, number: int, error: KubeError | None) -> None:
        """Take in the answer to a call."""
        self.waiting.remove(number)
        if error is not None:
            self.errors[number] = error

    @property
    def patience(self) -> float:
        """When the next answer must have come, by the loop's clock."""
        return min(self.deadline, asyncio.get_running_loop().time() + ANSWER_SECONDS)

    def retry(self, numbers: Sequence[int]) -> None:
        """Forget what these failed by."""
        for number in numbers:
            del self.errors[number]
        self.waiting = sorted([*self.waiting, *numbers])


class _Link:
    """
    A connection that is kept between batches, and what its answers are read by.

    Attributes:
        idle_since: When it was last used, by the loop's clock.
    """

    def __init__(self, stream: QuietConnection, connection: Connection) -> None:
        self.stream = stream
        self.parser = AnswerParser()
        self.idle_since = 0.0
        self._connection = connection

    def leads_to(self, connection: Connection) -> bool:
        """Whether it's what one would open now; newer tokens need no other."""
        return self._connection.leads_to_same(connection)


class Pipeline:
    """
    Writes that are sent together, at a tenth of the cost of ordinary calls.

    Each is answered, or fails, on its own. What isn't answered in time, or at all, is called again
    in the ordinary way, so they must be such that can be done twice. Where something on the way (a
    proxy, a load balancer) doesn't stand pipelining, all are called in the ordinary way, for longer
    and longer. Used as an async context manager; `KubeClient.open_pipeline` makes one.
    """

    def __init__(self, access: ClusterAccess, transport: Transport) -> None:
        self._access = access
        self._transport = transport
        self._links: list[_Link] = []  # those that nobody uses, the one used last at the end
        self._slots = asyncio.Semaphore(MAX_LINKS)
        self._failures = 0
        self._avoid_until = 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close_links()

    def _close_links(self) -> None:
        for link in self._links:
            link.stream.abort()
        self._links.clear()

    async def patch(
        self,
        resource: Resource,
        patches: Mapping[NamespacedName, Mapping[str, Any]],
        patch_type: PatchType,
        *,
        within_seconds: float,
    ) -> dict[NamespacedName, KubeError]:
        """
        Patch objects; returns those that it failed for, and why.

        Cancelling leaves it open which were patched.
        """
        calls = {
            key: Call(
                verb="patch",
                method="PATCH",
                path=object_path(resource, key),
                body=encode_object(patch),
                content_type=patch_type.value,
            )
            for key, patch in patches.items()
        }
        return await self._send(calls, within_seconds)

    async def create(
        self, resource: Resource, bodies: Sequence[KubeObject], *, within_seconds: float
    ) -> dict[NamespacedName, KubeError]:
        """
        Create objects, by the keys in their metadata; returns those that it failed for, and why.

        An object that was made but whose answer was lost ends as AlreadyExistsError.
        """
        calls = {
            key_of(body): Call(
                verb="create",
                method="POST",
                path=collection_path(resource, key_of(body).namespace),
                body=encode_object(body),
                content_type=JSON,
            )
            for body in bodies
        }
        return await self._send(calls, within_seconds)

    async def _send(
        self, calls: Mapping[NamespacedName, Call], within_seconds: float
    ) -> dict[NamespacedName, KubeError]:
        deadline = asyncio.get_running_loop().time() + within_seconds
        keys = list(calls)
        failed: dict[NamespacedName, KubeError] = {}
        async with asyncio.TaskGroup() as group:
            for start in range(0, len(keys), MAX_TOGETHER):
                together = keys[start : start + MAX_TOGETHER]
                batch = _Batch([calls[key] for key in together], deadline)
                group.create_task(self._send_batch(batch, together, failed), name="batch")
        self._close_idle()
        return failed

    async def _send_batch(
        self,
        batch: _Batch,
        keys: Sequence[NamespacedName],
        failed: dict[NamespacedName, KubeError],
    ) -> None:
        if asyncio.get_running_loop().time() >= self._avoid_until:
            await self._send_together(batch)
        await self._send_apart(batch)
        failed |= {keys[number]: error for number, error in batch.errors.items()}

    # Together.

    async def _send_together(self, batch: _Batch) -> None:
        """Send what there is, twice if need be; what has no answer then stays waiting."""
        try:
            # Not under a deadline: an exec plugin may take longer than a call.
            connection = await self._access.connection()
            async with AsyncExitStack() as stack:
                async with asyncio.timeout_at(batch.patience):
                    await stack.enter_async_context(self._slots)
                async with asyncio.timeout_at(batch.patience) as limit:
                    await self._send_rounds(connection, batch, limit)
        except KubeError as error:
            batch.complaint = str(error)
        except OSError as error:  # TimeoutError, the limits' too, is one
            batch.complaint = describe_network_error(error)

    async def _send_rounds(
        self, connection: Connection, batch: _Batch, limit: asyncio.Timeout
    ) -> None:
        for _ in range(ROUNDS):
            await self._send_round(connection, batch, limit)
            connection = await self._renew(connection, batch)
            if not batch.waiting:
                return

    async def _send_round(
        self, connection: Connection, batch: _Batch, limit: asyncio.Timeout
    ) -> None:
        link = await self._open(connection)
        kept = False
        try:
            batch.sent_at = asyncio.get_running_loop().time()
            writer = CallWriter(connection, "Accept: application/json")
            await link.stream.write(b"".join(writer.write(batch.calls[n]) for n in batch.waiting))
            kept = await self._read_answers(link, batch, limit)
        except OSError as error:
            batch.complaint = describe_network_error(error)
        finally:
            if kept:
                link.idle_since = asyncio.get_running_loop().time()
                self._links.append(link)
            else:
                link.stream.abort()
                self._close_links()  # what broke this one may have broken them

    async def _open(self, connection: Connection) -> _Link:
        while self._links:
            link = self._links.pop()
            if link.leads_to(connection):
                return link
            link.stream.abort()
        return _Link(await open_quietly(connection), connection)

    def _close_idle(self) -> None:
        """Close what hasn't been used for some time, before something on the way does."""
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE_SECONDS
        while self._links and self._links[0].idle_since < oldest:
            self._links.pop(0).stream.abort()

    async def _read_answers(self, link: _Link, batch: _Batch, limit: asyncio.Timeout) -> bool:
        """Read until all is answered, or nothing more comes; whether the connection can be kept."""
        pending = deque(batch.waiting)
        while pending:
            if len(pending) > 1:
                await asyncio.sleep(GATHER_SECONDS)
            data = await link.stream.read()
            for event in link.parser.receive_data(data) if data else link.parser.receive_eof():
                if isinstance(event, Broken):
                    batch.complaint = event.reason
                    return False
                if not pending:
                    return False  # one too many: who knows whose they were
                self._take(batch, pending.popleft(), event)
                limit.reschedule(batch.patience)
                if event.closes:
                    batch.complaint = "the server closes the connection"
                    return False
        return True

    def _take(self, batch: _Batch, number: int, answer: Answer) -> None:
        self._transport.count(batch.calls[number].verb, answer.status)
        if 200 <= answer.status < 300:
            self._transport.recovery.note_answer()
            batch.note(number, None)
            return
        error = build_status_error(answer.status, answer.body, answer.retry_after)
        if isinstance(error, ServerError):
            self._transport.recovery.note_failure()
        batch.note(number, error)

    async def _renew(self, connection: Connection, batch: _Batch) -> Connection:
        """Find newer credentials if some were refused, and have those calls sent once more."""
        refused = [n for n, error in batch.errors.items() if isinstance(error, UnauthorizedError)]
        if refused:
            newer = await self._access.renew(connection)
            if newer is not connection:
                batch.retry(refused)
                return newer
        return connection

    # Apart.

    async def _send_apart(self, batch: _Batch) -> None:
        """Call what has no answer in the ordinary way, all at once; everything has one then."""
        apart = list(batch.waiting)
        began_at = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            for number in apart:
                group.create_task(self._call(batch, number), name="call apart")
        if batch.sent_at is None or batch.sent_at < self._avoid_until:
            return
        if not apart:
            self._failures = 0
        elif asyncio.get_running_loop().time() - began_at < ANSWER_SECONDS and not all(
            isinstance(batch.errors.get(n), UnreachableError) for n in apart
        ):
            self._avoid(f"{len(apart)} of {len(batch.calls)}", batch.complaint)

    async def _call(self, batch: _Batch, number: int) -> None:
        call = batch.calls[number]
        try:
            async with asyncio.timeout_at(batch.deadline):
                await self._transport.call(
                    call.verb,
                    call.method,
                    call.path,
                    body=call.body,
                    content_type=call.content_type,
                )
        except KubeError as error:
            batch.note(number, error)
        except TimeoutError:
            what = f"{call.method} {call.path}"
            batch.note(number, self._transport.protocol_error(what, "no answer in time"))
        else:
            batch.note(number, None)

    def _avoid(self, how_many: str, complaint: str) -> None:
        """Leave pipelining for a while, as it fails where ordinary calls don't."""
        self._failures += 1
        pause = compute_delay(
            self._failures, base_seconds=AVOID_SECONDS, max_seconds=MAX_AVOID_SECONDS
        )
        self._avoid_until = asyncio.get_running_loop().time() + pause
        logger.info(
            "API server %s: %s writes that were sent together weren't answered (%s); they are sent "
            "one by one for %.0f s",
            self._transport.server,
            how_many,
            complaint,
            pause,
        )
