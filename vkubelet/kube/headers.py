"""The little that an Informer itself reads of an object, whatever the rest looks like."""

import msgspec

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark after the last initial event."""


class Header(msgspec.Struct, frozen=True, rename="camel"):
    """
    Whose object it is, and its version.

    Attributes:
        name: "" if there is none: a Status, a bookmark.
    """

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Bookmark(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _WithHeader(msgspec.Struct, frozen=True):
    metadata: Header = Header()


class _WithBookmark(msgspec.Struct, frozen=True):
    metadata: _Bookmark


_decode_object = msgspec.json.Decoder(_WithHeader).decode
_decode_bookmark = msgspec.json.Decoder(_WithBookmark).decode


def decode_header(raw: bytes) -> Header:
    """
    Decode an object's name and version only.

    Raises:
        msgspec.DecodeError: If even these aren't usable.
    """
    return _decode_object(raw).metadata


def decode_bookmark(raw: bytes) -> tuple[str, bool]:
    """
    Decode a bookmark: its version, and whether it's the end of the initial events.

    Raises:
        msgspec.DecodeError: If it's no bookmark.
    """
    metadata = _decode_bookmark(raw).metadata
    return metadata.resource_version, metadata.annotations.get(INITIAL_EVENTS_END) == "true"
