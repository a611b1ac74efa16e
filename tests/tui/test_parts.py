"""The drawn parts of the transcript: streaming Markdown, command output, diffs, and the line layout."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import repetitions
from textual.selection import Selection

from accord.frontend.display_text import kind_to_show
from accord.tui.parts.diff_part import DiffPart, DiffRow, compare
from accord.tui.parts.markdown_part import MarkdownDrawing, MarkdownPart
from accord.tui.parts.message_parts import MarkdownSplitter, PromptPart, Segment, StreamingMessage
from accord.tui.parts.note_part import NotePart
from accord.tui.parts.part import DrawnPart, soft_wrap, strip_of
from accord.tui.parts.tool_parts import OutputPart, parse_ansi
from accord.tui.theme import Palette
from accord.tui.transcript.transcript_layout import MAX_CACHED_LINES, HeightIndex, Item, ItemList, Layout
from accord.tui.transcript.transcript_view import selected_text

PALETTE = Palette.from_theme({}, dark=True)


def segments_of(text: str) -> list[Segment]:
    """Split a complete text."""
    splitter = MarkdownSplitter()
    splitter.feed(text)
    last = splitter.open_segment()
    return [*splitter.take_finished(), *([] if last is None else [last])]


TEXT = """# A heading
A paragraph that
goes on.

- one
- two
  with more

  ```python
  x = 1

  y = 2
  ```
- three

```python
def f():

    return 1
```
1. first
2. second

| a | b |
|---|---|
| 1 | 2 |

> quoted

