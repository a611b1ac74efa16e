"""File changes, inline or side by side; text to be judged with nothing hidden.

Imported on first use.
"""

import difflib
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rich.cells import cell_len
from rich.text import Text
from textual.strip import Strip

from accord.safe_text import clean_line, clean_text, visible
from accord.tui.parts.part import DrawnPart, folded, highlighted, language_of, lines_of, strip_of

if TYPE_CHECKING:
    from rich.style import Style

    from accord.tui.theme import Palette


# MERGED tui.parts.diff: A change of a file: with numbers and colours, one line after the other, or side by side where there is room.
#
# The comparison is made once; of large files in a thread, since it takes time.

CONTEXT: Final = 3
FOLDED_LINES: Final = 40
_MARGIN: Final = 4
WIDE: Final = 130
"""From this width on the two sides stand beside each other."""
NARROW: Final = 60
"""The same where the user wants it."""
TOO_LONG: Final = 20_000
"""Files of more lines are not compared line by line, and of a longer change so many lines are shown."""
AT_ONCE: Final = 400
"""Files of so many lines are compared on the spot."""


class DiffRow(NamedTuple):
    """A line on either side; the number is None where that side has none."""

    before: int | None
    after: int | None


Side: TypeAlias = tuple[int, bool | None]
"""The number of a line, and True for one that comes, False for one that goes, None for one that stays."""


class Comparison(NamedTuple):
    """What differs. A gap between rows that lie apart is None."""

    before: list[str]
    after: list[str]
    rows: list[DiffRow | None]
    added: int
    removed: int


def compare(before: str | None, after: str) -> Comparison:
    """Compare two texts, which are cleaned first."""
    old, new = _lines(before or ""), _lines(after)
    if len(old) + len(new) > TOO_LONG:
        return _roughly(old, new)
    rows: list[DiffRow | None] = []
    added = removed = 0
    for group in difflib.SequenceMatcher(None, old, new, autojunk=len(old) > 500).get_grouped_opcodes(
        CONTEXT
    ):
        if rows:
            rows.append(None)
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                rows += [DiffRow(old_from + at, new_from + at) for at in range(old_to - old_from)]
                continue
            removed += old_to - old_from
            added += new_to - new_from
            rows += [DiffRow(at, None) for at in range(old_from, old_to)]
            rows += [DiffRow(None, at) for at in range(new_from, new_to)]
    return Comparison(old, new, rows, added, removed)


