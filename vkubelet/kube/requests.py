"""How calls look on the wire: paths, queries, content types."""

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from vkubelet.kube.objects import KubeObject, NamespacedName, Resource

APPLY = "application/apply-patch+yaml"
JSON = "application/json"

_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._~-]*")


class PatchType(enum.StrEnum):
    """Content types of a PATCH."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """
    A write to be sent.

    Attributes:
        verb: For the metrics.
        path: With its query, encoded.
    """

    verb: str
    method: str
    path: str
    body: bytes = field(repr=False)
    content_type: str


def key_of(body: KubeObject) -> NamespacedName:
    """The key that an object's metadata gives."""
    metadata = body.get("metadata", {})
    return NamespacedName(metadata.get("namespace", ""), metadata.get("name", ""))


def object_path(resource: Resource, key: NamespacedName, subresource: str = "") -> str:
    """Path of one object; without a name a delete would empty the whole collection."""
    if not key.name or (resource.namespaced and not key.namespace):
        raise ValueError(f"{key.namespace}/{key.name} isn't the key of a {resource.kind}")
    return quote_path(resource.path(key.namespace, key.name, subresource))


def collection_path(
    resource: Resource, namespace: str, name: str = "", subresource: str = ""
) -> str:
    """Path that objects are created at, or with a name and subresource that is POSTed to."""
    if resource.namespaced and not namespace:
        raise ValueError(f"a {resource.kind} needs a namespace")
    if bool(name) != bool(subresource):
        raise ValueError("name and subresource only work together")
    return quote_path(resource.path(namespace, name, subresource))


def quote_path(path: str) -> str:
    """Percent-encode a path."""
    return path if _PLAIN_PATH.fullmatch(path) else quote(path)


def with_query(path: str, query: Mapping[str, str]) -> str:
    """Add the parameters that have a value."""
    return with_pairs(path, [(name, value) for name, value in query.items() if value])


def with_pairs(path: str, query: Sequence[tuple[str, str]]) -> str:
    """Add parameters, each as often as it's there."""
    return f"{path}?{urlencode(query)}" if query else path


def without_query(path: str) -> str:
    """The path for messages; a query may hold what a user types into exec."""
    return path.partition("?")[0]