The end."""


def drawn(prose: StreamingMessage, width: int = 60) -> list[str]:
    return [strip.text.rstrip() for part in prose.parts for strip in part.draw(width, PALETTE)]


def complete(text: str) -> StreamingMessage:
    prose = StreamingMessage()
    prose.show(text)
    return prose


@settings(deadline=None)
@given(st.lists(st.integers(0, len(TEXT)), max_size=12))
def test_streamed_markdown_looks_like_complete_markdown(cuts: list[int]) -> None:
    prose = StreamingMessage()
    for cut in sorted(cuts):
        prose.show(TEXT[:cut])
    prose.show(TEXT)
    assert drawn(prose) == drawn(complete(TEXT))


@settings(deadline=None)
@given(st.text(alphabet="ab `*_#->\n\t1.|~[]()\x1b\u202e", max_size=200))
def test_any_text_can_be_drawn_and_only_its_end_is_redrawn(text: str) -> None:
    prose = StreamingMessage()
    before: list[DrawnPart] = []
    for at in range(0, len(text) + 1, 7):
        prose.show(text[:at])
        assert all(old is new for old, new in zip(before[:-1], prose.parts, strict=False))
        before = list(prose.parts)
    prose.show(text)
    for line in drawn(prose):
        assert "\x1b" not in line
        assert "\u202e" not in line


def test_a_text_that_is_not_a_continuation_replaces_the_old_one() -> None:
    prose = complete("one\n\ntwo")
    prose.show("other")
    assert [line.strip() for line in drawn(prose)] == ["other"]


def test_long_code_is_split_into_segments() -> None:
    code = "\n".join(f"x{number} = {number}" for number in range(500))
    segments = list(segments_of(f"```python\n{code}\n```\nend"))
    assert len(segments) > 3
    assert "\n".join(segment.text for segment in segments if segment.code) == code
    assert [segment.first for segment in segments if segment.code].count(True) == 1


def test_a_long_paragraph_is_split_into_segments() -> None:
    text = "word " * 5_000
    assert max(len(segment.text) for segment in segments_of(text)) < 13_000
    assert " ".join(segment.text for segment in segments_of(text)).split() == text.split()


def test_no_drawn_line_exceeds_the_width() -> None:
    wide = (
        "| "
        + " | ".join("cell " * 9 for _ in range(5))
        + " |\n"
        + "|---" * 5
        + "|\n"
        + "| "
        + " | ".join("x" * 90 for _ in range(5))
        + " |"
    )
    for text in (TEXT, wide, "x" * 500, "漢字" * 100, "> " * 10 + "deep"):
        for width in (20, 47, 90):
            for line in MarkdownDrawing(PALETTE).draw(text, width):
                assert strip_of(line).cell_length <= max(width, 30)


def test_links_show_their_url() -> None:
    (line,) = MarkdownDrawing(PALETTE).draw("[bank](https://evil.example)", 80)
    assert line.plain == "bank (https://evil.example)"


# -- command output --------------------------------------------------------------------------------------


def test_colors_are_kept_and_other_sequences_are_removed() -> None:
    text = (
        "\x1b[31mred\x1b[0m \x1b[1;38;5;42mbold\x1b[0m\x1b]8;;http://x\x07link\x1b]8;;\x07"
        "\x1b[2J\x1b[8mhidden"
    )
    (line,) = parse_ansi(text)
    assert line.plain == "red boldlinkhidden"
    styles = {line.plain[span.start : span.end]: span.style for span in line.spans}
    assert "color(1)" in str(styles["red"]) or "red" in str(styles["red"])
    assert "bold" in str(styles["bold"])
    assert "conceal" not in str(styles.get("hidden", ""))


@pytest.mark.parametrize("text", ["\x1b]0;\x1b[31mtitle\x07shown", "\x1b]0;title\x1b[0m\x07shown"])
def test_a_color_inside_another_sequence_is_ignored(text: str) -> None:
    (line,) = parse_ansi(text)
    assert line.plain.endswith("shown")
    assert "\x1b" not in line.plain


def test_overwritten_text_is_removed() -> None:
    assert [line.plain for line in parse_ansi("10 %\r50 %\r100 %\ndone\r\n")] == ["100 %", "done", ""]


def test_private_use_characters_are_not_colors() -> None:
    (line,) = parse_ansi("\ue0000\ue001x")
    assert line.plain == "\ufffd0\ufffdx"


def test_folded_output_shows_its_end() -> None:
    part = OutputPart("\n".join(map(str, range(100))))
    lines = [strip.text for strip in part.draw(40, PALETTE)]
    assert "92 earlier lines" in lines[0]
    assert lines[-1].endswith("99")
    part.folded = False
    assert len(part.draw(40, PALETTE)) == 100


# -- diffs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fence", ["```", "`````"])
def test_the_fence_around_output_is_removed(fence: str) -> None:
    part = OutputPart(f"{fence}sh\none\n{fence}\n")
    assert [strip.text.strip(" │") for strip in part.draw(80, PALETTE)] == ["one"]


def test_one_hidden_line_is_counted_in_the_singular() -> None:
    part = OutputPart("\n".join(map(str, range(9))))
    assert "… 1 earlier line" in [strip.text.strip(" │") for strip in part.draw(80, PALETTE)]


@pytest.mark.parametrize(("text", "details"), [("note", ""), ("note", "a"), ("two\nlines", "a\nb\n")])
def test_the_estimate_of_a_note_is_its_height(text: str, details: str) -> None:
    part = NotePart(text, details=details)
    assert part.estimate(80) == len(part.draw(80, PALETTE))


def test_a_diff_has_line_numbers_signs_and_counts() -> None:
    part = DiffPart("a.py", "a\nb\nc\n", "a\nB\nc\n")
    assert [strip.text.rstrip() for strip in part.draw(60, PALETTE)] == [
        "    a.py  +1 −1",
        "     1   a",
        "     2 − b",
        "     2 + B",
        "     3   c",
    ]


def test_a_wide_diff_is_side_by_side() -> None:
    part = DiffPart("a.py", "a\nb\nc\n", "a\nB\nnew\nc\n")
    lines = [strip.text for strip in part.draw(159, PALETTE)]
    changed = next(line for line in lines if "− b" in line)
    assert "+ B" in changed
    assert all(strip.cell_length <= 159 for strip in part.draw(159, PALETTE))


def test_a_large_diff_is_compared_later() -> None:
    waiting: list[DiffPart] = []
    part = DiffPart("a.py", "x\n" * 900, "y\n" * 900, compare_later=waiting.append)
    assert waiting == [part]
    assert "comparing" in part.draw(80, PALETTE)[0].text
    part.compare()
    assert "+900" in part.draw(80, PALETTE)[0].text


def test_a_shortened_diff_reports_how_much_is_shown() -> None:
    part = DiffPart("a.txt", "x\n" * 15_000, "y\n" * 15_000)
    head = part.draw(80, PALETTE)[0].text
    assert "+15000 −15000" in head
    assert "only 10000 lines of each side" in head


# -- layout ----------------------------------------------------------------------------------------------


class Lines(DrawnPart):
    """A part with a given number of lines and a given estimate."""

    def __init__(self, name: str, count: int, guess: int) -> None:
        super().__init__()
        self.name, self.count, self._guess = name, count, guess

    def draw(self, width: int, palette: Palette) -> list:  # type: ignore[type-arg]
        from rich.text import Text

        return [strip_of(Text(f"{self.name}.{number}")) for number in range(self.count)]

    def estimate(self, width: int) -> int:
        return self._guess


def test_measuring_replaces_the_estimate() -> None:
    layout = Layout(PALETTE)
    layout.show([Lines("a", 3, 1), Lines("b", 2, 9)])
    assert layout.height == 1 + 1 + 9
    assert layout.measure(0) == 2
    assert layout.measure(1) == -7
    assert layout.height == 3 + 1 + 2
    shown = [layout.line(y) for y in range(layout.height)]
    assert [line and line.text for line in shown] == ["a.0", "a.1", "a.2", None, "b.0", "b.1"]


def test_only_lines_near_the_view_are_kept() -> None:
    rng = random.Random(7)
    parts = [Lines(str(number), rng.randint(1, 60), 5) for number in range(1_000)]
    layout = Layout(PALETTE)
    layout.show(parts)
    for index in range(len(parts)):
        layout.measure(index)
    cached_lines = sum(len(part.lines or ()) for part in parts)
    assert cached_lines <= MAX_CACHED_LINES
    assert layout.height == sum(part.count for part in parts) + len(parts) - 1
    line = layout.line(layout.top(500) + 1)
    assert line is not None
    assert line.text == "500.0"


def test_heights_are_summed_after_any_change() -> None:
    rng = random.Random(11)
    heights, plain = HeightIndex(), []
    for _ in range(300):
        start = rng.randint(0, len(plain))
        stop = rng.randint(start, min(start + 40, len(plain)))
        fresh = [rng.randint(1, 9) for _ in range(rng.choice((1, 5, 60)))]
        heights.splice(start, stop, fresh)
        plain[start:stop] = fresh
        index = rng.randrange(len(plain))
        heights[index] = plain[index] = rng.randint(1, 9)
        assert heights.total == sum(plain)
        at = rng.randrange(len(plain) + 1)
        assert heights.top(at) == sum(plain[:at])
        line = rng.randrange(sum(plain))
        found = heights.at(line)
        assert heights.top(found) <= line < heights.top(found + 1)
    assert heights.at(-5) == 0
    assert heights.at(sum(plain) + 5) == len(plain) - 1


def test_only_changed_items_are_arranged() -> None:
    sheet = ItemList(PALETTE)
    items = [Item() for _ in range(4)]
    for number, item in enumerate(items):
        item.parts = [Lines(f"{number}a", 1, 1), Lines(f"{number}b", 2, 2)]

    def shown() -> str:
        lines = [sheet.layout.line(line) for line in range(sheet.layout.height)]
        return " ".join(line.text for line in lines if line is not None)

    sheet.items[:] = items[1:3]
    sheet.arrange(set())
    assert shown() == "1a.0 1b.0 1b.1 2a.0 2b.0 2b.1"
    sheet.items[:0] = [items[0]]
    sheet.items.append(items[3])
    sheet.arrange(set())
    assert shown().split()[0] == "0a.0"
    assert sheet.layout.height == 4 * 3 + 7, "no gap must be above the first item"
    unchanged_part = sheet.layout.parts[2]
    items[1].parts = [items[1].parts[0], Lines("new", 1, 1)]
    sheet.arrange({id(items[1])})
    assert sheet.layout.parts[2] is unchanged_part
    assert "1a.0 new.0 2a.0" in shown()
    first = sheet.first_line(items[2])
    assert first is not None
    assert sheet.item_at(first) is items[2]
    anchor = sheet.anchor(first)
    assert anchor is not None
    sheet.items.remove(items[0])
    sheet.arrange(set())
    assert sheet.line_of(anchor) == sheet.first_line(items[2])
    sheet.items.remove(items[2])
    sheet.arrange(set())
    assert sheet.line_of(anchor) is None
    sheet.items.clear()
    sheet.arrange(set())
    assert (sheet.layout.height, sheet.item_at(0), sheet.anchor(0)) == (0, None, None)


def test_a_small_change_in_a_huge_file_is_shown() -> None:
    lines = [f"line {number}" for number in range(15_000)]
    compared = compare("\n".join(lines), "\n".join([*lines[:9000], "new", *lines[9001:]]))
    assert (compared.added, compared.removed) == (1, 1)
    assert DiffRow(9000, None) in compared.rows
    assert DiffRow(None, 9000) in compared.rows
    assert len(compared.rows) == 8


def test_both_sides_of_a_huge_change_are_shown() -> None:
    before, after = ("\n".join(f"{word} {number}" for number in range(30_000)) for word in ("old", "new"))
    compared = compare(before, after)
    assert (compared.added, compared.removed) == (30_000, 30_000)
    assert DiffRow(0, None) in compared.rows
    assert DiffRow(None, 9_999) in compared.rows


def test_lines_added_at_the_end_of_a_huge_file_are_shown() -> None:
    before = "same\n" * 15_000
    compared = compare(before, before + "same\nsame\n")
    assert (compared.added, compared.removed) == (2, 0)
    assert compared.rows[-2:] == [DiffRow(None, 15_000), DiffRow(None, 15_001)]


# -- Markdown and wrapped lines --------------------------------------------------------------------------


def markdown_lines(text: str, width: int = 60) -> list[str]:
    return [line.plain.rstrip() for line in MarkdownDrawing(PALETTE).draw(text, width)]


def test_columns_of_a_table_keep_their_alignment() -> None:
    lines = markdown_lines(
        "| name | left | number |\n|:---:|:--|---:|\n| ab | x | 7 |\n| abcdef | y | 1200 |\n"
    )
    assert lines == [
        " name  │ left │ number",
        "───────┼──────┼───────",
        "  ab   │ x    │      7",
        "abcdef │ y    │   1200",
    ]


def test_tasks_are_boxes() -> None:
    assert markdown_lines("- [ ] write\n- [x] read **it**\n- no task\n\n1. [X] first\n") == [
        "☐ write",
        "☑ read it",
        "• no task",
        "",
        "1. ☑ first",
    ]


def copied(part: DrawnPart, width: int) -> str:
    """What a selection of all lines copies."""
    strips = part.draw(width, PALETTE)
    selection = Selection(None, None)
    return selected_text(
        selection, len(strips), lambda y: strips[y].text.rstrip(), lambda y: soft_wrap(strips[y])
    )


@given(
    st.lists(
        st.sampled_from(["word", "a", "averyverylongwordwithoutspaces", "日本語"]), min_size=1, max_size=30
    )
)
@settings(max_examples=repetitions(50))
def test_a_selection_copies_no_soft_wraps(words: list[str]) -> None:
    text = " ".join(words)
    for width in (14, 23, 60):
        assert copied(MarkdownPart(text), width).strip() == text
        prompt = PromptPart(f"{text}\n{text}")
        prompt.folded = False
        assert copied(prompt, width) == f"▌ {text}\n▌ {text}"
        output = OutputPart(text)
        output.folded = False
        assert copied(output, width) == f"    │ {text}"


@pytest.mark.parametrize(
    ("kind", "title", "shown"),
    [
        ("read", "Read app.py", ""),
        ("edit", "Edit app.py", ""),
        ("edit", "Writing notes.txt", ""),
        ("execute", "Running tests", ""),
        ("search", "`grep` TODO", ""),
        ("fetch", "Fetches the page", ""),
        ("read", "app.py", "read"),
        ("execute", "pytest -q", "execute"),
        ("edit", "Readme", "edit"),
        ("other", "Ask", ""),
        ("zzz", "", "zzz"),
    ],
)
def test_the_kind_of_a_call_is_left_out_if_the_title_has_the_verb(kind: str, title: str, shown: str) -> None:
    assert kind_to_show(kind, title) == shown
