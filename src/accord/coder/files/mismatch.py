"""Why a text is not found in a file: the likeliest slip, and the lines of the file that were probably meant."""

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Final

from accord.coder.files.document import plain
from accord.coder.files.matching import find_all, line_of

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
    """Lines with their numbers, as `read_file` shows them."""
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, first))


def why_missing(text: str, wanted: str) -> str:
    """What is wrong with `wanted`, which does not occur in the text."""
    if not text:
        return "The file is empty."
    wanted = plain(wanted)
    for slip, repair in _SLIPS:
        repaired = repair(wanted)
        if repaired != wanted and repaired.strip() and (found := find_all(text, repaired)):
            return f"{slip} Without that it matches at line {line_of(text, found[0].start)}."
    lines = plain(text).split("\n")
    return _blanks(lines, wanted) or _spelling(text, wanted) or _nearest(lines, wanted)


def _without_escapes(text: str) -> str:
    for written, meant in _ESCAPES:
        text = text.replace(written, meant)
    return text


_SLIPS: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    (
        "It carries the line numbers that read_file shows; they are not in the file.",
        lambda text: _NUMBERED.sub("", text),
    ),
    ("It has blank lines or spaces around it that are not in the file.", str.strip),
    ('It is escaped once too often: a \\n in it should be a line end, a \\" a quote.', _without_escapes),
)


def _blanks(lines: Sequence[str], wanted: str) -> str | None:
    """Lines that are the same but for blanks."""
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
                f"Lines {start + 1}-{start + len(asked)} differ only in {_how(asked, there)}; the file has:\n"
                + _shown(there, start + 1)
            )
    return None


def _how(asked: Sequence[str], there: Sequence[str]) -> str:
    pairs = list(zip(asked, there, strict=True))
    if all(one.rstrip() == other.rstrip() for one, other in pairs):
        return "blanks at the ends of lines"
    if all(one.strip() == other.strip() for one, other in pairs):
        tabs = any("\t" in line[: len(line) - len(line.lstrip())] for line in there)
        asked_tabs = any("\t" in line[: len(line) - len(line.lstrip())] for line in asked)
        return "indentation" + (
            f" ({'tabs' if tabs else 'spaces'} in the file)" if tabs != asked_tabs else ""
        )
    return "blanks"


def _plain_type(text: str) -> str:
    return text.translate(_TYPOGRAPHY)


_SPELLINGS: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    ("quotes, dashes or other typographic characters", _plain_type),
    ("upper and lower case", str.casefold),
)


def _spelling(text: str, wanted: str) -> str | None:
    plain_text = plain(text)
    for what, same in _SPELLINGS:
        position = same(plain_text).find(same(wanted))
        if position >= 0:
            first = line_of(same(plain_text), position)
            there = plain_text.split("\n")[first - 1 : first + wanted.count("\n")]
            return f"Line {first} differs only in {what}; the file has:\n" + _shown(there, first)
    return None


def _nearest(lines: Sequence[str], wanted: str) -> str:
    """The lines around the one that is most like the most telling line of what was wanted."""
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
