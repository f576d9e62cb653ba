"""ConfigMaps and Secrets as they are told apart and copied: bytes of home go through untouched."""

import hashlib
from typing import Any

import msgspec

from provider.translation.references import CONFIG_MAP, SECRET
from vkubelet.kube.objects import (
    CONFIG_MAPS,
    SECRETS,
    KubeObject,
    NamespacedName,
    ObjectMeta,
    Resource,
    encode_object,
)

RESOURCES: dict[str, Resource] = {CONFIG_MAP: CONFIG_MAPS, SECRET: SECRETS}

OPAQUE = "Opaque"
ACCOUNT_TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - a type, no secret
"""The remote cluster removes such a Secret whose account it doesn't know."""

_NOT_CONTENT = frozenset({"apiVersion", "kind", "metadata"})


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """
    A ConfigMap or Secret.

    Attributes:
        metadata: Its metadata.
        digest: Of all that is copied; equal digests are equal contents.
        immutable: Whether it can't be changed any more.
        type: Of a Secret, as it's copied; "" for ConfigMaps.
        fields: What is copied, as bytes; empty where only the digest is kept.
    """

    metadata: ObjectMeta
    digest: bytes
    immutable: bool
    type: str
    fields: dict[str, msgspec.Raw] = {}

    def __repr__(self) -> str:
        return f"Content({self.metadata.key})"  # never what is in it


_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_metadata = msgspec.json.Decoder(ObjectMeta).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_any = msgspec.json.Decoder().decode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def decode_source(raw: bytes) -> Content:
    """Decode an object of home, with what is to be copied."""
    return _decode(raw, keep=True)


def decode_copy(raw: bytes) -> Content:
    """Decode an object of the remote cluster; what is in it isn't kept."""
    return _decode(raw, keep=False)


def _decode(raw: bytes, *, keep: bool) -> Content:
    members = _decode_fields(raw)
    metadata = _decode_metadata(members["metadata"])
    fields = {
        name: value.copy()
        for name, value in members.items()
        if name not in _NOT_CONTENT and bytes(value) not in (b"null", b"{}", b"false")
    }
    kind = ""
    if "type" in fields:
        kind = _decode_text(fields["type"])
        if kind == ACCOUNT_TOKEN:
            kind = OPAQUE
            fields["type"] = msgspec.Raw(encode_object(kind))
    return Content(
        metadata=metadata,
        digest=_digest(fields),
        immutable="immutable" in fields,
        type=kind,
        fields=fields if keep else {},
    )


def _digest(fields: dict[str, msgspec.Raw]) -> bytes:
    """Digest contents however their JSON is written."""
    values: dict[str, Any] = {name: _decode_any(value) for name, value in fields.items()}
    return hashlib.sha256(_encode_sorted(values)).digest()


def build_copy(source: Content, kind: str, key: NamespacedName, metadata: KubeObject) -> KubeObject:
    """
    Build the copy of an object.

    Labels and annotations of home stay there: kubectl keeps whole Secrets in one.

    Args:
        source: The object at home.
        kind: Its kind.
        key: Of the copy.
        metadata: Labels, annotations and owners of the copy.
    """
    resource = RESOURCES[kind]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": key.name, "namespace": key.namespace, **metadata},
        **source.fields,
    }
