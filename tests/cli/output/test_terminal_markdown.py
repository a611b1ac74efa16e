"""Markdown of the agent: rendered on a terminal, unchanged on a pipe, and independent of how it is split."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.output.output_recorder import OutputRecorder, message, on_pipe, on_terminal, thought
from tests.repetitions import repetitions

from accord.session import TurnEnded

_SAME_LOOK = re.compile(r"\x1b\[([\d;]+)m([^\x1b]*)\x1b\[0m\x1b\[\1m")
ENDED = TurnEnded("end_turn", "end_turn")

BITS = [
    "# ", "## ", "- ", "* ", "1. ", "> ", "- [ ] ", "- [x] ", "```", "```python\n", "~~~", "|", "|---|",
    "---", "***", "**", "*", "_", "__", "~~", "`", "``", "[", "](", ")", "![", "http://x.y", "\\", "\n",
    "\n\n", " ", "    ", "\t", "word", "and", "a_b", "日本語", "。", "e\u0301", "👩\u200d💻", "\x1b[31m",
    "\x1b]0;t\x07", "\r\n", "\u202e", "x" * 70,
]  # fmt: skip
MARKDOWN = st.lists(st.sampled_from(BITS) | st.text(max_size=3), max_size=40).map("".join)


def chunks_of(text: str, data: st.DataObject) -> list[str]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def write_all(recorder: OutputRecorder, *parts: str) -> str:
    recorder.send(*map(message, parts), ENDED)
    return recorder.text


@settings(max_examples=repetitions(300), deadline=None)
@given(MARKDOWN, st.data())
def test_chunk_boundaries_do_not_change_the_terminal(text: str, data: st.DataObject) -> None:
    assert _merged(write_all(on_terminal(30), *chunks_of(text, data))) == _merged(
        write_all(on_terminal(30), text)
    )


@settings(max_examples=repetitions(100), deadline=None)
@given(MARKDOWN, st.data())
def test_chunk_boundaries_do_not_change_text_without_colors(text: str, data: st.DataObject) -> None:
    in_chunks = write_all(on_terminal(30, color=False), *chunks_of(text, data))
    assert in_chunks == write_all(on_terminal(30, color=False), text)


@settings(max_examples=repetitions(200), deadline=None)
@given(MARKDOWN, st.data())
def test_chunk_boundaries_do_not_change_a_pipe(text: str, data: st.DataObject) -> None:
    assert write_all(on_pipe(), *chunks_of(text, data)) == write_all(on_pipe(), text)
    recorder, again = on_pipe(), on_pipe()
    recorder.send(*map(thought, chunks_of(text, data)), ENDED)
    again.send(thought(text), ENDED)
    assert recorder.text == again.text


@settings(max_examples=repetitions(200), deadline=None)
@given(MARKDOWN)
def test_only_code_and_tables_are_wider_than_the_terminal(text: str) -> None:
    recorder = on_terminal(30, 400)
    write_all(recorder, text.replace("```", "").replace("~~~", "").replace("|", ""))
    printed = recorder.text.count("\n")
    cursor = recorder.stdout.screen.cursor  # type: ignore[attr-defined]
    assert cursor.y == min(printed, 399), "the terminal itself must not wrap a line"


def _merged(text: str) -> str:
    """Join adjacent texts of the same style."""
    before = None
    while before != text:
        before = text
        text = _SAME_LOOK.sub(lambda found: f"\x1b[{found[1]}m{found[2]}", text)
    return text


def test_markdown_is_rendered_on_a_terminal() -> None:
    recorder = on_terminal(40)
    write_all(
        recorder,
        "# Title\n\nSome **bold**, *italic* and `code`; see [the docs](https://x.y).\n"
        "- an item that is long enough to be broken into two lines\n  - nested\n- [x] done\n1. one\n"
        "> quoted words that do not fit onto one line\n\n```python\nx = 2 ** 3  # *as is*\n```\n"
        "---\n| a | b |\n|---|---|\n",
    )
    assert recorder.screen == [
        "Title",
        "",
        "Some bold, italic and code; see the",
        "docs (https://x.y).",
        "• an item that is long enough to be",
        "  broken into two lines",
        "  • nested",
        "☑ done",
        "1. one",
        "│ quoted words that do not fit onto one",
        "│ line",
        "",
        "```python",
        "x = 2 ** 3  # *as is*",
        "```",
        "───────────────────────────────────────",
        "| a | b |",
        "|---|---|",
    ]
    cells = recorder.stdout.screen.buffer  # type: ignore[attr-defined]
    assert cells[0][0].bold
    assert cells[0][0].underscore
    assert cells[2][5].bold
    assert cells[2][11].italics
    assert cells[2][22].fg == "cyan"


def test_an_unclosed_mark_is_shown_as_text() -> None:
    recorder = on_terminal(70)
    write_all(recorder, "2 * 3 * 4 and **kwargs, *args, snake_case_name, a ` tick, [1] and [x\nnext **line")
    assert recorder.screen == [
        "2 * 3 * 4 and **kwargs, *args, snake_case_name, a ` tick, [1] and [x",
        "next **line",
    ]


def test_the_url_of_a_link_is_always_shown() -> None:
    recorder = on_terminal(70)
    write_all(recorder, "[https://bank.example](https://evil.example) ![picture](p.png) [](u)")
    assert recorder.screen == ["https://bank.example (https://evil.example) picture (p.png) u"]


def test_wide_characters_take_two_columns() -> None:
    recorder = on_terminal(21)
    write_all(recorder, "日本語のテキストもここにあります。")
    assert recorder.screen == ["日本語のテキストもこ", "こにあります。"]


def test_complete_words_are_written_at_once() -> None:
    recorder = on_terminal(40)
    recorder.send(message("Hello wor"))
    assert recorder.text == "Hello"
    recorder.send(message("ld and"))
    assert recorder.text == "Hello world"


def test_a_pipe_gets_the_text_unchanged() -> None:
    recorder = on_pipe()
    text = "\n\n# Title\n\nSome **bold** words" + " and more" * 30 + "\n\n\n"
    assert write_all(recorder, text) == text.strip("\n") + "\n"


def test_escape_sequences_split_over_chunks_are_removed() -> None:
    for recorder in (on_pipe(), on_terminal(color=False)):
        assert write_all(recorder, "a\x1b", "[3", "1mb\x1b]0;ti", "tle\x07c\x9b", "2Jd") == "abcd\n"


def test_many_small_chunks_are_processed_in_linear_time() -> None:
    """Each chunk is read once, also while an open line, emphasis or code block is held back."""
    for start in ("", "*", "[", "```\n", "| ", "word "):
        recorder = on_terminal(80)
        recorder.send(message(start))
        recorder.send(*[message("xyz`**[ "[i % 8]) for i in range(8_000)], ENDED)
        assert recorder.text.count("x") >= 1_000
