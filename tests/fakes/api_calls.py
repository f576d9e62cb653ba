"""What the fake API server knows of a request, and the faults it can be told to answer with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from aiohttp import web

from tests.fakes.api_objects import (
    ApiFailureError,
    ApiPath,
    matches_fields,
    matches_labels,
    parse_path,
)
from vkubelet.kube.objects import KubeObject

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class ApiCall:
    """
    A request as the fake recorded it.

    Attributes:
        verb: get, list, watch, create, update, patch, apply, delete, deletecollection; or the HTTP
            method for paths that aren't a resource's.
        body: Decoded JSON, None if there was none.
        target: The path taken apart, None if it isn't a resource's.
        request: aiohttp's own, for hooks that answer with a stream or a WebSocket.
    """

    verb: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    target: ApiPath | None
    request: web.Request = field(repr=False)

    @property
    def what(self) -> str:
        """The call as matchers see it: `create pods/eviction`, `GET /version`."""
        if self.target is None:
            return f"{self.method} {self.path}"
        subresource = f"/{self.target.subresource}" if self.target.subresource else ""
        return f"{self.verb} {self.target.resource.plural}{subresource}"

    @property
    def resource(self) -> ApiPath:
        """The path taken apart; fails for paths that aren't a resource's."""
        assert self.target is not None, self.path
        return self.target

    def selects(self, body: KubeObject | None) -> bool:
        """Whether an object is in the collection that path and selectors name."""
        if body is None:
            return False
        namespace = self.resource.namespace
        return (
            namespace in {"", body["metadata"].get("namespace")}
            and matches_labels(body, self.query.get("labelSelector", ""))
            and matches_fields(body, self.query.get("fieldSelector", ""))
        )


Matcher: TypeAlias = str | Callable[[ApiCall], bool]
"""`<verb> <plural>[/<subresource>]`, either part may be `*` ("* nodes", "watch"); or a function."""


def matches(matcher: Matcher, call: ApiCall) -> bool:
    if callable(matcher):
        return matcher(call)
    wanted = (matcher if " " in matcher else f"{matcher} *").split(" ")
    found = call.what.split(" ")
    return all(part in {"*", value} for part, value in zip(wanted, found, strict=True))


@dataclass
class Fault:
    """Something that goes wrong with the next calls that match; `times` counts down."""

    matcher: Matcher
    times: int
    failure: ApiFailureError | None = None
    as_event: bool = False
    delay_seconds: float = 0.0
    drop: bool = False
    cut_body: bool = False
    answer_delay_seconds: float = 0.0
    end_at_once: bool = False


async def read_call(request: web.Request) -> ApiCall:
    data = await request.read()
    target = parse_path(request.path)
    query = dict(request.query)
    return ApiCall(
        verb=_verb(request, target, query),
        method=request.method,
        path=request.path,
        query=query,
        headers=dict(request.headers),
        body=_decode(data),
        target=target,
        request=request,
    )


def _decode(data: bytes) -> Any:
    if not data:
        return None
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None


def _verb(request: web.Request, target: ApiPath | None, query: Mapping[str, str]) -> str:
    if target is None:
        return request.method
    if request.method == "PATCH" and request.content_type == APPLY:
        return "apply"
    if request.method == "DELETE" and not target.name:
        return "deletecollection"
    if request.method in _VERBS:
        return _VERBS[request.method]
    if query.get("watch", "") in {"1", "true", "True"}:
        return "watch"
    return "get" if target.name else "list"
