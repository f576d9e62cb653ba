"""Requests to one API server: pools, time-outs, fresh credentials, 429, foreign errors."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import Counter

from vkubelet.kube.access import ClusterAccess, Connection
from vkubelet.kube.backoff import spread_out
from vkubelet.kube.calls import CallPool
from vkubelet.kube.errors import (
    ServerError,
    StatusError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
    UpgradeError,
)
from vkubelet.kube.failures import describe_network_error
from vkubelet.kube.metrics import REQUESTS
from vkubelet.kube.recovery import Recovery
from vkubelet.kube.requests import Call, without_query
from vkubelet.kube.sessions import (
    MAX_BODY_BYTES,
    open_session,
    read_body,
    read_failure,
    request_arguments,
)
from vkubelet.kube.upgrade import CLOSE_SECONDS, UpgradedConnection, open_upgrade

T = TypeVar("T")

MAX_THROTTLED_RETRIES = 10
"""As client-go: a server that still says 429 after this many waits is told of to the caller."""

PING_SECONDS = 30.0
"""WebSockets are pinged so that load balancers see traffic on an idle shell."""

NETWORK_ERRORS = (aiohttp.ClientError, HttpProcessingError, OSError, EOFError)
"""What aiohttp raises when no usable answer comes; TimeoutError and ssl.SSLError are OSErrors."""


class Transport:
    """
    Pools of connections to one API server, for reads, writes and streams; an async context manager.

    None has a limit of connections: aiohttp's default of 100 would starve watches.

    Attributes:
        recovery: Told of every answer and failure.
    """

    def __init__(self, access: ClusterAccess, *, name: str, timeout_seconds: float) -> None:
        self._access = access
        self._name = name
        self._timeout_seconds = timeout_seconds
        self._stack = AsyncExitStack()
        self._counters: dict[tuple[str, str], Counter] = {}
        self.recovery = Recovery()

    @property
    def server(self) -> str:
        """The API server's URL, for messages."""
        return self._access.server

    async def __aenter__(self) -> Self:
        self._calls = await self._stack.enter_async_context(open_session("gzip"))
        self._writes = self._stack.enter_context(CallPool())
        self._streams = await self._stack.enter_async_context(
            open_session("identity", self._refuse_failure)
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def call(
        self,
        verb: str,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "",
        retry_throttled: bool = True,
    ) -> bytes:
        """
        Send a request and read the whole answer, within the call time-out.

        A 401 is tried once more if there are newer credentials, 429 as long as the time-out lets.
        Nothing else is tried again, except for an idempotent request whose idle connection turned
        out closed.

        `verb` is for the metrics; `path` comes with its query, encoded.

        Raises:
            KubeError: For anything but a success.
        """

        async def send(connection: Connection) -> bytes:
            if body is None or connection.proxy is not None:
                status, answer = await self._exchange(connection, method, path, body, content_type)
            else:
                call = Call(
                    verb=verb, method=method, path=path, body=body, content_type=content_type
                )
                status, answer = await self._writes.send(connection, call)
            self.count(verb, status)
            return answer

        return await self._attempt(
            verb,
            f"{method} {without_query(path)}",
            send,
            self._timeout_seconds,
            retry_throttled=retry_throttled,
        )

    async def _exchange(
        self, connection: Connection, method: str, path: str, body: bytes | None, content_type: str
    ) -> tuple[int, bytes]:
        """Call by aiohttp, which knows of compression and proxies."""
        arguments = request_arguments(connection, path)
        if content_type:
            arguments["headers"]["Content-Type"] = content_type
        async with self._calls.request(
            method, data=body, allow_redirects=False, **arguments
        ) as response:
            if not 200 <= response.status < 300:
                raise await read_failure(response)
            return response.status, await read_body(response, MAX_BODY_BYTES)

    @asynccontextmanager
    async def stream(
        self, verb: str, path: str, *, open_within_seconds: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """
        GET an endless body; a failure raises before entering, leaving closes the connection.

        Without `open_within_seconds` only connecting is bounded: a log that is followed has no
        headers before its first line.

        Raises:
            KubeError: Also in place of what aiohttp raises while the body is read.
        """
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout_seconds)

        async def send(connection: Connection) -> aiohttp.ClientResponse:
            response = await self._streams.request(
                "GET", timeout=limits, **request_arguments(connection, path)
            )
            self.count(verb, response.status)
            return response

        what = f"GET {without_query(path)}"
        response = await self._attempt(verb, what, send, open_within_seconds)
        try:
            yield response
        except aiohttp.ClientConnectionResetError:
            # Reading never raises this: it comes from the place that the body is written to.
            raise
        except aiohttp.ClientError as error:
            raise self._unreachable(what, error) from error
        finally:
            response.close()

    @asynccontextmanager
    async def websocket(
        self, path: str, protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """
        Open a WebSocket; leaving sends a Close and waits a short while for the peer's.

        Left by an error or a cancellation it's cut instead: after a Close, kube-apiserver lets a
        remote command run on that has neither input nor output (tried with 1.37.2).

        Later errors are aiohttp's: `receive` gives CLOSED or ERROR, sending to a socket that is
        closed raises ClientConnectionResetError.

        Raises:
            KubeError: The server's Status if it refuses.
        """

        async def send(connection: Connection) -> aiohttp.ClientWebSocketResponse:
            try:
                accepted: aiohttp.ClientWebSocketResponse = await self._streams.ws_connect(
                    protocols=protocols,
                    timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
                    max_msg_size=0,
                    **request_arguments(connection, path),
                )
            except aiohttp.WSServerHandshakeError as error:
                raise UpgradeError(error.message) from error
            self.count("connect", 101)
            return accepted

        what = f"WebSocket {without_query(path)}"
        opened = await self._attempt("connect", what, send, self._timeout_seconds)
        if opened.protocol is None:
            await opened.close()
            raise UpgradeError(
                f"{self._server_text}: {what}: speaks none of {', '.join(protocols)}"
            )
        stack = AsyncExitStack()
        pings = await stack.enter_async_context(asyncio.TaskGroup())
        pinging = pings.create_task(_ping(opened), name=f"{self._name} WebSocket pings")
        try:
            yield opened
        except BaseException:
            opened._response.close()  # noqa: SLF001 - there is no public way to cut it
            raise
        else:
            with suppress(TimeoutError, *NETWORK_ERRORS):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await opened.close()
        finally:
            pinging.cancel()
            # Not by `async with`: the group would wrap what the body raised.
            await stack.aclose()

    @asynccontextmanager
    async def upgrade(
        self, path: str, *, upgrade: str, protocols: Sequence[str]
    ) -> AsyncIterator[UpgradedConnection]:
        """
        POST and switch protocols; leaving closes the connection, by an error or cancellation hard.

        Raises:
            KubeError: The server's Status if it refuses.
        """

        async def send(connection: Connection) -> UpgradedConnection:
            opened = await open_upgrade(connection, path, upgrade=upgrade, protocols=protocols)
            self.count("connect", 101)
            return opened

        what = f"POST {without_query(path)}"
        opened = await self._attempt("connect", what, send, self._timeout_seconds)
        try:
            yield opened
        except BaseException:
            opened.abort()
            raise
        else:
            await opened.close()

    async def _attempt(
        self,
        verb: str,
        what: str,
        send: Callable[[Connection], Awaitable[T]],
        within_seconds: float | None,
        *,
        retry_throttled: bool = True,
    ) -> T:
        # Not under the deadline: an exec plugin may take longer than a call.
        connection = await self._access.connection()
        now = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(now + within_seconds if within_seconds else None):
                answer = await self._send_until_accepted(
                    verb,
                    what,
                    send,
                    connection,
                    wait_until=now + self._timeout_seconds if retry_throttled else now,
                )
        except TimeoutError as error:
            # Those of the network are translated further in, so this is the deadline.
            self.count(verb, "error")
            self.recovery.note_failure()
            raise UnreachableError(
                f"{self._server_text}: {what}: no answer within {within_seconds:g} s"
            ) from error
        except (UnreachableError, ServerError):
            self.recovery.note_failure()
            raise
        self.recovery.note_answer()
        return answer

    async def _send_until_accepted(
        self,
        verb: str,
        what: str,
        send: Callable[[Connection], Awaitable[T]],
        connection: Connection,
        *,
        wait_until: float,
    ) -> T:
        renewed = False
        waits = 0
        while True:
            try:
                return await send(connection)
            except NETWORK_ERRORS as error:
                self.count(verb, "error")
                raise self._unreachable(what, error) from error
            except UpgradeError as error:
                self.count(verb, "error")
                raise UpgradeError(f"{self._server_text}: {what}: {error}") from error
            except UnauthorizedError as error:
                self.count(verb, error.code)
                newer = connection if renewed else await self._access.renew(connection)
                if newer is connection:
                    raise
                connection, renewed = newer, True
            except TooManyRequestsError as error:
                self.count(verb, error.code)
                waits += 1
                delay = spread_out(error.retry_after_seconds)
                again_at = asyncio.get_running_loop().time() + delay
                if waits > MAX_THROTTLED_RETRIES or again_at >= wait_until:
                    raise
                await asyncio.sleep(delay)
            except StatusError as error:
                self.count(verb, error.code)
                raise

    async def _refuse_failure(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """
        Turn a failure into an error before aiohttp looks at the answer.

        For a WebSocket it would throw the server's Status away, and it would follow a redirect to
        another host.
        """
        response = await handler(request)
        if response.status == 101 or 200 <= response.status < 300:
            return response
        try:
            async with asyncio.timeout(self._timeout_seconds):
                raise await read_failure(response)
        finally:
            response.close()

    def count(self, verb: str, code: int | str) -> None:
        """Count a request by its answer; code is "error" when none came."""
        key = (verb, str(code))
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = REQUESTS.labels(self._name, *key)
        counter.inc()

    @property
    def _server_text(self) -> str:
        return f"{self._name} API server {self._access.server}"

    def _unreachable(self, what: str, error: BaseException) -> UnreachableError:
        return UnreachableError(f"{self._server_text}: {what}: {describe_network_error(error)}")

    def protocol_error(self, what: str, why: str) -> UnreachableError:
        """Build the error for an answer that isn't what an API server sends."""
        return UnreachableError(f"{self._server_text}: {what}: {why}")


async def _ping(websocket: aiohttp.ClientWebSocketResponse) -> None:
    """
    Send pings until cancelled or the connection is gone.

    aiohttp's own heartbeat would end the session when no pong comes within seconds, and none does
    while the far side's stdin is full. A peer that is gone shows by TCP.
    """
    with suppress(*NETWORK_ERRORS):
        while not websocket.closed:
            await asyncio.sleep(PING_SECONDS)
            await websocket.ping()
