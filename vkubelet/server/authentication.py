"""Who makes a request: a client certificate or a bearer token; nobody is anonymous."""

import asyncio
import base64
import hashlib
import logging
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import KubeError
from vkubelet.kube.objects import TOKEN_REVIEWS, KubeObject
from vkubelet.server.expiring import ExpiringCache

logger = logging.getLogger(__name__)

TOKEN_CACHE_SECONDS = 120.0
"""How long the API server's word on a token holds, good or bad; the real kubelet's default."""

MAX_CACHED_TOKENS = 4096
"""Anybody can send new tokens; a cluster has a few scrapers."""

MAX_CONCURRENT_REVIEWS = 16
"""So that strangers can't make us flood the API server."""

WEBSOCKET_BEARER_PREFIX = "base64url.bearer.authorization.k8s.io."
"""Browsers can't set headers of a WebSocket's handshake, only subprotocols."""

AUTHENTICATED_GROUP = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    """Who makes a request, as the API server's reviews name it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Authenticator:
    """
    Finds out who makes a request.

    A certificate was checked in the TLS handshake. A token is checked by the API server
    (TokenReview); its answer is cached under the token's hash.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._tokens: ExpiringCache[bytes, User | _Refused] = ExpiringCache(MAX_CACHED_TOKENS)
        self._reviews = asyncio.Semaphore(MAX_CONCURRENT_REVIEWS)

    async def authenticate(self, request: web.BaseRequest) -> User | None:
        """Return who makes the request, None if that can't be told: 401."""
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport else None
        user = read_certificate(certificate) if certificate else None
        if user is not None:
            return user
        token = read_token(request)
        return await self._review(token) if token else None

    async def _review(self, token: str) -> User | None:
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        async with self._reviews:
            user = self._tokens.get(key)
            if user is None:
                try:
                    review = await self._client.create(TOKEN_REVIEWS, build_token_review(token))
                except KubeError as error:
                    logger.warning("a bearer token couldn't be reviewed: %s", error)
                    return None
                user = _read_review(review) or _REFUSED
                self._tokens.put(key, user, TOKEN_CACHE_SECONDS)
        return user if isinstance(user, User) else None


class _Refused:
    """The API server doesn't know the token."""


_REFUSED = _Refused()


def read_token(request: web.BaseRequest) -> str | None:
    """Return the bearer token of a request; browsers put it among a WebSocket's subprotocols."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme:
        return token.strip() if scheme.lower() == "bearer" else None
    if request.headers.get("Upgrade", "").lower() != "websocket":
        return None
    lines = ",".join(request.headers.getall("Sec-WebSocket-Protocol", ())).split(",")
    names = [line.strip() for line in lines]
    tokens = [name for name in names if name.startswith(WEBSOCKET_BEARER_PREFIX)]
    if len(tokens) != 1 or len(names) < 2:
        return None
    encoded = tokens[0].removeprefix(WEBSOCKET_BEARER_PREFIX)
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), b"-_", validate=True).decode()
    except ValueError:
        return None


def build_token_review(token: str) -> KubeObject:
    """Build the question whose token this is."""
    return {
        "apiVersion": TOKEN_REVIEWS.api_version,
        "kind": TOKEN_REVIEWS.kind,
        "spec": {"token": token},
    }


def _read_review(review: KubeObject) -> User | None:
    match review:
        case {"status": {"authenticated": True, "user": {"username": str(name)}}}:
            user: KubeObject = review["status"]["user"]
            extra: Mapping[str, list[str]] = user.get("extra") or {}
            return User(
                name,
                uid=user.get("uid") or "",
                groups=_with_authenticated(tuple(user.get("groups") or ())),
                extra=tuple((key, tuple(values)) for key, values in extra.items()),
            )
        case _:
            return None


def read_certificate(certificate: Mapping[str, Any]) -> User | None:
    """
    Read the user from a verified client certificate (`SSLSocket.getpeercert`): CN and each O.

    Returns:
        None without a common name, or if it has expired since the handshake.
    """
    pairs = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for key, value in pairs if key == "commonName"]
    not_after = certificate.get("notAfter")
    if not names or (not_after and ssl.cert_time_to_seconds(not_after) < time.time()):
        return None
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return User(names[-1], groups=_with_authenticated(groups))


def _with_authenticated(groups: tuple[str, ...]) -> tuple[str, ...]:
    return groups if AUTHENTICATED_GROUP in groups else (*groups, AUTHENTICATED_GROUP)
