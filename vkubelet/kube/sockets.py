"""Sockets that don't lose the last words of a peer."""

import socket
from collections.abc import Iterable
from typing import Any

PROBE_IDLE_SECONDS = 15
PROBE_INTERVAL_SECONDS = 5
PROBE_COUNT = 3
"""TCP keepalive: a stream ends 30 s after its peer vanished without a word."""


class PatientSocket(socket.socket):
    """
    A socket that swallows what its peer doesn't take any more.

    A server that has told how a command ended closes the connection, whatever we may be sending at
    that moment. asyncio cuts a connection as soon as a write fails, and the end that waits to be
    read is lost. Here no write fails; reading finds the peer's last words first, and then its end.
    """

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send; all counts as sent if the peer is gone."""
        try:
            return super().send(data, flags)
        except (BrokenPipeError, ConnectionResetError):
            return memoryview(data).nbytes

    def sendmsg(self, buffers: Iterable[Any], /, *args: Any) -> int:
        """See `send`."""
        parts = list(buffers)
        try:
            return super().sendmsg(parts, *args)
        except (BrokenPipeError, ConnectionResetError):
            return sum(memoryview(part).nbytes for part in parts)


def open_patient_socket(address: tuple[Any, ...]) -> socket.socket:
    """Open a `PatientSocket`; see `open_socket`."""
    family, kind, protocol, *_ = address
    return _watch_peer(PatientSocket(family, kind, protocol))


def open_socket(address: tuple[Any, ...]) -> socket.socket:
    """
    Open a socket for an address as `getaddrinfo` gives it, which finds out when its peer is gone.

    It isn't connected yet, and doesn't block.
    """
    family, kind, protocol, *_ = address
    return _watch_peer(socket.socket(family, kind, protocol))


def _watch_peer(opened: socket.socket) -> socket.socket:
    opened.setblocking(False)  # noqa: FBT003 - socket's signature
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", PROBE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", PROBE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", PROBE_COUNT),
    ):
        if hasattr(socket, option):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return opened
