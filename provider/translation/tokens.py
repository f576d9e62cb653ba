"""
Volumes that hold tokens for the home API server, and what becomes of them.

Under `--api-access none` and `remote` no token of home travels; under `home` each is asked for on
behalf of the pod and delivered in a Secret, which takes the place of the token in its volume.
"""

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from vkubelet.kube.objects import KubeObject

TOKEN_KEY = "token"  # noqa: S105 - the key, no secret
"""Key of the token in the Secret that delivers it."""

DEFAULT_EXPIRATION_SECONDS = 3600

_INJECTED_PREFIX = "kube-api-access-"
"""Admission adds such a volume to every pod; nobody asked for it."""

_ROOT_CERTIFICATE = "kube-root-ca.crt"
"""It verifies the server that the token is for, and goes with it."""

_INCIDENTAL = frozenset({"downwardAPI", "serviceAccountToken"})
"""Sources that alone are no reason to keep a token volume."""


class ApiAccess(enum.StrEnum):
    """
    Which API server reflected pods can reach with their service account.

    Attributes:
        NONE: None; nothing of home's credentials leaves it.
        HOME: Home's, by tokens that are bound to the home pod.
        REMOTE: The remote cluster's, by its own service account of that name.
    """

    NONE = "none"
    HOME = "home"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True)
class TokenSource:
    """
    A place in a pod where a token is wanted.

    Attributes:
        volume: The volume.
        index: Which of its sources.
        audience: Who is to accept the token; "" for the API server.
        expiration_seconds: The life that is asked for.
    """

    volume: str
    index: int
    audience: str
    expiration_seconds: int


def is_token_volume(volume: KubeObject) -> bool:
    """Whether a token for the API server is projected into the volume."""
    return any(source.get("serviceAccountToken") is not None for source in _sources(volume))


def is_injected(volume: KubeObject) -> bool:
    """Whether the API server added the token volume itself."""
    return str(volume.get("name", "")).startswith(_INJECTED_PREFIX)


def find_token_sources(spec: KubeObject) -> Iterator[TokenSource]:
    """Yield the tokens that a pod wants."""
    for volume in spec.get("volumes") or []:
        for index, source in enumerate(_sources(volume)):
            token: KubeObject | None = source.get("serviceAccountToken")
            if token is not None:
                yield TokenSource(
                    volume=str(volume.get("name", "")),
                    index=index,
                    audience=token.get("audience") or "",
                    expiration_seconds=token.get("expirationSeconds") or DEFAULT_EXPIRATION_SECONDS,
                )


def travelling_volumes(spec: KubeObject, access: ApiAccess) -> list[KubeObject]:
    """
    Return the pod's volumes that travel, as they are but for tokens that don't.

    Under `remote` an injected volume is left out, as the remote API server injects its own, and
    others travel: their tokens are made over there.
    """
    volumes: list[KubeObject] = spec.get("volumes") or []
    match access:
        case ApiAccess.HOME:
            return volumes
        case ApiAccess.REMOTE:
            return [item for item in volumes if not (is_token_volume(item) and is_injected(item))]
        case ApiAccess.NONE:
            kept = (_without_tokens(item) if is_token_volume(item) else item for item in volumes)
            return [item for item in kept if item is not None]


def deliver_tokens(volume: KubeObject, secret_name: Callable[[str, int], str]) -> KubeObject:
    """Return a volume in which Secrets take the place of tokens, by volume and source."""
    if not is_token_volume(volume):
        return volume
    name = str(volume.get("name", ""))
    sources = [
        _deliver(source, secret_name(name, index)) if "serviceAccountToken" in source else source
        for index, source in enumerate(_sources(volume))
    ]
    return {**volume, "projected": {**volume["projected"], "sources": sources}}


def is_root_certificate(source: KubeObject) -> bool:
    """Whether a projected source is the certificate of the API server that the token is for."""
    return (source.get("configMap") or {}).get("name") == _ROOT_CERTIFICATE


def _deliver(source: KubeObject, secret: str) -> KubeObject:
    token: KubeObject = source["serviceAccountToken"]
    item = {"key": TOKEN_KEY, "path": token.get("path") or TOKEN_KEY}
    if token.get("user") is not None:
        item["user"] = token["user"]  # who owns the file
    return {"secret": {"name": secret, "items": [item]}}


def _without_tokens(volume: KubeObject) -> KubeObject | None:
    """Return a token volume without its tokens, None if nothing is left that anybody wants."""
    if is_injected(volume):
        return None
    sources = [
        source
        for source in _sources(volume)
        if source.get("serviceAccountToken") is None and not is_root_certificate(source)
    ]
    if all(source.keys() <= _INCIDENTAL for source in sources):
        return None
    return {**volume, "projected": {**volume["projected"], "sources": sources}}


def _sources(volume: KubeObject) -> list[dict[str, Any]]:
    return (volume.get("projected") or {}).get("sources") or []
