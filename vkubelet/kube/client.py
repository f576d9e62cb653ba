"""A client to one Kubernetes API server: verbs in, raw JSON out, errors as one tree."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
import msgspec

from vkubelet.kube.access import ClusterAccess
from vkubelet.kube.errors import GoneError
from vkubelet.kube.objects import (
    KubeObject,
    NamespacedName,
    Resource,
    decode_object,
    encode_object,
)
from vkubelet.kube.pipeline import Pipeline
from vkubelet.kube.requests import (
    APPLY,
    JSON,
    PatchType,
    collection_path,
    key_of,
    object_path,
    quote_path,
    with_pairs,
    with_query,
    without_query,
)
from vkubelet.kube.transport import Transport
from vkubelet.kube.upgrade import UpgradedConnection
from vkubelet.kube.watching import StreamError, WatchEvent, parse_event, split_lines

T = TypeVar("T")

__all__ = ["KubeClient", "ObjectPage", "PatchType", "WatchEvent"]


class ObjectPage(msgspec.Struct, frozen=True):
    """
    A page of a list: the items' bytes, the list's resourceVersion and the next continue token.

    The items are whole objects: apiVersion and kind, which the server leaves out in lists, are put
    in.
    """

    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str


class _ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, frozen=True):
    # Without a default: an answer without items is no list, and must not count as an empty one.
    items: list[msgspec.Raw] | None
    metadata: _ListMetadata


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


_decode_list = msgspec.json.Decoder(_List).decode
_decode_kind = msgspec.json.Decoder(_Kind).decode


class KubeClient:
    """
    One session to one cluster; use it as an async context manager.

    Calls have a total time-out, streams (watch, log, WebSocket) have none and a pool of their own.
    429 is obeyed (Retry-After) and retried a bounded number of times inside a call. All methods
    raise `KubeError`; a key without a name, or without the namespace it needs, is our own mistake
    and a ValueError.

    Attributes:
        name: "home" or "remote", for messages and metrics.
    """

    def __init__(
        self, access: ClusterAccess, *, name: str, request_timeout_seconds: float = 30.0
    ) -> None:
        self.name = name
        self._access = access
        self._request_timeout_seconds = request_timeout_seconds
        self._transport = Transport(access, name=name, timeout_seconds=request_timeout_seconds)

    @property
    def server(self) -> str:
        """The API server's URL, for messages."""
        return self._transport.server

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def get(
        self, resource: Resource, key: NamespacedName, *, subresource: str = ""
    ) -> KubeObject:
        """Read an object."""
        path = object_path(resource, key, subresource)
        return self._decode(decode_object, await self._transport.call("get", "GET", path), path)

    async def list_page(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
    ) -> ObjectPage:
        """Read one page of a collection."""
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit),
            "continue": continue_token,
            "resourceVersion": resource_version,
        }
        path = with_query(quote_path(resource.path(namespace)), query)
        answer = await self._transport.call("list", "GET", path)
        return self._decode(lambda body: _parse_page(body, resource), answer, path)

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[KubeObject]:
        """
        Read a whole collection, page by page.

        A continue token that is too old makes it start afresh, once.
        """
        restarted = False
        items: list[KubeObject] = []
        token = ""
        while True:
            try:
                page = await self.list_page(
                    resource,
                    namespace=namespace,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    continue_token=token,
                )
            except GoneError:
                if restarted or not token:
                    raise
                restarted, items, token = True, [], ""
                continue
            items += [decode_object(item) for item in page.items]
            token = page.continue_token
            if not token:
                return items

    async def watch(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        send_initial_events: bool = False,
        timeout_seconds: int = 300,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """
        Watch a collection, bookmarks allowed; ends when the server ends the stream.

        `on_open` is called once the server has let the watch in: the first event may be a minute
        away. Leave it by `contextlib.aclosing`, so that the connection is closed at once.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
        }
        if send_initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        path = with_query(quote_path(resource.path(namespace)), query)
        async with self._transport.stream(
            "watch", path, open_within_seconds=self._request_timeout_seconds
        ) as response:
            if on_open is not None:
                on_open()
            try:
                async for line in split_lines(response.content.iter_any()):
                    yield parse_event(line)
            except StreamError as error:
                raise self._transport.protocol_error(f"watch of {path}", str(error)) from error

    async def create(
        self,
        resource: Resource,
        body: KubeObject,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
    ) -> KubeObject:
        """
        Create an object, or with name and subresource POST to it: eviction, token, binding.

        Without a namespace that of the body's metadata is taken. An eviction's 429 tells of a
        budget that is used up, not of a busy server, and is raised at once.
        """
        namespace = namespace or body.get("metadata", {}).get("namespace", "")
        path = collection_path(resource, namespace, name, subresource)
        answer = await self._transport.call(
            "create",
            "POST",
            path,
            body=encode_object(body),
            content_type=JSON,
            retry_throttled=subresource != "eviction",
        )
        return self._decode(decode_object, answer, path)

    async def replace(
        self, resource: Resource, body: KubeObject, *, subresource: str = ""
    ) -> KubeObject:
        """PUT an object; its metadata.resourceVersion is the precondition."""
        path = object_path(resource, key_of(body), subresource)
        return await self._write("update", "PUT", path, body, JSON)

    async def apply(
        self,
        resource: Resource,
        body: KubeObject,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
    ) -> KubeObject:
        """Server-side apply; the key comes from the body's metadata."""
        query = {"fieldManager": field_manager, "force": "true" if force else ""}
        path = with_query(object_path(resource, key_of(body), subresource), query)
        return await self._write("apply", "PATCH", path, body, APPLY)

    async def patch(
        self,
        resource: Resource,
        key: NamespacedName,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        patch_type: PatchType,
        *,
        subresource: str = "",
    ) -> KubeObject:
        """Patch an object or subresource."""
        path = object_path(resource, key, subresource)
        return await self._write("patch", "PATCH", path, patch, patch_type.value)

    async def delete(
        self,
        resource: Resource,
        key: NamespacedName,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
    ) -> None:
        """Delete an object; uid and resource_version are preconditions, else ConflictError."""
        options: KubeObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if given := {name: value for name, value in preconditions.items() if value}:
            options["preconditions"] = given
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if propagation_policy:
            options["propagationPolicy"] = propagation_policy
        await self._transport.call(
            "delete",
            "DELETE",
            object_path(resource, key, ""),
            body=encode_object(options),
            content_type=JSON,
        )

    def open_pipeline(self) -> Pipeline:
        """Give a connection for many small writes in one go; an async context manager."""
        return Pipeline(self._access, self._transport)

    async def get_bytes(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """GET any path (`/livez`, `/version`), with the call time-out."""
        return await self._transport.call("get", "GET", with_query(quote_path(path), query or {}))

    async def wait_recovered(self) -> None:
        """Wait until the server answers again after a call that failed by no fault of the call."""
        await self._transport.recovery.wait()

    def stream(
        self, path: str, query: Sequence[tuple[str, str]] = ()
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """GET a path as an endless body (logs); a failure status raises before entering."""
        return self._transport.stream("stream", with_pairs(path, query))

    def connect_websocket(
        self, path: str, query: Sequence[tuple[str, str]], *, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket to a subresource (exec …); a refusal raises the server's Status."""
        return self._transport.websocket(with_pairs(path, query), protocols)

    def connect_spdy(
        self, path: str, query: Sequence[tuple[str, str]], *, protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[UpgradedConnection]:
        """Open a SPDY/3.1 connection to a subresource; a refusal raises the server's Status."""
        return self._transport.upgrade(
            with_pairs(path, query), upgrade="SPDY/3.1", protocols=protocols
        )

    async def _write(
        self, verb: str, method: str, path: str, body: object, content_type: str
    ) -> KubeObject:
        answer = await self._transport.call(
            verb, method, path, body=encode_object(body), content_type=content_type
        )
        return self._decode(decode_object, answer, path)

    def _decode(self, decode: Callable[[bytes], T], answer: bytes, path: str) -> T:
        try:
            return decode(answer)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise self._transport.protocol_error(
                without_query(path), f"the answer isn't what an API server sends: {error}"
            ) from error


def _parse_page(body: bytes, resource: Resource) -> ObjectPage:
    page = _decode_list(body)
    header = encode_object({"apiVersion": resource.api_version, "kind": resource.kind})[:-1] + b","
    return ObjectPage(
        items=[_whole_object(bytes(item), header) for item in page.items or ()],
        resource_version=page.metadata.resource_version,
        continue_token=page.metadata.continue_token,
    )


def _whole_object(item: bytes, header: bytes) -> msgspec.Raw:
    """Put apiVersion and kind into an item of a list; the copy lets go of the rest of the page."""
    return msgspec.Raw(item if _decode_kind(item).kind else header + item[1:])
