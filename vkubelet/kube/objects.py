"""Names, resources and objects of the Kubernetes API; what we copy stays raw JSON."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

KubeObject: TypeAlias = dict[str, Any]
"""An API object as decoded JSON. What came from a Store or crossed the seam is never mutated."""


class NamespacedName(NamedTuple):
    """Key of an object; the namespace is "" for cluster-scoped ones."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the API, as in its URL."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """
        URL path of a collection, an object or a subresource.

        A namespaced resource without a namespace means the collection over all namespaces.
        """
        parts = ["/apis", self.group] if self.group else ["/api"]
        parts.append(self.version)
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
EVENTS = Resource("", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CERTIFICATE_SIGNING_REQUESTS = Resource(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    namespaced=False,
)
TOKEN_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An entry of metadata.ownerReferences."""

    kind: str
    name: str
    uid: str
    api_version: str
    controller: bool = False


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The part of metadata that this code decides on; times are RFC 3339 text as they came."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> NamespacedName:
        """Namespace and name."""
        return NamespacedName(self.namespace, self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls this object, if there is one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class HasMetadata(Protocol):
    """What a Store can keep."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""


class CachedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object as a Store keeps it: typed metadata beside the JSON bytes it came as."""

    metadata: ObjectMeta
    raw: bytes

    def decode(self) -> KubeObject:
        """Decode the whole object, afresh: the result is the caller's own."""
        return decode_object(self.raw)


class _Header(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


_header_decoder = msgspec.json.Decoder(_Header)
_object_decoder = msgspec.json.Decoder(dict[str, Any])

decode_object: Callable[[bytes], KubeObject] = _object_decoder.decode
"""JSON bytes to a raw object."""

encode_object: Callable[[object], bytes] = msgspec.json.Encoder().encode
"""A raw object to JSON bytes."""


def decode_cached(raw: bytes) -> CachedObject:
    """Decode an object's metadata and keep its bytes; the usual decoder of an Informer."""
    return CachedObject(metadata=_header_decoder.decode(raw).metadata, raw=raw)


def build_controller_reference(owner: KubeObject) -> KubeObject:
    """Build the ownerReference that makes `owner` (a live object) the controller of another."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }


def build_object_reference(owner: KubeObject) -> KubeObject:
    """Build an ObjectReference (Event's involvedObject) to a live object."""
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
        "resourceVersion": metadata.get("resourceVersion", ""),
    }
    if "namespace" in metadata:
        reference["namespace"] = metadata["namespace"]
    return reference