def _roughly(old: list[str], new: list[str]) -> Comparison:
    """What lies between the lines that both begin and end with, as one change. What is cut off is cut off on both sides:
    nobody agrees to a change of which they see only what goes."""
    least = min(len(old), len(new))
    start = next((at for at in range(least) if old[at] != new[at]), least)
    end = next((at for at in range(least - start) if old[-1 - at] != new[-1 - at]), least - start)
    gone, came = range(start, len(old) - end), range(start, len(new) - end)
    rows: list[DiffRow | None] = [DiffRow(at, at) for at in range(max(start - CONTEXT, 0), start)]
    for numbers, goes in ((gone, True), (came, False)):
        rows += [DiffRow(at, None) if goes else DiffRow(None, at) for at in numbers[: TOO_LONG // 2]]
        if len(numbers) > TOO_LONG // 2:
            rows.append(None)
    rows += [DiffRow(len(old) - end + at, len(new) - end + at) for at in range(min(end, CONTEXT))]
    return Comparison(old, new, rows, len(came), len(gone))


class DiffPart(DrawnPart):
    """A change. `path` is what to show, `later` runs a function in a thread and then draws this anew."""

    gap = 0

    def __init__(
        self,
        path: str,
        before: str | None,
        after: str,
        *,
        later: "Callable[[DiffPart], None] | None" = None,
        folded: bool = True,
    ) -> None:
        super().__init__()
        self.path = path
        self.before = before
        self.after = after
        self.folded = folded
        self.compared: Comparison | None = None
        size = after.count("\n") + (before or "").count("\n")
        if later is None or size <= AT_ONCE:
            self.compare()
        else:
            later(self)

    def compare(self) -> None:
        """Make the comparison."""
        self.compared = compare(self.before, self.after)

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        compared = self.compared
        head = Text("    ").append(clean_line(self.path), palette.strong)
        if compared is None:
            return [strip_of(head.append("  comparing…", palette.muted))]
        if self.before is None:
            head.append("  new", palette.muted)
        head.append(f"  +{compared.added}", palette.good).append(f" −{compared.removed}", palette.bad)
        if max(compared.added, compared.removed) > TOO_LONG // 2:
            shown = sum(row is not None for row in compared.rows)
            if shown < compared.added + compared.removed:
                head.append(f"  too long: of either side {TOO_LONG // 2} lines are shown", palette.warn)
        head.truncate(width, overflow="ellipsis")
        left = 0
        if self.folded and len(compared.rows) > AT_ONCE:  # most of it would be drawn in vain
            left = len(compared.rows) - AT_ONCE
            compared = compared._replace(rows=compared.rows[:AT_ONCE])
        drawing = _Drawing(self.path, compared, palette, width)
        lines = drawing.beside() if self._beside(width, palette) else drawing.below()
        if self.folded and len(lines) > FOLDED_LINES:
            left += len(lines) - FOLDED_LINES
            lines = [*lines[:FOLDED_LINES], strip_of(Text(f"      … {left} more lines", palette.faint))]
        return [strip_of(head), *lines]

    def _beside(self, width: int, palette: "Palette") -> bool:
        """Whether the sides stand beside each other: as the user wants it, where there is something to compare and room."""
        least = NARROW if palette.diffs == "beside" else WIDE
        return palette.diffs != "below" and self.before is not None and width >= least

    def estimate(self, width: int) -> int:
        if self.compared is None:
            return 1
        return 1 + min(len(self.compared.rows), FOLDED_LINES if self.folded else TOO_LONG)


class _Drawing:
    """One comparison on one palette."""

    def __init__(self, path: str, compared: Comparison, palette: "Palette", width: int) -> None:
        self._compared = compared
        self._palette = palette
        self._width = width
        self._digits = max(len(str(max(len(compared.before), len(compared.after)))), 2)
        language = language_of(path)
        self._before = self._coloured(compared.before, [row.before for row in compared.rows if row], language)
        self._after = self._coloured(compared.after, [row.after for row in compared.rows if row], language)

    def _coloured(self, lines: list[str], wanted: list[int | None], language: str) -> dict[int, Text]:
        """The lines that are shown, each with its colours; lexed as far as the last of them."""
        numbers = [number for number in wanted if number is not None]
        if not numbers:
            return {}
        first, last = min(numbers), max(numbers)
        painted = highlighted("\n".join(lines[first : last + 1]), language, self._palette)
        return {number: painted[number - first] for number in numbers if number - first < len(painted)}

    def below(self) -> list[Strip]:
        """One side after the other."""
        out: list[Strip] = []
        for row in self._compared.rows:
            if row is None:
                out.append(strip_of(Text(f"    {'⋯':>{self._digits}}", self._palette.faint)))
                continue
            number = row.after if row.after is not None else row.before
            text = (self._after if row.after is not None else self._before).get(number or 0, Text())
            sign, style, ground = self._look(row)
            lead = Text(f"{(number or 0) + 1:>{self._digits}} ", self._palette.faint)
            lead.append(f"{sign} ", style)
            room = self._width - _MARGIN
            for at, piece in enumerate(folded(text, max(room - len(lead), 1))):
                line = (lead.copy() if at == 0 else Text(" " * len(lead))).append_text(piece)
                if ground is not None:
                    line.append(" " * max(room - cell_len(line.plain), 0))
                    line.stylize_before(ground)
                out.append(strip_of(Text(" " * _MARGIN).append_text(line)))
        return out

    def beside(self) -> list[Strip]:
        """Both sides, line by line."""
        half = (self._width - 5) // 2
        out: list[Strip] = []
        for left, right in self._pairs():
            if left is None and right is None:
                out.append(strip_of(Text("    ⋯", self._palette.faint)))
                continue
            one = self._cell(left, half, self._before)
            other = self._cell(right, half, self._after)
            blank = Text(" " * half)
            for at in range(max(len(one), len(other))):
                line = Text("    ")
                line.append_text(one[at] if at < len(one) else blank.copy())
                line.append("│", self._palette.faint)
                line.append_text(other[at] if at < len(other) else blank.copy())
                out.append(strip_of(line))
        return out

    def _pairs(self) -> "list[tuple[Side | None, Side | None]]":
        """What stands beside what."""
        pairs: list[tuple[Side | None, Side | None]] = []
        gone: list[int] = []
        came: list[int] = []

        def settle() -> None:
            befores = [(number, False) for number in gone]
            afters = [(number, True) for number in came]
            pairs.extend(zip_longest(befores, afters))
            gone.clear()
            came.clear()

        for row in self._compared.rows:
            if row is None:
                settle()
                pairs.append((None, None))
            elif row.before is not None and row.after is not None:
                settle()
                pairs.append(((row.before, None), (row.after, None)))
            elif row.before is not None:
                if came:
                    settle()
                gone.append(row.before)
            elif row.after is not None:
                came.append(row.after)
        settle()
        return pairs

    def _cell(self, side: "Side | None", width: int, texts: dict[int, Text]) -> list[Text]:
        if side is None:
            return []
        number, came = side
        text = texts.get(number, Text())
        ground = None if came is None else self._palette.added if came else self._palette.removed
        sign = " " if came is None else "+" if came else "−"
        lead = f"{number + 1:>{self._digits}} {sign} "
        out: list[Text] = []
        for at, piece in enumerate(folded(text, max(width - len(lead), 1))):
            line = Text(lead if at == 0 else " " * len(lead), self._palette.faint).append_text(piece)
            line.append(" " * max(width - cell_len(line.plain), 0))
            if ground is not None:
                line.stylize_before(ground)
            out.append(line)
        return out

    def _look(self, row: DiffRow) -> "tuple[str, Style, Style | None]":
        palette = self._palette
        if row.before is None:
            return "+", palette.good, palette.added
        if row.after is None:
            return "−", palette.bad, palette.removed
        return " ", palette.faint, None


def _lines(text: str) -> list[str]:
    return clean_text(text).expandtabs(4).splitlines()


# MERGED tui.parts.judged: What somebody is to judge: whole, with everything spelled out that could hide or rewrite something.

_MOST_LINES: Final = 5_000


class RevealedTextPart(DrawnPart):
    """Some lines of that."""

    gap = 0

    def __init__(self, text: str, *, strong: bool = False, code: bool = False, quoted: bool = False) -> None:
        super().__init__()
        self.text = text
        self._strong = strong
        self._code = code
        self._quoted = quoted  # the agent's own words: nothing in them can pass for ours

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        source = self.text.split("\n")
        lines = [visible(line.expandtabs(4)) for line in source[:_MOST_LINES]]
        if len(source) > _MOST_LINES:
            lines.append(f"… and {len(source) - _MOST_LINES} lines more")
        style = palette.strong if self._strong else palette.text
        texts = (
            highlighted("\n".join(lines), "bash", palette)
            if self._code
            else [Text(line, style) for line in lines]
        )
        lead = Text("│ ", palette.faint) if self._quoted else Text()
        out: list[Strip] = []
        for text in texts:
            out += [strip_of(lead.copy().append_text(piece)) for piece in folded(text, max(width - 2, 1))]
        return out

    def estimate(self, width: int) -> int:
        return lines_of(self.text, width)
