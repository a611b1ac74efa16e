"""Parsing server-sent events: independent of how the bytes are split, and bounded."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.wire.remote.event_parser import EventParser
from accord.wire.transport import OVERSIZED_SAMPLE, Frame, OversizedFrame


def parsed(*reads: bytes, limit: int = 1 << 20) -> list[Frame]:
    parser = EventParser(limit)
    return [frame for read in reads for frame in parser.feed(read)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_is_accepted(end: bytes):
    assert parsed(b'data: {"a":1}' + end + end + b"data: 2" + end + end) == [b'{"a":1}', b"2"]


def test_several_data_lines_are_one_event():
    assert parsed(b'data: {"a":\ndata:1}\n\n') == [b'{"a":\n1}']


def test_only_one_space_after_the_colon_is_removed():
    assert parsed(b"data:  x \n\ndata:y\n\n") == [b" x ", b"y"]


def test_comments_other_fields_and_empty_events_are_skipped():
    parser = EventParser()
    assert parser.feed(b": hello\n:\n\nevent: message\nretry: 5\ndata\n\nfoo\n\ndata: x\nevent: y\n\n") == [
        b"x"
    ]
    assert parser.comments == 2


def test_an_incomplete_event_is_not_delivered():
    parser = EventParser()
    assert parser.feed(b"id: 7\ndata: x\n") == []
    assert parser.last_id is None
    assert parser.feed(b"\n") == [b"x"]
    assert parser.last_id == "7"


def test_the_last_id_is_kept_and_invalid_ids_are_ignored():
    parser = EventParser()
    parser.feed(b"id: 1\ndata: a\n\ndata: b\n\nid: x\0y\ndata: c\n\nid: " + b"9" * 2000 + b"\ndata: d\n\n")
    assert parser.last_id == "1"


def test_a_leading_byte_order_mark_is_removed():
    assert parsed(b"\xef\xbb\xbfdata: 1\n\n") == [b"1"]


def test_an_event_over_the_limit_uses_bounded_memory():
    parser = EventParser(limit=10_000)
    frames: list[Frame] = list(parser.feed(b"data: 1\n\ndata: a"))
    for _ in range(100):
        frames += parser.feed(b"x" * 1000)
        assert len(parser._line) <= 12_000
    frames += parser.feed(b"z\n\ndata: 2\n\n")
    assert frames[0] == b"1"
    assert frames[2] == b"2"
    big = frames[1]
    assert isinstance(big, OversizedFrame)
    assert (big.size, big.head[:2], big.tail[-2:]) == (100_002, b"ax", b"xz")
    assert len(big.head) == len(big.tail) == OVERSIZED_SAMPLE


def test_data_lines_that_together_exceed_the_limit_are_oversized():
    [frame] = parsed(b"data: 12345\ndata: 67890\n\n", limit=10)
    assert frame == OversizedFrame(11, b"12345\n67890", b"12345\n67890")


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"data: a", b"data:b", b"id: 4", b": c", b"", b"x"]), max_size=12), st.data()
)
def test_the_events_do_not_depend_on_how_the_bytes_are_split(lines: list[bytes], data: st.DataObject):
    ends = [data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"])) for _ in lines]
    # An LF after a CR belongs to the same line end, so the text is compared with a parse of the whole.
    text = b"".join(line + end for line, end in zip(lines, ends, strict=True)) + b"data: last\n\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert parsed(*pieces) == parsed(text)
    assert parsed(*(bytes([byte]) for byte in text)) == parsed(text)
