"""Why no usable answer came from a server, in words."""

import socket
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp


def describe_network_error(error: BaseException) -> str:
    """
    Say what went wrong, without the URL: its query may hold what a user typed into exec.

    Args:
        error: What aiohttp or the operating system raised.
    """
    for kind, describe in _SENTENCES:
        if isinstance(error, kind):
            return describe(error)
    return type(error).__name__


def describe_connect_error(error: OSError) -> str:
    """Say why a server can't be connected to, in the words that are used for aiohttp's errors."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate isn't accepted: {_describe_tls(error)}"
    if isinstance(error, socket.gaierror):
        return f"its name can't be resolved: {error.strerror or error}"
    return f"can't connect: {_describe_os_error(error)}"


def _describe_os_error(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS fails: {_describe_tls(error)}"
    return error.strerror or str(error) or type(error).__name__


def _describe_tls(error: BaseException) -> str:
    # Errors that weren't raised by OpenSSL itself lack these.
    words = getattr(error, "verify_message", "") or getattr(error, "reason", "")
    return words or str(error)


# The first that fits counts, so the more special one stands first.
_SENTENCES: tuple[tuple[type[BaseException], Callable[[Any], str]], ...] = (
    (
        aiohttp.ClientConnectorCertificateError,
        lambda error: f"its certificate isn't accepted: {_describe_tls(error.certificate_error)}",
    ),
    (
        aiohttp.ClientConnectorDNSError,
        lambda error: f"its name can't be resolved: {error.os_error.strerror or error.os_error}",
    ),
    (
        aiohttp.ClientProxyConnectionError,
        lambda error: f"the proxy can't be reached: {_describe_os_error(error.os_error)}",
    ),
    (
        aiohttp.ClientConnectorError,
        lambda error: f"can't connect: {_describe_os_error(error.os_error)}",
    ),
    (
        aiohttp.ClientHttpProxyError,
        lambda error: f"the proxy answers {error.status} {error.message}",
    ),
    (
        aiohttp.ServerDisconnectedError,
        lambda _: "the connection was closed before the answer",
    ),
    (
        aiohttp.ClientResponseError,
        lambda error: f"the answer isn't proper HTTP: {error.message}",
    ),
    (
        aiohttp.ClientPayloadError,
        lambda error: f"the answer was cut short: {error}",
    ),
    (TimeoutError, lambda _: "timed out"),
    (OSError, _describe_os_error),
)
