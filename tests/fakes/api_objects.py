"""What the fake API server does to objects: paths, selectors, patches. Pure functions on JSON."""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vkubelet.kube import objects as kube_objects
from vkubelet.kube.objects import KubeObject, Resource

KNOWN_RESOURCES = {
    (value.group, value.plural): value
    for value in vars(kube_objects).values()
    if isinstance(value, Resource)
}

# Plurals whose updates keep status for the status subresource.
WITHOUT_STATUS = {"configmaps", "secrets", "events", "leases", "serviceaccounts", "endpoints"}

# Plurals that have a spec but no generation.
WITHOUT_GENERATION = {"nodes", "leases", "namespaces", "certificatesigningrequests"}

# Field selectors that a real API server takes beyond metadata.name and metadata.namespace.
FIELD_LABELS = {
    "pods": {"spec.nodeName", "status.phase", "spec.restartPolicy", "spec.serviceAccountName"},
    "nodes": {"spec.unschedulable"},
    "secrets": {"type"},
    "events": {
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.uid",
        "reason",
    },
    "certificatesigningrequests": {"spec.signerName"},
    "namespaces": {"status.phase"},
}

# Lists that a strategic merge patch (and here an apply) merges by a key; others are replaced.
MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "conditions": "type",
    "addresses": "type",
    "podIPs": "ip",
    "hostIPs": "ip",
    "taints": "key",
    "ownerReferences": "uid",
}

_REQUIREMENT = re.compile(
    r"\s*(?:"
    r"(?P<key>[\w./-]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^)]*)\)"
    r"|(?P<equal>[\w./-]+)\s*(?P<sign>==|=|!=)\s*(?P<value>[\w.:-]*)"
    r"|!\s*(?P<absent>[\w./-]+)"
    r"|(?P<present>[\w./-]+)"
    r")\s*(?:,|$)"
)


class ApiFailureError(Exception):
    """Becomes a Status with this code; hooks raise it too."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(code, reason, message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.retry_after_seconds = retry_after_seconds
        if retry_after_seconds is not None:
            self.details["retryAfterSeconds"] = retry_after_seconds

    def status(self) -> KubeObject:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }


@dataclass(frozen=True)
class ApiPath:
    """A resource path, taken apart."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def resource_of(group: str, version: str, plural: str, *, namespaced: bool = True) -> Resource:
    known = KNOWN_RESOURCES.get((group, plural))
    if known is not None:
        return known
    singular = plural[:-3] + "y" if plural.endswith("ies") else plural.removesuffix("s")
    return Resource(group, version, plural, singular.capitalize(), namespaced=namespaced)


def resource_for(body: KubeObject) -> Resource:
    """The resource of an object, from apiVersion and kind."""
    group, _, version = body["apiVersion"].rpartition("/")
    for known in KNOWN_RESOURCES.values():
        if (known.group, known.kind) == (group, body["kind"]):
            return known
    plural = body["kind"].lower()
    plural = plural[:-1] + "ies" if plural.endswith("y") else plural + "s"
    namespaced = bool(body["metadata"].get("namespace"))
    return Resource(group, version, plural, body["kind"], namespaced=namespaced)


def parse_path(path: str) -> ApiPath | None:
    """Take a path apart; None if it isn't a resource's."""
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    match rest:
        case ["namespaces", namespace, plural, *tail] if plural not in {"status", "finalize"}:
            resource = resource_of(group, version, plural)
        case [plural, *tail]:
            namespace = ""
            resource = resource_of(group, version, plural, namespaced=not tail)
        case _:
            return None
    name = tail[0] if tail else ""
    return ApiPath(resource, namespace, name, "/".join(tail[1:]))


def field_value(body: KubeObject, path: str) -> str:
    value: Any = body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def check_field_selector(resource: Resource, selector: str) -> None:
    allowed = {"metadata.name", "metadata.namespace"} | FIELD_LABELS.get(resource.plural, set())
    for term in filter(None, selector.split(",")):
        label = re.split(r"!=|==|=", term)[0]
        if "=" not in term or label not in allowed:
            raise ApiFailureError(400, "BadRequest", f"field label not supported: {label}")


def matches_fields(body: KubeObject, selector: str) -> bool:
    for term in filter(None, selector.split(",")):
        label, sign, wanted = re.split(r"(!=|==|=)", term, maxsplit=1)
        if (field_value(body, label) == wanted) == (sign == "!="):
            return False
    return True


