"""The state behind the fake API server: objects, versions, and the history that watches read."""

import copy
import datetime
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.fakes.api_objects import (
    WITHOUT_GENERATION,
    WITHOUT_STATUS,
    ApiFailureError,
    ApiPath,
    json_patch,
    merge_patch,
    prune,
    strategic_merge,
)
from vkubelet.kube.objects import KubeObject, NamespacedName, Resource

_SYSTEM_METADATA = (
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


@dataclass(frozen=True)
class Change:
    """An entry of the history."""

    version: int
    plural: tuple[str, str]
    before: KubeObject | None
    after: KubeObject | None
    """None: deleted; `before` then has the version of the deletion."""


def now_text(*, after_seconds: int = 0) -> str:
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=after_seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def key_of(body: KubeObject) -> NamespacedName:
    return NamespacedName(body["metadata"].get("namespace", ""), body["metadata"]["name"])


def _qualified(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


class ApiState:
    """All objects, under one resourceVersion counter as in etcd; what is stored isn't mutated."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self.version = 100
        self.expired_before = 0
        self.history: list[Change] = []
        self._objects: dict[tuple[str, str], dict[NamespacedName, KubeObject]] = {}
        self._applied: dict[tuple[tuple[str, str], NamespacedName, str], KubeObject] = {}

    def collection(self, resource: Resource) -> dict[NamespacedName, KubeObject]:
        return self._objects.setdefault((resource.group, resource.plural), {})

    def objects(self, resource: Resource, namespace: str = "") -> list[KubeObject]:
        objects = sorted(self.collection(resource).items())
        return [body for key, body in objects if namespace in {"", key.namespace}]

    def expire_history(self) -> None:
        """Let a watch from any older version be Gone; open ones go on."""
        self.version += 1
        self.expired_before = self.version

    def rebuild(self) -> None:
        """Forget everything; versions start low again, as in a new etcd."""
        self.version, self.expired_before = 1, 0
        self.history.clear()
        self._objects.clear()
        self._applied.clear()

    def read(self, resource: Resource, key: NamespacedName) -> KubeObject:
        found = self.collection(resource).get(key)
        if found is None:
            raise ApiFailureError(
                404,
                "NotFound",
                f'{_qualified(resource)} "{key.name}" not found',
                details={"name": key.name, "group": resource.group, "kind": resource.plural},
            )
        return found

    def create(self, path: ApiPath, body: KubeObject) -> KubeObject:
        resource = path.resource
        created = copy.deepcopy(body)
        metadata = created.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        _check_body(path, created)
        key = key_of(created)
        if key in self.collection(resource):
            raise ApiFailureError(
                409,
                "AlreadyExists",
                f'{_qualified(resource)} "{key.name}" already exists',
                details={"name": key.name, "group": resource.group, "kind": resource.plural},
            )
        if metadata.get("resourceVersion"):
            raise ApiFailureError(
                400, "BadRequest", "resourceVersion should not be set on objects to be created"
            )
        if resource.plural == "pods":
            created["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
        return self.put(resource, created)

    def put(self, resource: Resource, body: KubeObject) -> KubeObject:
        """Store an object as it is, with the system's metadata filled in."""
        stored = copy.deepcopy(body)
        metadata = stored["metadata"]
        before = self.collection(resource).get(key_of(stored))
        known = before["metadata"] if before is not None else {}
        metadata.setdefault("uid", known.get("uid") or str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", known.get("creationTimestamp") or now_text())
        if "spec" in stored and resource.plural not in WITHOUT_GENERATION:
            metadata.setdefault("generation", known.get("generation", 1))
        return self._store(resource, before, stored)

    def update(self, path: ApiPath, body: KubeObject) -> KubeObject:
        """What a PUT or the result of a patch does: subresources kept apart, versions checked."""
        _check_body(path, body)
        resource, key = path.resource, key_of(body)
        before = self.read(resource, key)
        wanted = body["metadata"].get("resourceVersion")
        uid = body["metadata"].get("uid")
        if (wanted and wanted != before["metadata"]["resourceVersion"]) or (
            uid and uid != before["metadata"]["uid"]
        ):
            raise ApiFailureError(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {_qualified(resource)} "{key.name}": the object '
                "has been modified; please apply your changes to the latest version and try again",
            )
        after = copy.deepcopy(body)
        if path.subresource in {"status", "approval"}:
            after = {**before, "metadata": after["metadata"], "status": after.get("status", {})}
        elif resource.plural not in WITHOUT_STATUS and "status" in {**before, **after}:
            after["status"] = before.get("status", {})
        metadata = after["metadata"]
        for name in _SYSTEM_METADATA:
            metadata.pop(name, None)
            if name in before["metadata"]:
                metadata[name] = before["metadata"][name]
        if after == before:
            return before
        if after.get("spec") != before.get("spec") and "generation" in metadata:
            metadata["generation"] += path.subresource != "binding"
        ends = metadata.get("deletionGracePeriodSeconds") == 0 and not metadata.get("finalizers")
        if "deletionTimestamp" in metadata and ends:
            return self._remove(resource, after)
        return self._store(resource, before, after)

    def patch(self, path: ApiPath, content_type: str, patch: Any) -> KubeObject:
        before = self.read(path.resource, NamespacedName(path.namespace, path.name))
        match content_type:
            case "application/json-patch+json":
                after = json_patch(before, patch)
            case "application/merge-patch+json":
                after = merge_patch(before, patch)
            case "application/strategic-merge-patch+json":
                after = strategic_merge(before, patch)
            case _:
                raise ApiFailureError(
                    415, "UnsupportedMediaType", f"the body of the request is {content_type}"
                )
        return self.update(path, after)

    def apply(self, path: ApiPath, body: KubeObject, manager: str) -> KubeObject:
        """Server-side apply: merge, take out what this manager applies no more; no conflicts."""
        _check_body(path, body)
        resource, key = path.resource, key_of(body)
        owner = ((resource.group, resource.plural), key, f"{manager}/{path.subresource}")
        before = self.collection(resource).get(key)
        if before is None and path.subresource:
            self.read(resource, key)
        entry = {"manager": manager, "operation": "Apply", "apiVersion": resource.api_version}
        if path.subresource:
            entry["subresource"] = path.subresource
        managers = [] if before is None else before["metadata"].get("managedFields", [])
        managers = [e for e in managers if {**e, "time": ""} != {**entry, "time": ""}]
        managed = {**body, "metadata": {**body["metadata"], "managedFields": [*managers, entry]}}
        if before is None:
            after = self.create(path, managed)
        else:
            pruned = prune(before, self._applied.get(owner, {}), body)
            merged = strategic_merge(pruned, managed)
            after = self.update(path, merged)
        self._applied[owner] = copy.deepcopy(body)
        return after

    def delete(self, path: ApiPath, options: KubeObject) -> KubeObject:
        """
        Delete, at once or (pods on a node, finalizers) by a deletionTimestamp.

        A pod gets the latter in any case: watches see it modified, grace 0, and then deleted.
        """
        resource = path.resource
        before = self.read(resource, NamespacedName(path.namespace, path.name))
        _check_preconditions(before, options.get("preconditions") or {})
        grace = _grace_period(resource, before, options.get("gracePeriodSeconds"))
        metadata = before["metadata"]
        known = metadata.get("deletionGracePeriodSeconds")
        held = bool(metadata.get("finalizers"))
        if known is not None and grace >= known and (known > 0 or held):
            return before
        if not held and resource.plural != "pods":
            return self._remove(resource, before)
        after = copy.deepcopy(before)
        after["metadata"]["deletionTimestamp"] = now_text(after_seconds=grace)
        after["metadata"]["deletionGracePeriodSeconds"] = grace
        if "generation" in metadata and known is None:
            after["metadata"]["generation"] += 1
        stored = self._store(resource, before, after)
        return stored if held or grace > 0 else self._remove(resource, stored)

    def remove(self, resource: Resource, key: NamespacedName) -> KubeObject:
        """Have an object vanish, whatever its finalizers."""
        return self._remove(resource, self.read(resource, key))

    def _store(
        self, resource: Resource, before: KubeObject | None, after: KubeObject
    ) -> KubeObject:
        self.version += 1
        after["metadata"]["resourceVersion"] = str(self.version)
        after.setdefault("apiVersion", resource.api_version)
        after.setdefault("kind", resource.kind)
        self.collection(resource)[key_of(after)] = after
        self._record(resource, before, after)
        return after

    def _remove(self, resource: Resource, body: KubeObject) -> KubeObject:
        self.version += 1
        key = key_of(body)
        self.collection(resource).pop(key, None)
        last = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        for owner in [owner for owner in self._applied if owner[1] == key]:
            if owner[0] == (resource.group, resource.plural):
                del self._applied[owner]
        self._record(resource, last, None)
        return last

    def _record(
        self, resource: Resource, before: KubeObject | None, after: KubeObject | None
    ) -> None:
        plural = (resource.group, resource.plural)
        self.history.append(Change(self.version, plural, before, after))
        self._on_change()


def _check_body(path: ApiPath, body: KubeObject) -> None:
    resource, metadata = path.resource, body.get("metadata") or {}
    if body.get("kind", resource.kind) != resource.kind and path.subresource in {"", "status"}:
        raise ApiFailureError(
            400, "BadRequest", f"the object of kind {body.get('kind')} isn't a {resource.kind}"
        )
    if not metadata.get("name"):
        raise ApiFailureError(
            422, "Invalid", f'{resource.kind} "" is invalid: metadata.name: Required value'
        )
    if path.namespace:
        metadata.setdefault("namespace", path.namespace)
    if metadata.get("namespace", "") != path.namespace:
        raise ApiFailureError(
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        )
    if path.name and metadata["name"] != path.name:
        raise ApiFailureError(
            400, "BadRequest", "the name of the object does not match the name on the URL"
        )


def _check_preconditions(before: KubeObject, preconditions: KubeObject) -> None:
    for name, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted, found = preconditions.get(name), before["metadata"][name]
        if wanted and wanted != found:
            raise ApiFailureError(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {before["kind"]} "{key_of(before).name}": '
                f"the {label} in the precondition ({wanted}) does not match the {label} in record "
                f"({found})",
            )


def _grace_period(resource: Resource, body: KubeObject, asked: int | None) -> int:
    """As the pod strategy has it: pods without a node and those that ended have none."""
    spec = body.get("spec") or {}
    if resource.plural != "pods" or not spec.get("nodeName"):
        return 0
    if (body.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    default: int = spec.get("terminationGracePeriodSeconds", 30)
    return default if asked is None else asked
