from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st

from vkubelet.streaming.spdy.frames import (
    MAX_CONTROL_PAYLOAD_BYTES,
    Data,
    Frame,
    FrameDecoder,
    FrameError,
    GoAway,
    HeadersFrame,
    Ping,
    RstStream,
    Settings,
    SynReply,
    SynStream,
    Unknown,
    WindowUpdate,
    encode,
)

TABLE: list[tuple[str, Frame]] = [
    (
        "80030001 03000010 00000005 00000000 e000 626c6f636b21",
        SynStream(stream_id=5, priority=7, fin=True, unidirectional=True, block=b"block!"),
    ),
    ("80030002 00000009 00000001 626c6f636b", SynReply(stream_id=1, block=b"block")),
    ("80030002 01000009 00000001 626c6f636b", SynReply(stream_id=1, fin=True, block=b"block")),
    ("80030003 00000008 00000007 00000005", RstStream(stream_id=7, code=5)),
    ("80030006 00000004 00000009", Ping(ping_id=9)),
    ("80030007 00000008 00000007 00000000", GoAway(last_stream_id=7, code=0)),
    ("80030008 01000006 00000003 6869", HeadersFrame(stream_id=3, fin=True, block=b"hi")),
    ("00000003 00000004 6f75740a", Data(stream_id=3, data=b"out\n")),
    ("00000003 01000000", Data(stream_id=3, data=b"", fin=True)),
]
ONE_WAY: list[tuple[str, Frame]] = [
    (
        "80030004 0000000c 00000001 01000004 00000064",
        Settings(entries=((4, 1, 100),)),
    ),
    ("80030009 00000008 00000003 00010000", WindowUpdate(stream_id=3, delta=65536)),
    ("80030005 00000000", Unknown(type=5)),
    ("8003000a 00000003 010203", Unknown(type=10)),
]


def decode(pieces: Iterable[bytes]) -> list[Frame]:
    decoder = FrameDecoder()
    return [frame for piece in pieces for frame in decoder.decode(piece)]


@pytest.mark.parametrize(("text", "frame"), TABLE)
def test_encoding(text: str, frame: Frame) -> None:
    assert not isinstance(frame, Settings | WindowUpdate | Unknown)
    assert encode(frame) == bytes.fromhex(text)


@pytest.mark.parametrize(("text", "frame"), TABLE + ONE_WAY)
def test_decoding(text: str, frame: Frame) -> None:
    assert decode([bytes.fromhex(text)]) == [frame]


def merge(decoded: Iterable[Frame]) -> list[Frame]:
    """Join the parts of one DATA frame, as where they are cut is chance."""
    merged: list[Frame] = []
    for frame in decoded:
        last = merged[-1] if merged else None
        if isinstance(frame, Data) and isinstance(last, Data) and not last.fin:
            merged[-1] = Data(stream_id=frame.stream_id, data=last.data + frame.data, fin=frame.fin)
        else:
            merged.append(frame)
    return merged


@given(st.data())
def test_any_split_gives_the_same_frames(data: st.DataObject) -> None:
    wire = b"".join(bytes.fromhex(text) for text, _ in TABLE + ONE_WAY)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=20)))
    pieces = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    assert merge(decode(pieces)) == merge(frame for _, frame in TABLE + ONE_WAY)


def test_split_at_every_byte() -> None:
    wire = b"".join(bytes.fromhex(text) for text, _ in TABLE + ONE_WAY)
    pieces = [wire[i : i + 1] for i in range(len(wire))]
    assert merge(decode(pieces)) == merge(frame for _, frame in TABLE + ONE_WAY)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("80020006 00000004 00000001", "version 2"),
        ("80030006 00000003 000001", "PING frame of 3 bytes"),
        ("80030001 00000009 000000010000000000", "SYN_STREAM frame of 9 bytes"),
        ("80030002 00000003 000000", "SYN_REPLY frame"),
        ("80030003 00000004 00000001", "RST_STREAM frame"),
        ("80030004 00000008 00000002 00000000", "SETTINGS frame of 8 bytes for 2"),
        ("80030004 00000000", "SETTINGS frame of 0 bytes"),
        ("80030007 00000004 00000001", "GOAWAY frame"),
        ("80030008 00000000", "HEADERS frame"),
        ("80030009 00000004 00000001", "WINDOW_UPDATE frame"),
        ("80030001 00010001", "65537 bytes"),
        ("80030063 00ffffff", "16777215 bytes"),
    ],
)
def test_bad_frames_come_after_the_good_ones(text: str, says: str) -> None:
    decoder = FrameDecoder()
    got: list[Frame] = []
    with pytest.raises(FrameError, match=says):
        got.extend(decoder.decode(bytes.fromhex("80030006 00000004 00000009" + text)))
    assert got == [Ping(ping_id=9)]


def test_data_is_not_buffered() -> None:
    decoder = FrameDecoder()
    size = 0xFFFFFF
    frame = [*decoder.decode(bytes.fromhex("00000001 01ffffff") + bytes(1000))]
    assert frame == [Data(stream_id=1, data=bytes(1000))]
    assert decoder.buffered_bytes == 0
    assert [*decoder.decode(bytes(size - 1000))] == [
        Data(stream_id=1, data=bytes(size - 1000), fin=True)
    ]


def test_at_most_one_control_frame_is_buffered() -> None:
    decoder = FrameDecoder()
    head = bytes.fromhex("80030001 00010000")
    assert not [*decoder.decode(head + bytes(MAX_CONTROL_PAYLOAD_BYTES - 1))]
    assert decoder.buffered_bytes == len(head) + MAX_CONTROL_PAYLOAD_BYTES - 1
    assert [*decoder.decode(b"x" * 9)]
    assert decoder.buffered_bytes == 0


@given(st.lists(st.binary(max_size=64), max_size=20))
def test_rubbish_gives_frames_or_an_error(pieces: list[bytes]) -> None:
    decoder = FrameDecoder()
    try:
        for piece in pieces:
            for _ in decoder.decode(piece):
                pass
    except FrameError:
        pass
    assert decoder.buffered_bytes <= MAX_CONTROL_PAYLOAD_BYTES + 8