def matches_labels(body: KubeObject, selector: str) -> bool:
    labels: dict[str, str] = body["metadata"].get("labels") or {}
    position = 0
    while position < len(selector):
        found = _REQUIREMENT.match(selector, position)
        if found is None:
            raise ApiFailureError(
                400, "BadRequest", f"unable to parse requirement: {selector[position:]!r}"
            )
        if not _requirement_holds(found.groupdict(), labels):
            return False
        position = found.end()
    return True


def _requirement_holds(term: Mapping[str, str | None], labels: Mapping[str, str]) -> bool:
    if term["operator"] is not None:
        values = {value.strip() for value in (term["values"] or "").split(",")}
        return (labels.get(term["key"] or "") in values) == (term["operator"] == "in")
    if term["sign"] is not None:
        return (labels.get(term["equal"] or "") == term["value"]) == (term["sign"] != "!=")
    if term["absent"] is not None:
        return term["absent"] not in labels
    return term["present"] in labels


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_merge(target: Any, patch: Any, *, field: str = "") -> Any:
    """Merge patch, but the lists of MERGE_KEYS by their key; `$patch` delete and replace obeyed."""
    if isinstance(patch, list) and field in MERGE_KEYS:
        return _merge_list(target or [], patch, MERGE_KEYS[field])
    if isinstance(patch, list) and field == "finalizers":
        return list(dict.fromkeys([*(target or []), *patch]))
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif not key.startswith("$"):
            merged[key] = strategic_merge(merged.get(key), value, field=key)
    return merged


def _merge_list(target: list[Any], patch: list[Any], key: str) -> list[Any]:
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    merged = {item[key]: item for item in target}
    for item in patch:
        if item.get("$patch") == "delete":
            merged.pop(item[key], None)
        else:
            merged[item[key]] = strategic_merge(merged.get(item[key]), item)
    return list(merged.values())


def prune(live: Any, before: Any, now: Any, *, field: str = "") -> Any:
    """Take out of `live` what a manager applied before and applies no more."""
    if isinstance(live, dict) and isinstance(before, dict):
        now = now if isinstance(now, dict) else {}
        kept = dict(live)
        for key, value in before.items():
            if key in now and key in kept:
                kept[key] = prune(kept[key], value, now[key], field=key)
            elif isinstance(value, dict) and value and key in kept:
                kept[key] = prune(kept[key], value, {}, field=key)
            else:
                kept.pop(key, None)
        return kept
    if isinstance(live, list) and isinstance(before, list) and field in MERGE_KEYS:
        key = MERGE_KEYS[field]
        gone = {item[key] for item in before} - {item[key] for item in now or []}
        return [item for item in live if item[key] not in gone]
    return live


def json_patch(target: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """RFC 6902."""
    document = copy.deepcopy(target)
    for operation in operations:
        try:
            document = _apply_operation(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise ApiFailureError(
                422, "Invalid", "the server rejected our request due to an error in our request"
            ) from error
    return document


def _apply_operation(document: Any, operation: Mapping[str, Any]) -> Any:
    path = [_unescape(part) for part in operation["path"].split("/")[1:]]
    match operation["op"]:
        case "test":
            if _read(document, path) != operation["value"]:
                raise ValueError(operation["path"])
        case "remove":
            _remove(document, path)
        case "replace":
            _read(document, path)
            _remove(document, path)
            _add(document, path, operation["value"])
        case "add":
            if not path:
                return copy.deepcopy(operation["value"])
            _add(document, path, operation["value"])
        case "copy" | "move":
            source = [_unescape(part) for part in operation["from"].split("/")[1:]]
            value = copy.deepcopy(_read(document, source))
            if operation["op"] == "move":
                _remove(document, source)
            _add(document, path, value)
        case unknown:
            raise ValueError(unknown)
    return document


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _read(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _remove(document: Any, path: Sequence[str]) -> None:
    parent = _read(document, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]


def _add(document: Any, path: Sequence[str], value: Any) -> None:
    parent = _read(document, path[:-1])
    if isinstance(parent, list):
        parent.insert(len(parent) if path[-1] == "-" else int(path[-1]), copy.deepcopy(value))
    else:
        parent[path[-1]] = copy.deepcopy(value)
