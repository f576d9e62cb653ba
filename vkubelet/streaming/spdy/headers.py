"""Header blocks of SPDY/3.1 (spec section 2.6.10): pairs under one zlib stream a direction."""

import itertools
import struct
import zlib
from collections.abc import Iterable
from typing import TypeAlias

Headers: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs in order, names in lower case; a name with several values comes several times."""

MAX_HEADER_BLOCK_BYTES = 64 * 1024
"""Cap of a decompressed block: 1 KiB of zlib can unfold to 1 MiB."""

MAX_HEADERS = 64
"""Cap of pairs in a block; Kubernetes sends three at most."""

_WORDS = (
    b"options head post put delete trace accept accept-charset accept-encoding accept-language "
    b"accept-ranges age allow authorization cache-control connection content-base "
    b"content-encoding content-language content-length content-location content-md5 "
    b"content-range content-type date etag expect expires from host if-match if-modified-since "
    b"if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    b"proxy-authenticate proxy-authorization range referer retry-after server te trailer "
    b"transfer-encoding upgrade user-agent vary via warning www-authenticate method get status"
).split()
_MORE_WORDS = (
    b"200 OK",
    b"version",
    b"HTTP/1.1",
    b"url",
    b"public",
    b"set-cookie",
    b"keep-alive",
    b"origin",
)
_TAIL = (
    b"1001012012022052063003023033043053063074024054064074084094104114124134144154164175025045"
    b"05203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401"
    b" Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 S"
    b"ervice UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, We"
    b"d, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xm"
    b"l,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdc"
    b"hcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _build_text(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


DICTIONARY = b"".join(_build_text(word) for word in (*_WORDS, *_MORE_WORDS)) + _TAIL
"""Preset dictionary of both zlib streams (spec section 2.6.10.1); Adler-32 0xe3c6a7c2."""


class HeaderBlockError(Exception):
    """A peer's header block can't be read; the connection is lost with its zlib stream."""


def find_header(headers: Headers, name: str) -> str | None:
    """Return the first value of a header, None without one."""
    return next((value for key, value in headers if key == name), None)


class HeaderCompressor:
    """The sending half; every block it returns must be sent, in order."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(9, zlib.DEFLATED, 15, 8, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)

    def compress(self, headers: Iterable[tuple[str, str]]) -> bytes:
        """
        Serialize pairs to a block.

        A block ends with a full sync marker, as Go peers take what follows it for the next block.
        """
        merged: dict[str, list[str]] = {}
        for name, value in headers:
            merged.setdefault(name.lower(), []).append(value)
        parts = [struct.pack(">I", len(merged))]
        for name, values in merged.items():
            parts += (
                _build_text(name.encode("latin-1")),
                _build_text("\0".join(values).encode("latin-1")),
            )
        return self._zlib.compress(b"".join(parts)) + self._zlib.flush(zlib.Z_SYNC_FLUSH)


class HeaderDecompressor:
    """The receiving half; every block must go through it, also those of unwanted streams."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(15, DICTIONARY)

    def decompress(self, block: bytes) -> Headers:
        """
        Parse a block.

        Raises:
            HeaderBlockError: If it isn't one, or exceeds a cap.
        """
        try:
            plain = self._zlib.decompress(block, MAX_HEADER_BLOCK_BYTES + 1)
        except zlib.error as error:
            raise HeaderBlockError(f"header block: {error}") from error
        if len(plain) > MAX_HEADER_BLOCK_BYTES:
            raise HeaderBlockError(f"header block exceeds {MAX_HEADER_BLOCK_BYTES} bytes")
        try:
            return _parse_pairs(plain)
        except struct.error as error:
            raise HeaderBlockError("header block is cut short") from error


def _parse_pairs(plain: bytes) -> Headers:
    (count,) = struct.unpack_from(">I", plain)
    if count > MAX_HEADERS:
        raise HeaderBlockError(f"header block has {count} headers, {MAX_HEADERS} are allowed")
    offset = 4
    texts: list[str] = []
    for _ in range(2 * count):
        (length,) = struct.unpack_from(">I", plain, offset)
        offset += 4
        if length > len(plain) - offset:
            raise HeaderBlockError("header block is cut short")
        texts.append(plain[offset : offset + length].decode("latin-1"))
        offset += length
    if offset != len(plain):
        raise HeaderBlockError("header block has bytes after its last header")
    names = [name.lower() for name in texts[::2]]
    if "" in names or len(set(names)) != count:
        raise HeaderBlockError("header block has an empty or repeated name")
    pairs = zip(names, texts[1::2], strict=True)
    return tuple(
        itertools.chain.from_iterable(
            ((name, part) for part in value.split("\0")) for name, value in pairs
        )
    )
