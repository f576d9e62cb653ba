"""HTTP sessions with an API server: their pool, headers and sockets."""

from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from vkubelet import __version__
from vkubelet.kube.access import Connection
from vkubelet.kube.errors import StatusError
from vkubelet.kube.sockets import open_patient_socket
from vkubelet.kube.statuses import build_status_error, refuse_redirect

KEEP_ALIVE_SECONDS = 30.0
"""Idle connections go before a server (90 s) or load balancer (60 s) cuts them under a request."""

MAX_BODY_BYTES = 512 * 1024 * 1024
"""A page of 500 large objects is some 100 MiB; a broken server may send for ever."""

MAX_FAILURE_BYTES = 1024 * 1024
"""A Status is some hundred bytes; a proxy's error page some KiB."""


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


def request_arguments(connection: Connection, path: str) -> dict[str, Any]:
    """Build what aiohttp is given for a request; the path comes with its query, encoded."""
    return {
        "url": URL(connection.server + path, encoded=True),
        "headers": CIMultiDict(connection.headers),
        "ssl": connection.ssl,
        "server_hostname": connection.server_hostname,
        "proxy": connection.proxy,
    }


async def read_failure(response: aiohttp.ClientResponse) -> StatusError:
    """
    Read the answer to a request that failed.

    Raises:
        ClientError: If it can't be read.
    """
    if 300 <= response.status < 400:
        return refuse_redirect(response.status)
    body = await read_body(response, MAX_FAILURE_BYTES)
    return build_status_error(response.status, body, response.headers.get("Retry-After", ""))


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """
    Read an answer's body, of at most `limit` bytes.

    Raises:
        ClientError: If it can't be read, or is larger.
    """
    chunks = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > limit:
            response.close()
            raise aiohttp.ClientPayloadError(f"the answer is larger than {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
