"""Server-sent events from bytes: the same whatever the reads cut, and bounded."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.wire.framing import SHOWN
from accord.wire.remote.sse import EventParser
from accord.wire.transport import Frame, Oversized


def parsed(*reads: bytes, limit: int = 1 << 20) -> list[Frame]:
    parser = EventParser(limit)
    return [frame for read in reads for frame in parser.feed(read)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_kind_of_line_end(end: bytes):
    assert parsed(b'data: {"a":1}' + end + end + b"data: 2" + end + end) == [b'{"a":1}', b"2"]


def test_several_data_lines_are_one_event():
    assert parsed(b'data: {"a":\ndata:1}\n\n') == [b'{"a":\n1}']


def test_only_one_blank_behind_the_colon_belongs_to_the_form():
    assert parsed(b"data:  x \n\ndata:y\n\n") == [b" x ", b"y"]


def test_comments_other_fields_and_empty_events_are_nothing():
    parser = EventParser()
    assert parser.feed(b": hello\n:\n\nevent: message\nretry: 5\ndata\n\nfoo\n\ndata: x\nevent: y\n\n") == [
        b"x"
    ]
    assert parser.comments == 2


def test_an_event_that_is_not_complete_is_none():
    parser = EventParser()
    assert parser.feed(b"id: 7\ndata: x\n") == []
    assert parser.last_id is None
    assert parser.feed(b"\n") == [b"x"]
    assert parser.last_id == "7"


def test_an_id_stays_until_the_next_one_and_a_broken_one_does_not_count():
    parser = EventParser()
    parser.feed(b"id: 1\ndata: a\n\ndata: b\n\nid: x\0y\ndata: c\n\nid: " + b"9" * 2000 + b"\ndata: d\n\n")
    assert parser.last_id == "1"


def test_a_byte_order_mark_at_the_beginning_is_dropped():
    assert parsed(b"\xef\xbb\xbfdata: 1\n\n") == [b"1"]


def test_an_event_over_the_limit_streams_past_in_bounded_memory():
    parser = EventParser(limit=10_000)
    frames: list[Frame] = list(parser.feed(b"data: 1\n\ndata: a"))
    for _ in range(100):
        frames += parser.feed(b"x" * 1000)
        assert len(parser._line) <= 12_000
    frames += parser.feed(b"z\n\ndata: 2\n\n")
    assert frames[0] == b"1"
    assert frames[2] == b"2"
    big = frames[1]
    assert isinstance(big, Oversized)
    assert (big.size, big.head[:2], big.tail[-2:]) == (100_002, b"ax", b"xz")
    assert len(big.head) == len(big.tail) == SHOWN


def test_many_data_lines_over_the_limit_are_oversized_together():
    [frame] = parsed(b"data: 12345\ndata: 67890\n\n", limit=10)
    assert frame == Oversized(11, b"12345\n67890", b"12345\n67890")


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"data: a", b"data:b", b"id: 4", b": c", b"", b"x"]), max_size=12), st.data()
)
def test_the_same_bytes_give_the_same_events_however_they_are_cut(lines: list[bytes], data: st.DataObject):
    ends = [data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"])) for _ in lines]
    # An LF behind a CR belongs to it, so lines are joined in a way that a reader could not tell apart.
    text = b"".join(line + end for line, end in zip(lines, ends, strict=True)) + b"data: last\n\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert parsed(*pieces) == parsed(text)
    assert parsed(*(bytes([byte]) for byte in text)) == parsed(text)
