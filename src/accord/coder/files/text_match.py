"""Finds and replaces text; explains why a text was not found.

Both kinds of line ends match each other, because models do not see the difference. A replacement gets the
line ends around it. All other text stays unchanged. A text that is not there exactly can be found loosely:
whole lines, in one place only.
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
    plain, original_position = _with_line_feeds(text)
    found = [
        Match(original_position(start), original_position(start + len(normalized_search)))
        for start in _find_starts(plain, normalized_search)
    ]
    if not found and "\r" in search_text:
        return [Match(start, start + len(search_text)) for start in _find_starts(text, search_text)]
    return found


def find_another(text: str, search_text: str, match: Match) -> Match | None:
    """Return the next position of `search_text` behind the start of a match; it may overlap the match."""
    start = match.start + (2 if text.startswith("\r\n", match.start) else 1)
    found = find_all(text[start:], search_text)
    return Match(start + found[0].start, start + found[0].end) if found else None


def _with_line_feeds(text: str) -> tuple[str, Callable[[int], int]]:
    """Return the text with line feeds as line ends, and the function from its positions to the original's."""
    lines = text.split("\r\n")
    # Positions in the new text where a carriage return was removed.
    removed = [end - 1 for end in accumulate(len(line) + 1 for line in lines[:-1])]
    return "\n".join(lines), lambda position: position + bisect_left(removed, position)


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


_LINE_NUMBERS: Final = re.compile(r"^[ \t]*\d{1,9}(?:\t|→|\| ?)", re.MULTILINE)
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


@dataclass(frozen=True, slots=True)
class LooseMatch:
    """The only place that differs from a searched text in nothing but line numbers or blanks."""

    match: Match
    replacement: str
    """The replacement with the same correction."""
    difference: str
    """What differs."""


def find_loosely(text: str, search_text: str, replacement: str) -> LooseMatch | None:
    """Return the only place that matches whole lines apart from copied line numbers, blanks at the ends of
    lines, or the same indentation for all lines. None if there is no such place, or more than one.
    """
    plain, original_position = _with_line_feeds(text)
    searched, new = normalize_line_ends(search_text), normalize_line_ends(replacement)
    differences: list[str] = []
    if (unnumbered := _without_line_numbers(searched)) is not None:
        searched = unnumbered
        if _LINE_NUMBERS.search(new):
            unnumbered = _without_line_numbers(new, consecutive=False)
            if unnumbered is None:
                return None
            new = unnumbered
        differences.append("line numbers")
    if not searched.strip():
        return None
    found = _find_lines(plain, searched, ignored="")
    if not (differences and found):
        differences.append("blanks at the ends of lines")
        found = _find_lines(plain, searched, ignored=r"[ \t]*")
    if not found:
        differences[-1] = "indentation"
        found, new = _find_indented(plain, searched, new)
    if len(found) != 1:
        return None
    match = Match(original_position(found[0].start), original_position(found[0].end))
    return LooseMatch(match, new, " and ".join(differences))


def _without_line_numbers(text: str, *, consecutive: bool = True) -> str | None:
    """Return the text without the numbers that `read_file` shows; None if a line has none."""
    lines, numbers = list[str](), list[int]()
    for line in text.split("\n"):
        number = _LINE_NUMBERS.match(line)
        if number is not None:
            numbers.append(int(re.sub(r"\D", "", number[0])))
        elif line.strip():
            return None
        lines.append(line[number.end() :] if number else line)
    if not numbers or (consecutive and numbers != list(range(numbers[0], numbers[0] + len(numbers)))):
        return None
    return "\n".join(lines)


def _find_lines(text: str, search_text: str, *, ignored: str) -> list[Match]:
    """Return all places with these whole lines, also those that overlap.

    `ignored`: what may stand at the ends of lines, a pattern.
    """
    lines = [line.rstrip(" \t") if ignored else line for line in search_text.split("\n")]
    pattern = f"{ignored}\n".join(map(re.escape, lines)) + (
        "" if search_text.endswith("\n") else f"{ignored}$"
    )
    found = re.finditer(f"^(?=({pattern}))", text, re.MULTILINE)
    return [Match(place.start(1), place.end(1)) for place in found]


def _find_indented(text: str, search_text: str, replacement: str) -> tuple[list[Match], str]:
    """Return the places where all lines have more, or less, indentation, and the replacement with it."""
    search_lines, lines = search_text.removesuffix("\n").split("\n"), text.split("\n")
    words = [line.strip() for line in search_lines]
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    found: list[Match] = []
    shifted = replacement
    for first in range(len(lines) - len(words) + 1):
        if lines[first].strip() != words[0]:
            continue
        file_lines = lines[first : first + len(words)]
        if [line.strip() for line in file_lines] != words:
            continue
        indented = _shift_lines(replacement, _indentation_shift(search_lines, file_lines))
        end = starts[first + len(words)] - (not search_text.endswith("\n"))
        if indented is not None and end <= len(text):
            found.append(Match(starts[first], end))
            shifted = indented
    return found, shifted


def _indentation_shift(search_lines: Sequence[str], file_lines: Sequence[str]) -> tuple[str, str] | None:
    """Return what to remove from and to add to the indentation of each line; None if lines differ in that."""
    shifts: set[tuple[str, str]] = set()
    for search_line, file_line in zip(search_lines, file_lines, strict=True):
        if not file_line.strip():
            continue
        given, real = _indentation(search_line), _indentation(file_line)
        if real.endswith(given):
            shifts.add(("", real[: len(real) - len(given)]))
        elif given.endswith(real):
            shifts.add((given[: len(given) - len(real)], ""))
        else:
            return None
    return shifts.pop() if len(shifts) == 1 else None


def _shift_lines(text: str, shift: tuple[str, str] | None) -> str | None:
    if shift is None:
        return None
    removed, added = shift
    lines = text.split("\n")
    if any(line.strip() and not line.startswith(removed) for line in lines):
        return None
    return "\n".join(added + line[len(removed) :] if line.strip() else line for line in lines)


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


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
