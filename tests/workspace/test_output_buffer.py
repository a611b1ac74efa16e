"""`OutputBuffer` keeps the end of a terminal's output within a byte limit, cut at a character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.workspace.terminals import OutputBuffer

WIDE = "aé€😀"  # one, two, three and four bytes


def feed_in_chunks(buffer: OutputBuffer, data: bytes, sizes: list[int]) -> str:
    seen = ""
    for size in sizes:
        seen += buffer.feed(data[:size])
        data = data[size:]
    return seen + buffer.feed(data) + buffer.finish()


@pytest.mark.rule("terminal.output-limit")
@pytest.mark.parametrize("limit", range(len((WIDE * 3).encode()) + 2))
def test_output_is_cut_between_characters(limit: int) -> None:
    buffer = OutputBuffer(limit)
    buffer.feed((WIDE * 3).encode())
    kept = buffer.text.encode()
    assert (WIDE * 3).encode().endswith(kept)
    assert limit - 3 <= len(kept) <= limit or not buffer.truncated
    assert buffer.truncated == (limit < len((WIDE * 3).encode()))


@pytest.mark.rule("terminal.output-limit")
@given(
    text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60),
    limit=st.integers(0, 260),
    sizes=st.lists(st.integers(0, 9), max_size=40),
)
def test_the_kept_suffix_does_not_depend_on_the_chunks(text: str, limit: int, sizes: list[int]) -> None:
    encoded = text.encode()
    buffer = OutputBuffer(limit)
    assert feed_in_chunks(buffer, encoded, sizes) == text
    kept = buffer.text.encode()
    assert encoded.endswith(kept)
    assert len(kept) <= limit
    assert buffer.truncated == (len(encoded) > limit)
    if buffer.truncated:
        first_missing = encoded[: len(encoded) - len(kept)].decode()[-1]
        assert len(kept) + len(first_missing.encode()) > limit


@given(
    data=st.binary(max_size=200), limit=st.integers(0, 300), sizes=st.lists(st.integers(0, 9), max_size=40)
)
def test_any_bytes_are_decoded_within_the_limit(data: bytes, limit: int, sizes: list[int]) -> None:
    buffer = OutputBuffer(limit)
    assert feed_in_chunks(buffer, data, sizes) == data.decode(errors="replace")
    assert data.decode(errors="replace").endswith(buffer.text)
    assert len(buffer.text.encode()) <= limit


def test_a_character_split_over_two_reads_is_decoded() -> None:
    buffer = OutputBuffer(100)
    first, second = "😀".encode()[:3], "😀".encode()[3:]
    assert buffer.feed(b"ok " + first) == "ok "
    assert buffer.text == "ok "
    assert buffer.feed(second) == "😀"
    assert buffer.text == "ok 😀"


def test_an_incomplete_character_at_the_end_becomes_a_replacement_character() -> None:
    buffer = OutputBuffer(100)
    buffer.feed("😀".encode()[:2])
    assert buffer.text == ""
    assert buffer.finish() == "\ufffd"
    assert buffer.text == "\ufffd"
