"""Output is shortened to a limit and made readable."""

from hypothesis import given, settings
from hypothesis import strategies as st

from accord.coder.bounded_text import CommandOutput, TruncatedText, clean_output, truncate

texts = st.text(st.sampled_from("ab\n"), max_size=300)
pieces = st.lists(st.text(st.sampled_from("ab\n"), max_size=40), max_size=20)


@settings(deadline=None)
@given(pieces, st.integers(2, 120))
def test_start_and_end_are_kept(chunks: list[str], limit: int) -> None:
    truncated = TruncatedText(limit)
    for piece in chunks:
        truncated.add(piece)
    original = "".join(chunks)
    text = truncated.text("advice")
    assert truncated.size == len(original)
    if len(original) <= limit:
        assert truncated.complete
        assert text == original
        return
    head, marker, rest = text.partition("[... ")
    counts, _, tail = rest.partition(" left out here; advice ...]\n")
    assert marker
    assert original.startswith(head.removesuffix("\n"))
    assert original.endswith(tail)
    lost, lines = (int(count.split()[0].replace(",", "")) for count in counts.split(", "))
    start = (
        len(head)
        if original.startswith(head) and len(head) + lost + len(tail) == len(original)
        else len(head) - 1
    )
    assert start + lost + len(tail) == len(original)
    assert original.count("\n", start, start + lost) == lines
    assert len(head) + len(tail) <= limit + 1


@settings(deadline=None)
@given(texts, st.integers(2, 120))
def test_chunking_does_not_change_the_result(text: str, limit: int) -> None:
    truncated = TruncatedText(limit)
    for character in text:
        truncated.add(character)
    assert truncated.text() == truncate(text, limit)


def test_cut_is_at_line_breaks_when_cheap() -> None:
    text = "".join(f"line {n}\n" for n in range(100))
    assert truncate(text, 40, "look closer") == (
        "line 0\nline 1\n[... 760 characters, 96 lines left out here; look closer ...]\nline 98\nline 99\n"
    )


def test_colors_progress_and_erased_characters_are_removed() -> None:
    assert clean_output("\x1b[1;31mred\x1b[0m and \x1b]0;title\x07plain\n") == "red and plain\n"
    assert clean_output("10%\r50%\r100%\ndone\r\n") == "100%\ndone\n"
    assert clean_output("passwrod\b\b\bord\n") == "password\n"
    assert clean_output("bell\x07 \x00nul\tkept\n") == "bell nul\tkept\n"
    assert clean_output("\x1b]8;;unterminated\nnext line\n") == "\nnext line\n"


@settings(deadline=None)
@given(st.text())
def test_any_text_can_be_made_readable(text: str) -> None:
    clean = clean_output(text)
    assert "\x1b" not in clean
    assert "\r" not in clean
    assert "\b" not in clean
    assert clean_output(clean) == clean


@settings(deadline=None)
@given(st.lists(st.text(st.sampled_from("ab%\n\r"), max_size=10), max_size=10))
def test_transcript_equals_the_readable_output(chunks: list[str]) -> None:
    transcript = CommandOutput(10_000)
    for chunk in chunks:
        transcript.add(chunk)
    assert transcript.text() == clean_output("".join(chunks))


def test_endless_line_stays_within_the_limit() -> None:
    transcript = CommandOutput(1000)
    for _ in range(100):
        transcript.add("x" * 1000)
    assert not transcript.complete
    assert len(transcript.text()) < 6000
    spinner = CommandOutput(1000)
    for n in range(10_000):
        spinner.add(f"{n:5}%\r")
    assert spinner.text() == " 9999%"
