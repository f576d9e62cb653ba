"""Pods without managedFields, which are as large as all else of them and of no use here."""

from typing import Any

import msgspec

from vkubelet.kube.objects import CachedObject, ObjectMeta, encode_object


class TrimmedPod(msgspec.Struct, rename="camel"):
    """
    A pod in parts; items of a list lack apiVersion and kind, here they have them.

    Attributes:
        metadata: Without managedFields.
    """

    metadata: dict[str, Any]
    spec: msgspec.Raw
    api_version: str = "v1"
    kind: str = "Pod"
    status: msgspec.Raw = msgspec.Raw(b"{}")

    def read_metadata(self) -> ObjectMeta:
        """Read what is used of the metadata."""
        return msgspec.convert(self.metadata, ObjectMeta)

    def encode(self) -> bytes:
        """Write it as it is now."""
        return encode_object(self)


_decode = msgspec.json.Decoder(TrimmedPod).decode


def trim_pod(raw: bytes) -> TrimmedPod:
    """Take a pod apart."""
    pod = _decode(raw)
    pod.metadata.pop("managedFields", None)
    return pod


def decode_trimmed_pod(raw: bytes) -> CachedObject:
    """Decode a pod for a Store that keeps it trimmed."""
    pod = trim_pod(raw)
    return CachedObject(metadata=pod.read_metadata(), raw=pod.encode())
