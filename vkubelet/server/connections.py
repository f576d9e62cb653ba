"""The connections of one port: handshakes, strangers, caps."""

import asyncio
import contextlib
import functools
import logging
import socket
from collections.abc import Callable, Iterator
from typing import NoReturn, cast

from aiohttp import web

from vkubelet.server.policy import ServerPolicy
from vkubelet.server.strangers import Stranger, Strangers
from vkubelet.server.tls import ServingTls

logger = logging.getLogger(__name__)

KEEPALIVE_IDLE_SECONDS = 30
KEEPALIVE_INTERVAL_SECONDS = 10
KEEPALIVE_PROBES = 3
"""A peer that vanished without a word is gone for us after a minute."""

ACCEPT_RETRY_SECONDS = 1.0
"""Pause when the process has no file descriptor left."""


class StrangerGuard(asyncio.Protocol):
    """
    Stands in front of HTTP until somebody has asked for something that he has a right to.

    It counts bytes, as HTTP would take 128 header fields of 1 MiB each; all else passes through.

    Attributes:
        transport: The connection.
        settled: Set when it isn't a stranger's any more, or is gone.
    """

    def __init__(
        self,
        build_http: Callable[[], asyncio.Protocol],
        stranger: Stranger,
        strangers: Strangers,
        max_bytes: int,
    ) -> None:
        self.transport: asyncio.Transport | None = None
        self.settled = asyncio.Event()
        self._build_http = build_http
        self._http = asyncio.Protocol()
        self._stranger = stranger
        self._strangers = strangers
        self._max_bytes = max_bytes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin HTTP; who doesn't get so far costs less."""
        self.transport = cast(asyncio.Transport, transport)
        self._http = self._build_http()
        self._http.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass on what is within the caps."""
        held = self._strangers.hold(self._stranger, len(data))
        if not held or self._stranger.held_bytes > self._max_bytes:
            logger.warning("connection cut off: too much was sent before the caller was known")
            if self.transport is not None:
                self.transport.abort()
            return
        self._http.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on."""
        return self._http.eof_received()

    def pause_writing(self) -> None:
        """Pass on."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Pass on."""
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on."""
        self._settle()
        self._http.connection_lost(exc)

    def release(self) -> None:
        """Step aside: HTTP has the connection for itself."""
        if self.transport is not None:
            self.transport.set_protocol(self._http)
        self._settle()

    def _settle(self) -> None:
        self._strangers.remove(self._stranger)
        self.settled.set()


class Connections:
    """Accepts connections and keeps them within the policy's limits."""

    def __init__(self, tls: ServingTls, policy: ServerPolicy, strangers: Strangers) -> None:
        """
        Make those of one port.

        Args:
            tls: For handshakes.
            policy: The limits.
            strangers: Of all ports.
        """
        self._tls = tls
        self._policy = policy
        self._strangers = strangers
        self._busy: set[asyncio.BaseTransport] = set()
        self._full = False

    async def accept(self, listener: socket.socket, server: web.Server) -> NoReturn:
        """
        Accept connections for a server until cancelled; those of strangers end with it.

        Other tasks get a turn after each, as connections may come faster than they are accepted.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    connection, _address = await loop.sock_accept(listener)
                except OSError as error:
                    logger.warning("no connection can be accepted: %s", error)
                    await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                    continue
                if self._has_room(server):
                    self._receive(connection, server, group)
                else:
                    connection.close()
                await asyncio.sleep(0)

    def _has_room(self, server: web.Server) -> bool:
        was_full = self._full
        self._full = len(server.connections) >= self._policy.max_connections
        if self._full and not was_full:
            logger.warning("%d connections are open: more are refused", len(server.connections))
        return not self._full

    def _receive(
        self, connection: socket.socket, server: web.Server, group: asyncio.TaskGroup
    ) -> None:
        def cut_off() -> None:
            task.cancel()

        stranger = Stranger(port=self, cut_off=cut_off)
        guard = StrangerGuard(server, stranger, self._strangers, self._policy.max_head_bytes)
        task = group.create_task(self._admit(connection, guard), name="connection")
        self._strangers.add(stranger)
        task.add_done_callback(functools.partial(self._let_go, stranger))

    def _let_go(self, stranger: Stranger, _: asyncio.Task[None]) -> None:
        """Forget it, and leave no circle behind: the collector may come much later."""
        self._strangers.remove(stranger)
        stranger.cut_off = _do_nothing

    async def _admit(self, connection: socket.socket, guard: StrangerGuard) -> None:
        """Shake hands and wait for a first request of somebody who may make it."""
        loop = asyncio.get_running_loop()
        _set_keepalive(connection)
        client_ca = self._tls.client_ca
        try:
            async with asyncio.timeout(self._policy.first_request_seconds):
                await loop.connect_accepted_socket(
                    lambda: guard,
                    connection,
                    ssl=self._tls.context,
                    ssl_handshake_timeout=self._policy.handshake_seconds,
                )
                if client_ca == self._tls.client_ca:
                    await guard.settled.wait()
        except OSError as error:  # also time-outs; port scanners and rotated CAs are daily fare
            logger.debug("connection not served: %s", error)
        finally:
            if not guard.settled.is_set() and guard.transport is not None:
                guard.transport.abort()

    def welcome(self, request: web.BaseRequest) -> None:
        """Note that a connection is no stranger's."""
        protocol = request.transport.get_protocol() if request.transport else None
        if isinstance(protocol, StrangerGuard):
            protocol.release()

    @contextlib.contextmanager
    def hold(self, request: web.BaseRequest) -> Iterator[None]:
        """Keep a connection from being closed as idle."""
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client closed the connection")
        self._busy.add(transport)
        try:
            yield
        finally:
            self._busy.discard(transport)

    def close_idle(self, server: web.Server) -> None:
        """Close connections between requests: their certificates were checked by former rules."""
        for handler in server.connections:
            if handler.transport is not None and handler.transport not in self._busy:
                handler.force_close()


def _do_nothing() -> None:
    """Cut off what is gone."""


def _set_keepalive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
