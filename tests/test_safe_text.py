"""Text of an agent reaches no terminal as a control sequence, in whatever pieces it arrives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.safe_text import TextCleaner, clean_line, clean_text, one_line, visible

INTRODUCERS = [
    "\x1b",
    "[",
    "]",
    "P",
    "X",
    "^",
    "_",
    "\\",
    "\x07",
    "\x9b",
    "\x9c",
    "\x9d",
    "\x90",
    "\x18",
    "(",
]
CONTROLS = [
    "\r",
    "\n",
    "\t",
    "\x00",
    "\x7f",
    "\x85",
    "\u2028",
    "\u202e",
    "\u2066",
    "\u200b",
    "\ud89b",
    "\U000e0041",
]
PLAIN = ["a", "é", "語", "\u200d", "8;;http://x", " ", "B", "0;31m", "m"]
HOSTILE = st.lists(st.sampled_from(INTRODUCERS + CONTROLS + PLAIN) | st.text(max_size=4), max_size=30).map(
    "".join
)
CODES = [
    *range(0x20),
    *range(0x7F, 0xA0),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xE0000, 0xE0080),
]
FORBIDDEN = frozenset(map(chr, CODES)) - {"\n", "\t"}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9d52;c;aGk=\x9ctext", "text"),
        ("\x1bPq#0;2\x1b\\text", "text"),
        ("\x1b_Gf=100;AAAA\x1b\\text", "text"),
        ("\x1b(Btext\x1b7\x1bc", "text"),
        ("a\x08\x08b\x00\x7fc", "abc"),
        ("one\r\ntwo\rthree\x0bfour\u2028five", "one\ntwo\nthree\nfour\nfive"),
        ("rm \u202egnp.txt", "rm <U+202E>gnp.txt"),
        ("a\u2066b\u2069c\u200ed\u200be\ufefff", "a<U+2066>b<U+2069>cdef"),
        ("raw \udc9b31m byte", "raw \ufffd31m byte"),
        ("hidden \U000e0041\U000e0042", "hidden "),
        ("👩\u200d💻 می\u200cخواهم", "👩\u200d💻 می\u200cخواهم"),
    ],
)
def test_control_sequences_are_removed(said: str, shown: str) -> None:
    assert clean_text(said) == shown


def test_an_unterminated_sequence_removes_at_most_its_line() -> None:
    assert clean_text("\x1b]0;no end\nnext line") == "\nnext line"
    assert clean_text("\x1b[1;1\nnext") == "\nnext"


@given(HOSTILE)
def test_no_control_character_survives(text: str) -> None:
    assert not FORBIDDEN & set(clean_text(text))
    assert not (FORBIDDEN | {"\n", "\t"}) & set(clean_line(text) + visible(text) + one_line(text))
    clean_text(text).encode()


@given(HOSTILE, st.data())
def test_splitting_the_text_changes_nothing(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    cleaner = TextCleaner()
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(map(cleaner.feed, pieces)) == clean_text(text)


@given(HOSTILE)
def test_cleaning_is_idempotent(text: str) -> None:
    assert clean_text(clean_text(text)) == clean_text(text)


def test_visible_text_escapes_hidden_characters() -> None:
    assert visible("rm\x1b[8m -rf\n\u202e") == "rm\\x1b[8m -rf\\n\\u202e"
    assert one_line("two\n  lines \x07") == "two lines \\x07"
    assert one_line("x" * 300, 10) == "xxxxxxxxx…"
