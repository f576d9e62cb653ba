"""One mock API server: what clients of a cluster ask, answered from memory."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tests.bench.mock.http import Connection, Request, build_answer
from tests.bench.mock.store import Body, Collection, Key, Selector, Stored, Watcher
from tests.fakes.api_objects import (
    ApiFailureError,
    ApiPath,
    json_patch,
    merge_patch,
    parse_path,
    strategic_merge,
)
from vkubelet.kube.objects import NAMESPACES, PODS, Resource

BOOKMARK_SECONDS = 30.0

MANAGED_FIELDS: list[Body] = [
    {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {f"f:field-{number}": {} for number in range(40)}},
    }
    for manager in ("vkubelet", "kubelet")
]
"""Some 1.8 KiB, as on a pod that was made by one client and is kept by a kubelet."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_REVIEWS = {
    "selfsubjectaccessreviews": {"allowed": True},
    "subjectaccessreviews": {"allowed": True},
    "tokenreviews": {"authenticated": True, "user": {"username": "bench"}},
}


class RefusedError(Exception):
    """Becomes a Status."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


Hook = Callable[[Key, Body, bool], None]
"""Called with a pod that was created (True) or changed (False) by a client."""


class MockApi:
    """
    A cluster's API; `handle` takes requests.

    Attributes:
        counts: Requests by verb and resource, watches and Leases among them.
        extra: Answers to paths that no API server has.
        on_pod: Hears of pods.
        on_delete: Decides on the deletion of a pod: whether it's gone at once.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.extra: dict[str, Callable[[Request], Body]] = {}
        self.on_pod: Hook = lambda _key, _body, _created: None
        self.on_delete: Callable[[Key, Body, int | None], bool] = lambda _key, _body, _grace: True
        self._version = 1000
        self._collections: dict[tuple[str, str], Collection] = {}

    def connect(self) -> Connection:
        """Build the protocol of a connection."""
        return Connection(self.handle)

    def collection(self, resource: Resource) -> Collection:
        """The objects of a resource."""
        found = self._collections.get((resource.group, resource.plural))
        if found is None:
            found = Collection(resource.api_version, resource.kind, self._next_version)
            self._collections[resource.group, resource.plural] = found
        return found

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    async def send_bookmarks(self) -> None:
        """Tell all watches from time to time how far they are."""
        while True:
            await asyncio.sleep(BOOKMARK_SECONDS)
            for collection in self._collections.values():
                for watcher in collection.watchers:
                    collection.send_bookmark(watcher, self._version)

    def handle(self, request: Request, connection: Connection) -> bytes | None:
        """Answer a request; None: it's a watch."""
        extra = self.extra.get(request.path)
        if extra is not None:
            return build_answer(200, _encode(extra(request)))
        if request.path in ("/readyz", "/livez"):
            return build_answer(200, b"ok")
        try:
            return self._answer(request, connection)
        except RefusedError as error:
            self.counts[f"refused {error.code}"] += 1
            status = {"kind": "Status", "code": error.code, "reason": error.reason, "message": ""}
            return build_answer(error.code, _encode(status))

    def _answer(self, request: Request, connection: Connection) -> bytes | None:
        path = parse_path(request.path)
        if path is None:
            raise RefusedError(404, "NotFound")
        if request.method != "GET":
            return self._write(request, path)
        if not path.name:
            return self._list_or_watch(request, connection, path.resource, path.namespace)
        self._count("get", path.resource, "")
        found = self._find(self.collection(path.resource), (path.namespace, path.name))
        return build_answer(200, found.raw)

    def _write(self, request: Request, path: ApiPath) -> bytes:
        resource, key = path.resource, (path.namespace, path.name)
        body = _decode(request.body) if request.body else {}
        if request.method == "DELETE":
            self._count("delete", resource, "")
            return build_answer(200, self._delete(resource, key, body))
        if request.method != "POST":
            self._count("patch", resource, path.subresource)
            return build_answer(200, self._change(request, resource, key, path.subresource, body))
        self._count("create", resource, path.subresource)
        if resource.plural in _REVIEWS:
            return build_answer(201, _encode({**body, "status": _REVIEWS[resource.plural]}))
        if path.subresource:
            return build_answer(201, _encode(self._create_beside(path.subresource, body)))
        key = (path.namespace, body["metadata"]["name"])
        return build_answer(201, self._create(resource, key, body))

    def _count(self, verb: str, resource: Resource, subresource: str) -> None:
        name = f"{resource.plural}/{subresource}" if subresource else resource.plural
        self.counts[f"{verb} {name}"] += 1

    def _find(self, collection: Collection, key: Key) -> Stored:
        stored = collection.objects.get(key)
        if stored is None:
            raise RefusedError(404, "NotFound")
        return stored

    def _list_or_watch(
        self, request: Request, connection: Connection, resource: Resource, namespace: str
    ) -> bytes | None:
        query = request.query
        selector = Selector(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        collection = self.collection(resource)
        if query.get("watch") == "true":
            self._count("watch", resource, "")
            watcher = Watcher(connection, namespace, selector)
            initial = query.get("sendInitialEvents") == "true"
            collection.watch(watcher, initial=initial, version=self._version)
            return None
        self._count("list", resource, "")
        items = b",".join(stored.raw for _, stored in collection.select(namespace, selector))
        body = (
            b'{"apiVersion":"%b","kind":"%bList","metadata":{"resourceVersion":"%d"},"items":[%b]}'
            % (resource.api_version.encode(), resource.kind.encode(), self._version, items)
        )
        return build_answer(200, body)

    def _create(self, resource: Resource, key: Key, body: Body) -> bytes:
        collection = self.collection(resource)
        if key in collection.objects:
            raise RefusedError(409, "AlreadyExists")
        if resource.namespaced and ("", key[0]) not in self.collection(NAMESPACES).objects:
            raise RefusedError(404, "NotFound")
        body["metadata"]["namespace"] = key[0]
        if not key[0]:
            del body["metadata"]["namespace"]
        if resource is PODS:
            body["status"] = {"phase": "Pending", "qosClass": "Burstable"}
            body["metadata"]["managedFields"] = MANAGED_FIELDS
        if resource is NAMESPACES:
            body["status"] = {"phase": "Active"}
        stored = collection.put(key, body)
        if resource is PODS:
            self.on_pod(key, stored.body, True)
        return stored.raw

    def _create_beside(self, subresource: str, body: Body) -> Body:
        if subresource != "token":
            raise RefusedError(404, "NotFound")
        ends = datetime.now(UTC) + timedelta(seconds=body["spec"]["expirationSeconds"])
        expiry = ends.strftime("%Y-%m-%dT%H:%M:%SZ")
        return {**body, "status": {"token": "x" * 900, "expirationTimestamp": expiry}}

    def _change(
        self, request: Request, resource: Resource, key: Key, subresource: str, change: Any
    ) -> bytes:
        collection = self.collection(resource)
        stored = collection.objects.get(key)
        if stored is None:
            if request.content_type != "application/apply-patch+yaml":
                raise RefusedError(404, "NotFound")
            return self._create(resource, key, change)
        old = stored.body
        self._check(old, change)
        match request.content_type:
            case "application/json-patch+json":
                body = _patch_json(old, change)
            case "application/merge-patch+json":
                body = merge_patch(old, change)
            case "application/json":
                body = change
            case _:
                body = strategic_merge(old, change)
        if subresource == "status":
            body = {**old, "status": body["status"]}
        body["metadata"] = {**old["metadata"], **body["metadata"]}
        changed = collection.put(key, body)
        if resource is PODS:
            self.on_pod(key, changed.body, False)
        return changed.raw

    def _check(self, old: Body, change: Any) -> None:
        metadata = change.get("metadata", {}) if isinstance(change, dict) else {}
        for field in ("uid", "resourceVersion"):
            if metadata.get(field) not in (None, old["metadata"][field]):
                raise RefusedError(409, "Conflict")

    def _delete(self, resource: Resource, key: Key, options: Body) -> bytes:
        collection = self.collection(resource)
        old = self._find(collection, key).body
        self._check(old, {"metadata": options.get("preconditions", {})})
        if resource is PODS:
            grace = options.get("gracePeriodSeconds")
            if not self.on_delete(key, old, grace):
                return self.mark_deleted(key, grace)
        return collection.remove(key).raw

    def mark_deleted(self, key: Key, grace_seconds: int | None) -> bytes:
        """Have a pod's deletion asked for."""
        collection = self.collection(PODS)
        old = collection.objects[key].body
        grace = 30 if grace_seconds is None else grace_seconds
        metadata = {
            **old["metadata"],
            "deletionTimestamp": "2099-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": grace,
        }
        return collection.put(key, {**old, "metadata": metadata}).raw


def _patch_json(old: Body, operations: list[Body]) -> Body:
    try:
        patched: Body = json_patch(old, operations)
    except ApiFailureError as error:
        raise RefusedError(error.code, error.reason) from error
    return patched
