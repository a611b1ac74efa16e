"""Line framing: the frames do not depend on how the byte stream is split."""

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.wire.pipes import LineFramer
from accord.wire.transport import OVERSIZED_SAMPLE, Frame, OversizedFrame

BOM = b"\xef\xbb\xbf"


def frames_of(stream: bytes, limit: int = 1 << 20) -> list[Frame]:
    framer = LineFramer(limit)
    return framer.feed(stream) + framer.finish()


def frames_of_pieces(pieces: list[bytes], limit: int = 1 << 20) -> list[Frame]:
    framer = LineFramer(limit)
    frames: list[Frame] = []
    for piece in pieces:
        frames += framer.feed(piece)
    return frames + framer.finish()


def split_at(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(edges)]


def test_a_line_is_a_frame_without_its_line_end():
    assert LineFramer().feed(b'{"a":1}\n') == [b'{"a":1}']


def test_an_incomplete_line_is_buffered():
    framer = LineFramer()
    assert framer.feed(b'{"a"') == []
    assert framer.feed(b':1}\n{"b":2}\n{"c"') == [b'{"a":1}', b'{"b":2}']
    assert framer.feed(b":3}\n") == [b'{"c":3}']
    assert framer.finish() == []


def test_the_last_line_needs_no_line_end():
    framer = LineFramer()
    assert framer.feed(b'{"a":1}\n{"b":2}') == [b'{"a":1}']
    assert framer.finish() == [b'{"b":2}']
    assert framer.finish() == []


@pytest.mark.parametrize(
    ("stream", "frames"),
    [
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\r", [b"a"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"\n\na\n\n\r\n \t\nb\n\n", [b"a", b"b"]),
        (b"  a \n", [b"  a "]),
        (BOM + b"a\n", [b"a"]),
        (b"a\n" + BOM + b"b\r\n", [b"a", b"b"]),
        (BOM + b"\n" + BOM + b"\r\n" + BOM, []),
        (b"a" + BOM + b"\n", [b"a" + BOM]),
        ("ï»¿ 你好，\n".encode(), ["ï»¿ 你好，".encode()]),
        (b"a\x00b\n\xff\xfe\n", [b"a\x00b", b"\xff\xfe"]),
        (b"", []),
    ],
)
def test_line_ends_byte_order_marks_and_blank_lines(stream: bytes, frames: list[bytes]):
    assert frames_of(stream) == frames
    assert frames_of_pieces([stream[i : i + 1] for i in range(len(stream))]) == frames


SCRAPS = st.sampled_from(
    [b"\n", b"\r\n", b"\r", b" ", BOM, BOM[:1], BOM[1:], b"{}", b'{"a":"\xc3\xa9"}', b"x" * 9, b"y" * 5000]
)
STREAMS = st.lists(SCRAPS | st.binary(max_size=12), max_size=30).map(b"".join)


@given(
    STREAMS,
    st.lists(st.integers(min_value=0), max_size=20),
    st.sampled_from([0, 1, 9, 10, 4999, 5000, 1 << 20]),
)
def test_any_split_of_any_stream_gives_the_same_frames(stream: bytes, places: list[int], limit: int):
    frames = frames_of(stream, limit)
    assert frames_of_pieces(split_at(stream, places), limit) == frames
    assert frames_of_pieces([stream[i : i + 1] for i in range(len(stream))], limit) == frames
    lines = [line.removeprefix(BOM).removesuffix(b"\r") for line in stream.split(b"\n")]
    assert [frame.size if isinstance(frame, OversizedFrame) else frame for frame in frames] == [
        len(line) if len(line) > limit else line for line in lines if line.strip() or len(line) > limit
    ]


@pytest.mark.parametrize("piece", [1, 1000, 4096, 70000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("mark", [b"", BOM])
def test_a_line_over_the_limit_becomes_one_oversized_frame(piece: int, end: bytes, mark: bytes):
    line = bytes(range(32, 127)) * 300
    stream = b"before\n" + mark + line + end + (b"after\n" if end else b"")
    frames = frames_of_pieces([stream[i : i + piece] for i in range(0, len(stream), piece)], limit=20_000)
    assert frames[:2] == [
        b"before",
        OversizedFrame(len(line), line[:OVERSIZED_SAMPLE], line[-OVERSIZED_SAMPLE:]),
    ]
    assert frames[2:] == ([b"after"] if end else [])


@pytest.mark.parametrize("size", [99, 100, 101])
def test_the_limit_does_not_count_the_line_end(size: int):
    frame = b"x" * size
    expected = frame if size <= 100 else OversizedFrame(size, frame, frame)
    assert frames_of(BOM + frame + b"\r\n", limit=100) == [expected]
    assert frames_of_pieces([BOM, frame, b"\r", b"\n"], limit=100) == [expected]


def test_an_oversized_line_uses_bounded_memory():
    framer = LineFramer(limit=1 << 20)
    piece = b"x" * 65536
    tracemalloc.start()
    try:
        for _ in range(1024):
            framer.feed(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
    assert framer.feed(b"\nnext\n") == [
        OversizedFrame(64 << 20, b"x" * OVERSIZED_SAMPLE, b"x" * OVERSIZED_SAMPLE),
        b"next",
    ]


def test_a_line_of_exactly_the_limit_arrives_whole():
    limit = 8 << 20
    framer = LineFramer(limit)
    for _ in range(limit // 65536):
        assert framer.feed(b"z" * 65536) == []
    assert framer.feed(b"\n") == [b"z" * limit]
