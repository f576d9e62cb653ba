import pytest
from hypothesis import given, strategies as st

from vkubelet.streaming.websocket.frames import (
    MAX_CONTROL_PAYLOAD_BYTES,
    FramePart,
    Opcode,
    WebSocketFrameDecoder,
    WebSocketFrameError,
    encode_frame,
    mask_data,
)

KEY = bytes.fromhex("37fa213d")


def decode(data: bytes, *, masked: bool = False, step: int = 0) -> list[FramePart]:
    decoder = WebSocketFrameDecoder(masked=masked)
    parts: list[FramePart] = []
    for start in range(0, len(data), step or len(data)):
        parts += decoder.decode(data[start : start + (step or len(data))])
    assert decoder.buffered_bytes == 0
    return parts


@pytest.mark.parametrize(
    ("text", "data"),
    [
        # The examples of RFC 6455 section 5.7.
        (
            "810548656c6c6f",
            FramePart(opcode=Opcode.TEXT, data=b"Hello", start=True, end=True, fin=True),
        ),
        ("010348656c", FramePart(opcode=Opcode.TEXT, data=b"Hel", start=True, end=True, fin=False)),
        (
            "80026c6f",
            FramePart(opcode=Opcode.CONTINUATION, data=b"lo", start=True, end=True, fin=True),
        ),
        (
            "890548656c6c6f",
            FramePart(opcode=Opcode.PING, data=b"Hello", start=True, end=True, fin=True),
        ),
    ],
)
def test_unmasked_examples(text: str, data: FramePart) -> None:
    assert decode(bytes.fromhex(text)) == [data]
    assert encode_frame(data.opcode, data.data, fin=data.fin) == bytes.fromhex(text)


def test_masked_example() -> None:
    wire = bytes.fromhex("818537fa213d7f9f4d5158")
    (part,) = decode(wire, masked=True)
    assert part.data == b"Hello"
    assert encode_frame(Opcode.TEXT, b"Hello", mask_key=KEY) == wire


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 200_000])
@pytest.mark.parametrize("step", [0, 7, 4096])
def test_lengths(size: int, step: int) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    parts = decode(encode_frame(Opcode.BINARY, data, mask_key=KEY), masked=True, step=step)
    assert b"".join(part.data for part in parts) == data
    assert [part.start for part in parts] == [True] + [False] * (len(parts) - 1)
    assert [part.end for part in parts] == [False] * (len(parts) - 1) + [True]


def test_control_frames_come_whole() -> None:
    data = bytes(MAX_CONTROL_PAYLOAD_BYTES)
    (part,) = decode(encode_frame(Opcode.PING, data, mask_key=KEY), masked=True, step=1)
    assert part.data == data


@pytest.mark.parametrize(
    ("text", "masked", "reason"),
    [
        ("c100", False, "reserved bits"),
        ("8100", True, "isn't masked"),
        ("8180", False, "is masked"),
        ("8300", False, "unknown opcode 3"),
        ("8f00", False, "unknown opcode 15"),
        ("897e0080", False, "control frame"),
        ("0900", False, "control frame"),
        ("827f8000000000000000", False, "highest bit"),
    ],
)
def test_broken_frames(text: str, masked: bool, reason: str) -> None:
    with pytest.raises(WebSocketFrameError, match=reason):
        list(WebSocketFrameDecoder(masked=masked).decode(bytes.fromhex(text)))


@given(st.binary(max_size=64), st.binary(min_size=4, max_size=4), st.integers(0, 9))
def test_mask(data: bytes, key: bytes, offset: int) -> None:
    expected = bytes(byte ^ key[(offset + i) % 4] for i, byte in enumerate(data))
    assert mask_data(data, key, offset) == expected
