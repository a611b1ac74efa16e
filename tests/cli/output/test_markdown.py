"""The agent's Markdown: rendered on a terminal, as written on a pipe, and the same however it is cut into pieces."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.output.screens import Show, on_pipe, on_terminal, said, thought

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


def pieces(text: str, data: st.DataObject) -> list[str]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def whole(show: Show, *parts: str) -> str:
    show.tell(*map(said, parts), ENDED)
    return show.text


@settings(max_examples=300, deadline=None)
@given(MARKDOWN, st.data())
def test_cutting_changes_nothing_on_a_terminal(text: str, data: st.DataObject) -> None:
    assert _merged(whole(on_terminal(30), *pieces(text, data))) == _merged(whole(on_terminal(30), text))


@settings(max_examples=100, deadline=None)
@given(MARKDOWN, st.data())
def test_cutting_changes_nothing_without_colours(text: str, data: st.DataObject) -> None:
    cut = whole(on_terminal(30, colour=False), *pieces(text, data))
    assert cut == whole(on_terminal(30, colour=False), text)


@settings(max_examples=200, deadline=None)
@given(MARKDOWN, st.data())
def test_cutting_changes_nothing_on_a_pipe(text: str, data: st.DataObject) -> None:
    assert whole(on_pipe(), *pieces(text, data)) == whole(on_pipe(), text)
    show, again = on_pipe(), on_pipe()
    show.tell(*map(thought, pieces(text, data)), ENDED)
    again.tell(thought(text), ENDED)
    assert show.text == again.text


@settings(max_examples=200, deadline=None)
@given(MARKDOWN)
def test_no_line_is_wider_than_the_terminal_but_code_and_tables(text: str) -> None:
    show = on_terminal(30, 400)
    whole(show, text.replace("```", "").replace("~~~", "").replace("|", ""))
    printed = show.text.count("\n")
    assert show.stdout.screen.cursor.y == min(printed, 399)  # type: ignore[attr-defined]  # the terminal broke none itself


def _merged(text: str) -> str:
    """Two pieces of one look, or one piece: the same to the eye."""
    before = None
    while before != text:
        before = text
        text = _SAME_LOOK.sub(lambda found: f"\x1b[{found[1]}m{found[2]}", text)
    return text


def test_what_it_looks_like() -> None:
    show = on_terminal(40)
    whole(
        show,
        "# Title\n\nSome **bold**, *italic* and `code`; see [the docs](https://x.y).\n"
        "- an item that is long enough to be broken into two lines\n  - nested\n- [x] done\n1. one\n"
        "> quoted words that do not fit onto one line\n\n```python\nx = 2 ** 3  # *as is*\n```\n---\n| a | b |\n|---|---|\n",
    )
    assert show.screen == [
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
    cells = show.stdout.screen.buffer  # type: ignore[attr-defined]
    assert cells[0][0].bold
    assert cells[0][0].underscore
    assert cells[2][5].bold
    assert cells[2][11].italics
    assert cells[2][22].fg == "cyan"


def test_a_mark_without_its_other_end_is_no_mark() -> None:
    show = on_terminal(70)
    whole(show, "2 * 3 * 4 and **kwargs, *args, snake_case_name, a ` tick, [1] and [x\nnext **line")
    assert show.screen == [
        "2 * 3 * 4 and **kwargs, *args, snake_case_name, a ` tick, [1] and [x",
        "next **line",
    ]


def test_the_address_of_a_link_is_always_shown() -> None:
    show = on_terminal(70)
    whole(show, "[https://bank.example](https://evil.example) ![picture](p.png) [](u)")
    assert show.screen == ["https://bank.example (https://evil.example) picture (p.png) u"]


def test_wide_characters_count_twice() -> None:
    show = on_terminal(21)
    whole(show, "日本語のテキストもここにあります。")
    assert show.screen == ["日本語のテキストもこ", "こにあります。"]


def test_words_come_out_as_soon_as_they_are_whole() -> None:
    show = on_terminal(40)
    show.tell(said("Hello wor"))
    assert show.text == "Hello"
    show.tell(said("ld and"))
    assert show.text == "Hello world"


def test_on_a_pipe_it_is_the_text_as_written() -> None:
    show = on_pipe()
    text = "\n\n# Title\n\nSome **bold** words" + " and more" * 30 + "\n\n\n"
    assert whole(show, text) == text.strip("\n") + "\n"


def test_escape_sequences_do_not_survive_being_cut_in_two() -> None:
    for show in (on_pipe(), on_terminal(colour=False)):
        assert whole(show, "a\x1b", "[3", "1mb\x1b]0;ti", "tle\x07c\x9b", "2Jd") == "abcd\n"


def test_many_small_pieces_take_no_longer_than_their_text() -> None:
    """Each piece is looked at once, however much is held back: a line without an end, an emphasis without one, code."""
    for start in ("", "*", "[", "```\n", "| ", "word "):
        show = on_terminal(80)
        show.tell(said(start))
        show.tell(*[said("xyz`**[ "[i % 8]) for i in range(8_000)], ENDED)
        assert show.text.count("x") >= 1_000
