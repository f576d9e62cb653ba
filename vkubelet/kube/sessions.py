"""HTTP sessions with an API server: their pool, headers and sockets."""

import aiohttp

from vkubelet import __version__
from vkubelet.kube.sockets import open_patient_socket

KEEP_ALIVE_SECONDS = 30.0
"""Idle connections go before a server (90 s) or load balancer (60 s) cuts them under a request."""


def open_session(
    encoding: str, *middlewares: aiohttp.ClientMiddlewareType
) -> aiohttp.ClientSession:
    """
    Open a session whose connections have no limit: aiohttp's default of 100 would starve watches.

    Args:
        encoding: What answers may be compressed by.
        middlewares: See their answers first.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS, socket_factory=open_patient_socket
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={
            "User-Agent": f"vkubelet/{__version__}",
            "Accept": "application/json, */*",
            "Accept-Encoding": encoding,
        },
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
        middlewares=middlewares,
    )
