"""Finding a text inside a text, and putting another in its place, without disturbing anything else.

A line end matches a line end of either sort, because models do not see the difference; what is put in takes the sort of
its surroundings. Everything outside the places found stays as it is, byte for byte.
"""

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

from accord.coder.files.document import LineEnd, line_end_of, plain, with_line_end


@dataclass(frozen=True, slots=True)
class Match:
    """A stretch of the text."""

    start: int
    end: int


def find_all(text: str, wanted: str) -> list[Match]:
    """Every place of `wanted`, which is not empty, none overlapping the one before."""
    if "\r" not in text and "\r\n" not in wanted:
        return [Match(start, start + len(wanted)) for start in _starts(text, wanted)]
    bare = plain(wanted)
    lines = text.split("\r\n")
    # Where, in the text with plain line ends, a carriage return was left out.
    left_out = [end - 1 for end in accumulate(len(line) + 1 for line in lines[:-1])]

    def back(position: int) -> int:
        return position + bisect_left(left_out, position)

    found = [Match(back(start), back(start + len(bare))) for start in _starts("\n".join(lines), bare)]
    if not found and "\r" in wanted:
        return [Match(start, start + len(wanted)) for start in _starts(text, wanted)]
    return found


def put(text: str, matches: list[Match], replacement: str) -> str:
    """The text with the replacement in each of the places."""
    pieces: list[str] = []
    position = 0
    for match in matches:
        pieces += (text[position : match.start], with_line_end(replacement, _line_end_at(text, match)))
        position = match.end
    pieces.append(text[position:])
    return "".join(pieces)


def line_of(text: str, position: int) -> int:
    """The number of the line that a position is on; the first is 1."""
    return text.count("\n", 0, position) + 1


def _starts(text: str, wanted: str) -> list[int]:
    starts: list[int] = []
    position = text.find(wanted)
    while position >= 0:
        starts.append(position)
        position = text.find(wanted, position + len(wanted))
    return starts


def _line_end_at(text: str, match: Match) -> LineEnd | None:
    """The line end in use there: within the match, else the next one, else the one before."""
    inside = text[match.start : match.end]
    if "\n" in inside:
        return line_end_of(inside)
    after = text.find("\n", match.end)
    nearest = after if after >= 0 else text.rfind("\n", 0, match.start)
    return "\r\n" if nearest > 0 and text[nearest - 1] == "\r" else None
