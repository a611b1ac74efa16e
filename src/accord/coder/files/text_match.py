"""Finds and replaces text exactly; explains why a text was not found.

Both kinds of line ends match each other, because models do not see the difference. A replacement gets the
line ends around it. All other text stays unchanged.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Final

from accord.coder.files.text_document import LineEnd, line_end_of, normalize_line_ends, with_line_end


@dataclass(frozen=True, slots=True)
class Match:
    """The position of a found text."""

    start: int
    end: int


def find_all(text: str, search_text: str) -> list[Match]:
    """Return all positions of `search_text`, which must not be empty. Matches do not overlap."""
    if "\r" not in text and "\r\n" not in search_text:
        return [Match(start, start + len(search_text)) for start in _find_starts(text, search_text)]
    normalized_search = normalize_line_ends(search_text)
    lines = text.split("\r\n")
    # Positions in the text with normalized line ends where a carriage return was removed.
    removed = [end - 1 for end in accumulate(len(line) + 1 for line in lines[:-1])]

    def original_position(position: int) -> int:
        return position + bisect_left(removed, position)

    found = [
        Match(original_position(start), original_position(start + len(normalized_search)))
        for start in _find_starts("\n".join(lines), normalized_search)
    ]
    if not found and "\r" in search_text:
        return [Match(start, start + len(search_text)) for start in _find_starts(text, search_text)]
    return found


def replace_matches(text: str, matches: list[Match], replacement: str) -> str:
    """Return the text with every match replaced."""
    parts: list[str] = []
    position = 0
    for match in matches:
        parts += (text[position : match.start], with_line_end(replacement, _line_end_at(text, match)))
        position = match.end
    parts.append(text[position:])
    return "".join(parts)


def line_number_at(text: str, position: int) -> int:
    """Return the line number of a position. The first line is 1."""
    return text.count("\n", 0, position) + 1


def _find_starts(text: str, search_text: str) -> list[int]:
    starts: list[int] = []
    position = text.find(search_text)
    while position >= 0:
        starts.append(position)
        position = text.find(search_text, position + len(search_text))
    return starts


def _line_end_at(text: str, match: Match) -> LineEnd | None:
    """Return the line end within the match, else the next one, else the previous one."""
    inside = text[match.start : match.end]
    if "\n" in inside:
        return line_end_of(inside)
    after = text.find("\n", match.end)
    nearest = after if after >= 0 else text.rfind("\n", 0, match.start)
    return "\r\n" if nearest > 0 and text[nearest - 1] == "\r" else None


_LINE_NUMBERS: Final = re.compile(r"^[ \t]*\d+(?:\t|→|\| ?)", re.MULTILINE)
_TYPOGRAPHY: Final = str.maketrans(
    {"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "\u00a0": " ", "…": "..."}
)
_ESCAPES: Final = (("\\n", "\n"), ("\\t", "\t"), ('\\"', '"'), ("\\'", "'"))
_MAX_SHOWN_LINES: Final = 12
_MAX_COMPARED_LINES: Final = 20_000
_MAX_COMPARED_CHARS: Final = 300
_MIN_SIMILARITY: Final = 0.6


def number_lines(lines: Sequence[str], first: int) -> str:
    """Return the lines with their numbers, as `read_file` shows them."""
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, first))


def explain_mismatch(text: str, search_text: str) -> str:
    """Explain why `search_text` is not in the text: a likely mistake, or the most similar lines."""
    if not text:
        return "The file is empty."
    search_text = normalize_line_ends(search_text)
    for mistake, repair in _MISTAKES:
        repaired = repair(search_text)
        if repaired != search_text and repaired.strip() and (found := find_all(text, repaired)):
            return f"{mistake} Without that it matches at line {line_number_at(text, found[0].start)}."
    lines = normalize_line_ends(text).split("\n")
    return (
        _whitespace_difference(lines, search_text)
        or _spelling_difference(text, search_text)
        or _nearest_lines(lines, search_text)
    )


def _without_escapes(text: str) -> str:
    for escape, character in _ESCAPES:
        text = text.replace(escape, character)
    return text


_MISTAKES: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    (
        "It contains the line numbers that read_file shows; they are not in the file.",
        lambda text: _LINE_NUMBERS.sub("", text),
    ),
    ("It has blank lines or spaces around it that are not in the file.", str.strip),
    ('It is escaped once too often: a \\n in it should be a line end, a \\" a quote.', _without_escapes),
)


def _whitespace_difference(lines: Sequence[str], search_text: str) -> str | None:
    """Find lines that differ only in whitespace."""
    search_lines = search_text.strip("\n").split("\n")
    words = [line.split() for line in search_lines]
    if not any(words):
        return None
    for start in range(len(lines) - len(search_lines) + 1):
        if lines[start].split() == words[0] and all(
            lines[start + i].split() == words[i] for i in range(1, len(search_lines))
        ):
            file_lines = lines[start : start + len(search_lines)]
            difference = _describe_whitespace(search_lines, file_lines)
            return (
                f"Lines {start + 1}-{start + len(search_lines)} differ only in {difference}; "
                "the file has:\n" + _excerpt(file_lines, start + 1)
            )
    return None


def _describe_whitespace(search_lines: Sequence[str], file_lines: Sequence[str]) -> str:
    pairs = list(zip(search_lines, file_lines, strict=True))
    if all(search_line.rstrip() == file_line.rstrip() for search_line, file_line in pairs):
        return "spaces at the ends of lines"
    if all(search_line.strip() == file_line.strip() for search_line, file_line in pairs):
        file_has_tabs = any("\t" in line[: len(line) - len(line.lstrip())] for line in file_lines)
        search_has_tabs = any("\t" in line[: len(line) - len(line.lstrip())] for line in search_lines)
        return "indentation" + (
            f" ({'tabs' if file_has_tabs else 'spaces'} in the file)"
            if file_has_tabs != search_has_tabs
            else ""
        )
    return "whitespace"


def _without_typography(text: str) -> str:
    return text.translate(_TYPOGRAPHY)


_NORMALIZATIONS: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    ("quotes, dashes or other typographic characters", _without_typography),
    ("upper and lower case", str.casefold),
)


def _spelling_difference(text: str, search_text: str) -> str | None:
    text = normalize_line_ends(text)
    for difference, normalize in _NORMALIZATIONS:
        position = normalize(text).find(normalize(search_text))
        if position >= 0:
            first = line_number_at(normalize(text), position)
            file_lines = text.split("\n")[first - 1 : first + search_text.count("\n")]
            return f"Line {first} differs only in {difference}; the file has:\n" + _excerpt(file_lines, first)
    return None


def _nearest_lines(lines: Sequence[str], search_text: str) -> str:
    """Show the lines around the one that is most similar to the longest line of the search text."""
    search_lines = search_text.strip("\n").split("\n")
    anchor = max(range(len(search_lines)), key=lambda number: len(search_lines[number].strip()))
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(search_lines[anchor].strip()[:_MAX_COMPARED_CHARS])
    best, best_index = _MIN_SIMILARITY, -1
    for number, line in enumerate(lines[:_MAX_COMPARED_LINES]):
        matcher.set_seq1(line.strip()[:_MAX_COMPARED_CHARS])
        if (
            matcher.real_quick_ratio() > best
            and matcher.quick_ratio() > best
            and (ratio := matcher.ratio()) > best
        ):
            best, best_index = ratio, number
    if best_index < 0:
        return "Nothing like it is in the file."
    start = max(best_index - anchor, 0)
    file_lines = lines[start : start + max(len(search_lines), 1)]
    return "The nearest lines in the file are:\n" + _excerpt(file_lines, start + 1)


def _excerpt(lines: Sequence[str], first: int) -> str:
    hidden_lines = len(lines) - _MAX_SHOWN_LINES
    shown = number_lines([line[:_MAX_COMPARED_CHARS] for line in lines[:_MAX_SHOWN_LINES]], first)
    return shown + (f"\n(and {hidden_lines} more)" if hidden_lines > 0 else "")
