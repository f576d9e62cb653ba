"""Writes, one at a time over kept connections: a fraction of what they cost through aiohttp."""

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from vkubelet.kube.access import Connection
from vkubelet.kube.answers import Answer, AnswerParser, Broken, Event
from vkubelet.kube.dialing import CallWriter
from vkubelet.kube.failures import describe_connect_error
from vkubelet.kube.quiet import QuietConnection, open_quietly
from vkubelet.kube.requests import Call
from vkubelet.kube.sessions import KEEP_ALIVE_SECONDS
from vkubelet.kube.statuses import build_status_error, refuse_redirect

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""A write is answered by its object, of which etcd takes 1.5 MiB; JSON may escape each byte."""

_IDEMPOTENT_METHODS = frozenset({"PUT", "DELETE"})
"""Writes that may be done twice (RFC 9110, section 9.2.2)."""

_ACCEPT = ("Accept: application/json", "Accept-Encoding: identity")
"""Answers as they are: compressing some KiB takes both sides longer than sending them."""


class _Link:
    """
    A connection that serves one call at a time.

    Attributes:
        idle_since: When it was last used, by the loop's clock.
        usable: Whether another call may go over it.
        silent: Whether nothing has come since the last call was sent.
    """

    def __init__(self, stream: QuietConnection, connection: Connection) -> None:
        self.connection = connection
        self.idle_since = 0.0
        self.usable = True
        self.silent = True
        self._stream = stream
        self._parser = AnswerParser(MAX_ANSWER_BYTES)
        self._answer: asyncio.Future[Answer] | None = None
        stream.listen(self._receive, self._end)

    async def exchange(self, request: bytes) -> Answer:
        """
        Send a request and wait for its answer.

        Raises:
            OSError: If none comes.
        """
        self.silent = True
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self._stream.send(request)
            return await self._answer
        finally:
            self._answer = None  # an idle connection holds no body

    def abort(self) -> None:
        """Cut it."""
        self.usable = False
        self._stream.abort()

    def _receive(self, data: bytes) -> None:
        self.silent = False
        for event in self._parser.receive_data(data):
            self._settle(event)

    def _end(self, error: BaseException | None) -> None:
        self.usable = False
        if error is not None:
            self._fail(error)
        for event in self._parser.receive_eof():
            self._settle(event)

    def _settle(self, event: Event) -> None:
        answer = self._answer
        if isinstance(event, Broken):
            self.usable = False
            self._fail(ConnectionError(event.reason))
        elif answer is None or answer.done():
            self.usable = False  # nobody asked: who knows whose it is
        else:
            self.usable = self.usable and not event.closes
            answer.set_result(event)

    def _fail(self, error: BaseException) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


class CallPool:
    """
    Connections to an API server that are kept between calls; a context manager.

    There are as many as calls at once. Proxies aren't used.
    """

    def __init__(self) -> None:
        self._idle: deque[_Link] = deque()  # the one used last at the end
        self._closing: asyncio.TimerHandle | None = None
        self._closed = False
        self._writer: tuple[Connection, CallWriter] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        if self._closing is not None:
            self._closing.cancel()
        while self._idle:
            self._idle.pop().abort()

    async def send(self, connection: Connection, call: Call) -> tuple[int, bytes]:
        """
        Send a call, and return its answer's status and body.

        An idempotent one is sent once more if its idle connection turns out closed.

        Raises:
            StatusError: If the server refuses.
            OSError: If no usable answer comes.
        """
        answer = await self._exchange(connection, call)
        if 200 <= answer.status < 300:
            return answer.status, answer.body
        if 300 <= answer.status < 400:
            raise refuse_redirect(answer.status)
        raise build_status_error(answer.status, answer.body, answer.retry_after)

    async def _exchange(self, connection: Connection, call: Call) -> Answer:
        request = self._writer_for(connection).write(call)
        link = self._take_idle(connection)
        if link is not None:
            try:
                return await self._use(link, request)
            except OSError:
                if not link.silent or call.method not in _IDEMPOTENT_METHODS:
                    raise
        return await self._use(await _open(connection), request)

    async def _use(self, link: _Link, request: bytes) -> Answer:
        kept = False
        try:
            answer = await link.exchange(request)
            kept = link.usable and not self._closed
            return answer
        finally:
            if kept:
                self._keep(link)
            else:
                link.abort()

    def _keep(self, link: _Link) -> None:
        loop = asyncio.get_running_loop()
        link.idle_since = loop.time()
        self._idle.append(link)
        if self._closing is None:
            self._closing = loop.call_later(KEEP_ALIVE_SECONDS, self._close_idle)

    def _take_idle(self, connection: Connection) -> _Link | None:
        while self._idle:
            link = self._idle.pop()
            if link.usable and link.connection.leads_to_same(connection):
                return link
            link.abort()
        return None

    def _close_idle(self) -> None:
        """Close what hasn't been used for some time, before something on the way does."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - KEEP_ALIVE_SECONDS
        while self._idle and self._idle[0].idle_since <= oldest:
            self._idle.popleft().abort()
        self._closing = None
        if self._idle:
            due = self._idle[0].idle_since + KEEP_ALIVE_SECONDS
            self._closing = loop.call_at(due, self._close_idle)

    def _writer_for(self, connection: Connection) -> CallWriter:
        if self._writer is None or self._writer[0] is not connection:
            self._writer = connection, CallWriter(connection, *_ACCEPT)
        return self._writer[1]


async def _open(connection: Connection) -> _Link:
    try:
        stream = await open_quietly(connection, patient=True)
    except OSError as error:
        raise ConnectionError(describe_connect_error(error)) from error
    return _Link(stream, connection)
