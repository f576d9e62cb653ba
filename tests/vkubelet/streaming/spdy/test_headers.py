import hashlib
import struct
import zlib

import pytest
from hypothesis import given, strategies as st

from vkubelet.streaming.spdy.headers import (
    DICTIONARY,
    MAX_HEADER_BLOCK_BYTES,
    MAX_HEADERS,
    HeaderBlockError,
    HeaderCompressor,
    HeaderDecompressor,
    find_header,
)


def compress(plain: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 15, 8, 0, DICTIONARY)
    return packer.compress(plain) + packer.flush(zlib.Z_SYNC_FLUSH)


def text(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def test_dictionary_is_the_specs() -> None:
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2
    digest = hashlib.sha256(DICTIONARY).hexdigest()
    assert digest == "51d27341373f923f3cd88e1eb7162aeaa3723d7585ff2399201dc06498407f02"


def test_blocks_of_a_go_peer() -> None:
    decompressor = HeaderDecompressor()
    first = "78f9e3c6a7c202a62346703a2b294a4dcc851625aca9a08006000000ffff"
    assert decompressor.decompress(bytes.fromhex(first)) == (("streamtype", "error"),)
    assert decompressor.decompress(bytes.fromhex("02321800000000ffff")) == ()


def test_block_ends_with_a_sync_marker() -> None:
    compressor = HeaderCompressor()
    for headers in ([("streamType", "error")], [], [("port", "80"), ("requestID", "7")]):
        assert compressor.compress(headers).endswith(b"\x00\x00\xff\xff")


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.text(st.characters(codec="latin-1", exclude_characters="\0"), min_size=1),
                st.text(st.characters(codec="latin-1", exclude_characters="\0")),
            ),
            max_size=8,
            unique_by=lambda pair: pair[0].lower(),
        ),
        max_size=5,
    )
)
def test_blocks_survive_the_way(blocks: list[list[tuple[str, str]]]) -> None:
    compressor, decompressor = HeaderCompressor(), HeaderDecompressor()
    for headers in blocks:
        sent = tuple((name.lower(), value) for name, value in headers)
        if len({name for name, _ in sent}) == len(sent):
            assert decompressor.decompress(compressor.compress(headers)) == sent


def test_several_values_of_a_name() -> None:
    headers = (("a", "1"), ("b", "2"), ("a", "3"))
    got = HeaderDecompressor().decompress(HeaderCompressor().compress(headers))
    assert got == (("a", "1"), ("a", "3"), ("b", "2"))
    assert find_header(got, "a") == "1"
    assert find_header(got, "c") is None


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (b"rubbish", "header block: "),
        (b"", "cut short"),
        (compress(struct.pack(">I", 0) + b"x"), "after its last"),
        (compress(struct.pack(">I", 1) + text(b"a")), "cut short"),
        (compress(struct.pack(">I", 1) + text(b"a") + b"\xff\xff\xff\xffx"), "cut short"),
        (compress(struct.pack(">I", MAX_HEADERS + 1)), "65 headers"),
        (compress(struct.pack(">I", 1) + text(b"") + text(b"x")), "empty or repeated"),
        (compress(struct.pack(">I", 2) + (text(b"a") + text(b"x")) * 2), "empty or repeated"),
        (compress(bytes(64 * MAX_HEADER_BLOCK_BYTES)), "exceeds"),
    ],
)
def test_bad_blocks(block: bytes, says: str) -> None:
    with pytest.raises(HeaderBlockError, match=says):
        HeaderDecompressor().decompress(block)


def test_largest_block() -> None:
    value = b"x" * (MAX_HEADER_BLOCK_BYTES - 4 - 4 - 1 - 4)
    plain = struct.pack(">I", 1) + text(b"a") + text(value)
    assert HeaderDecompressor().decompress(compress(plain)) == (("a", value.decode()),)
