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

from accord.coder.files.text_document import LineEnd, line_end_of, plain, with_line_end


@dataclass(frozen=True, slots=True)
class Match:
    """The position of a found text."""

    start: int
    end: int


def find_all(text: str, wanted: str) -> list[Match]:
    """Return all positions of `wanted`, which must not be empty. Matches do not overlap."""
    if "\r" not in text and "\r\n" not in wanted:
        return [Match(start, start + len(wanted)) for start in _starts(text, wanted)]
    bare = plain(wanted)
    lines = text.split("\r\n")
    # Positions in the text with plain line ends where a carriage return was removed.
    removed = [end - 1 for end in accumulate(len(line) + 1 for line in lines[:-1])]

    def back(position: int) -> int:
        return position + bisect_left(removed, position)

    found = [Match(back(start), back(start + len(bare))) for start in _starts("\n".join(lines), bare)]
    if not found and "\r" in wanted:
        return [Match(start, start + len(wanted)) for start in _starts(text, wanted)]
    return found


def replace_matches(text: str, matches: list[Match], replacement: str) -> str:
    """Return the text with every match replaced."""
    pieces: list[str] = []
    position = 0
    for match in matches:
        pieces += (text[position : match.start], with_line_end(replacement, _line_end_at(text, match)))
        position = match.end
    pieces.append(text[position:])
    return "".join(pieces)


def line_of(text: str, position: int) -> int:
    """Return the line number of a position. The first line is 1."""
    return text.count("\n", 0, position) + 1


def _starts(text: str, wanted: str) -> list[int]:
    starts: list[int] = []
    position = text.find(wanted)
    while position >= 0:
        starts.append(position)
        position = text.find(wanted, position + len(wanted))
    return starts


def _line_end_at(text: str, match: Match) -> LineEnd | None:
    """Return the line end within the match, else the next one, else the previous one."""
    inside = text[match.start : match.end]
    if "\n" in inside:
        return line_end_of(inside)
    after = text.find("\n", match.end)
    nearest = after if after >= 0 else text.rfind("\n", 0, match.start)
    return "\r\n" if nearest > 0 and text[nearest - 1] == "\r" else None


_NUMBERED: Final = re.compile(r"^[ \t]*\d+(?:\t|→|\| ?)", re.MULTILINE)
_TYPOGRAPHY: Final = str.maketrans(
    {"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "\u00a0": " ", "…": "..."}
)
_ESCAPES: Final = (("\\n", "\n"), ("\\t", "\t"), ('\\"', '"'), ("\\'", "'"))
_MOST_SHOWN: Final = 12
_MOST_COMPARED: Final = 20_000
_LONGEST_COMPARED: Final = 300
_ALIKE: Final = 0.6


def numbered(lines: Sequence[str], first: int) -> str:
    """Return the lines with their numbers, as `read_file` shows them."""
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, first))


def explain_mismatch(text: str, wanted: str) -> str:
    """Explain why `wanted` is not in the text: the likely mistake, or the lines that were probably meant."""
    if not text:
        return "The file is empty."
    wanted = plain(wanted)
    for mistake, repair in _MISTAKES:
        repaired = repair(wanted)
        if repaired != wanted and repaired.strip() and (found := find_all(text, repaired)):
            return f"{mistake} Without that it matches at line {line_of(text, found[0].start)}."
    lines = plain(text).split("\n")
    return (
        _whitespace_difference(lines, wanted)
        or _spelling_difference(text, wanted)
        or _nearest_lines(lines, wanted)
    )


def _without_escapes(text: str) -> str:
    for written, meant in _ESCAPES:
        text = text.replace(written, meant)
    return text


_MISTAKES: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    (
        "It contains the line numbers that read_file shows; they are not in the file.",
        lambda text: _NUMBERED.sub("", text),
    ),
    ("It has blank lines or spaces around it that are not in the file.", str.strip),
    ('It is escaped once too often: a \\n in it should be a line end, a \\" a quote.', _without_escapes),
)


def _whitespace_difference(lines: Sequence[str], wanted: str) -> str | None:
    """Find lines that differ only in whitespace."""
    asked = wanted.strip("\n").split("\n")
    words = [line.split() for line in asked]
    if not any(words):
        return None
    for start in range(len(lines) - len(asked) + 1):
        if lines[start].split() == words[0] and all(
            lines[start + i].split() == words[i] for i in range(1, len(asked))
        ):
            there = lines[start : start + len(asked)]
            return (
                f"Lines {start + 1}-{start + len(asked)} differ only in {_kind_of_whitespace(asked, there)}; "
                "the file has:\n" + _shown(there, start + 1)
            )
    return None


def _kind_of_whitespace(asked: Sequence[str], there: Sequence[str]) -> str:
    pairs = list(zip(asked, there, strict=True))
    if all(one.rstrip() == other.rstrip() for one, other in pairs):
        return "spaces at the ends of lines"
    if all(one.strip() == other.strip() for one, other in pairs):
        tabs = any("\t" in line[: len(line) - len(line.lstrip())] for line in there)
        asked_tabs = any("\t" in line[: len(line) - len(line.lstrip())] for line in asked)
        return "indentation" + (
            f" ({'tabs' if tabs else 'spaces'} in the file)" if tabs != asked_tabs else ""
        )
    return "whitespace"


def _plain_type(text: str) -> str:
    return text.translate(_TYPOGRAPHY)


_SPELLINGS: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    ("quotes, dashes or other typographic characters", _plain_type),
    ("upper and lower case", str.casefold),
)


def _spelling_difference(text: str, wanted: str) -> str | None:
    plain_text = plain(text)
    for what, same in _SPELLINGS:
        position = same(plain_text).find(same(wanted))
        if position >= 0:
            first = line_of(same(plain_text), position)
            there = plain_text.split("\n")[first - 1 : first + wanted.count("\n")]
            return f"Line {first} differs only in {what}; the file has:\n" + _shown(there, first)
    return None


def _nearest_lines(lines: Sequence[str], wanted: str) -> str:
    """Show the lines around the one that is most similar to the longest line of the wanted text."""
    asked = wanted.strip("\n").split("\n")
    anchor = max(range(len(asked)), key=lambda number: len(asked[number].strip()))
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(asked[anchor].strip()[:_LONGEST_COMPARED])
    best, at = _ALIKE, -1
    for number, line in enumerate(lines[:_MOST_COMPARED]):
        matcher.set_seq1(line.strip()[:_LONGEST_COMPARED])
        if (
            matcher.real_quick_ratio() > best
            and matcher.quick_ratio() > best
            and (ratio := matcher.ratio()) > best
        ):
            best, at = ratio, number
    if at < 0:
        return "Nothing like it is in the file."
    start = max(at - anchor, 0)
    there = lines[start : start + max(len(asked), 1)]
    return "The nearest lines in the file are:\n" + _shown(there, start + 1)


def _shown(lines: Sequence[str], first: int) -> str:
    more = len(lines) - _MOST_SHOWN
    listed = numbered([line[:_LONGEST_COMPARED] for line in lines[:_MOST_SHOWN]], first)
    return listed + (f"\n(and {more} more)" if more > 0 else "")
