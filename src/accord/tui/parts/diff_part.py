"""Diffs, unified or side by side, and text in which nothing is hidden.

Imported on first use.
"""

import difflib
import re
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rich.cells import cell_len
from rich.text import Text
from textual.strip import Strip

from accord.safe_text import clean_line, clean_text, visible
from accord.text_width import count_text
from accord.tui.parts.part import DrawnPart, estimate_lines, highlight, language_of, strip_of, wrap_cells

if TYPE_CHECKING:
    from rich.style import Style

    from accord.tui.theme import Palette


CONTEXT_LINES: Final = 3
FOLDED_LINES: Final = 40
_MARGIN: Final = 4
SIDE_BY_SIDE_WIDTH: Final = 159
"""From this width on, diffs are side by side: that of the conversation on a screen of 160 columns."""
_FRAME_WIDTH: Final = 4
"""Columns of the frame around a question."""
MIN_SIDE_BY_SIDE_WIDTH: Final = 60
"""The same if the user has chosen side by side."""
MAX_COMPARED_LINES: Final = 20_000
"""Longer files are not compared line by line, and at most so many lines of a change are shown."""
MAX_IMMEDIATE_LINES: Final = 400
"""Files with up to so many lines are compared immediately; others in a thread."""


class DiffRow(NamedTuple):
    """The line numbers on both sides; None if a side has no line."""

    before: int | None
    after: int | None


Side: TypeAlias = tuple[int, bool | None]
"""A line number, and True if the line is added, False if removed, None if unchanged."""


class Comparison(NamedTuple):
    """The rows of a diff. None is a gap between rows."""

    before: list[str]
    after: list[str]
    rows: list[DiffRow | None]
    added: int
    removed: int


def compare(before: str | None, after: str) -> Comparison:
    """Clean and compare two texts."""
    old, new = _lines(before or ""), _lines(after)
    if len(old) + len(new) > MAX_COMPARED_LINES:
        return _compare_ends(old, new)
    rows: list[DiffRow | None] = []
    added = removed = 0
    for group in difflib.SequenceMatcher(None, old, new, autojunk=len(old) > 500).get_grouped_opcodes(
        CONTEXT_LINES
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


def _compare_ends(old: list[str], new: list[str]) -> Comparison:
    """Return one change between the common first and last lines. Cuts both sides if it is too long."""
    min_length = min(len(old), len(new))
    start = next((at for at in range(min_length) if old[at] != new[at]), min_length)
    end = next((at for at in range(min_length - start) if old[-1 - at] != new[-1 - at]), min_length - start)
    removed, added = range(start, len(old) - end), range(start, len(new) - end)
    rows: list[DiffRow | None] = [DiffRow(at, at) for at in range(max(start - CONTEXT_LINES, 0), start)]
    for numbers, is_removed in ((removed, True), (added, False)):
        rows += [
            DiffRow(at, None) if is_removed else DiffRow(None, at)
            for at in numbers[: MAX_COMPARED_LINES // 2]
        ]
        if len(numbers) > MAX_COMPARED_LINES // 2:
            rows.append(None)
    rows += [DiffRow(len(old) - end + at, len(new) - end + at) for at in range(min(end, CONTEXT_LINES))]
    return Comparison(old, new, rows, len(added), len(removed))


_WORD: Final = re.compile(r"\w+|\s+|.", re.DOTALL)
_MAX_WORD_DIFF: Final = 500
"""Longer lines are not compared word by word."""
_MIN_SIMILAR: Final = 0.3
Spans: TypeAlias = tuple[tuple[int, int], ...]


def marked_pair(old: str, new: str) -> tuple[Spans, Spans]:
    """What differs between a line and the one that replaces it; nothing if they have little in common."""
    if max(len(old), len(new)) > _MAX_WORD_DIFF:
        return (), ()
    old_words, new_words = _WORD.findall(old), _WORD.findall(new)
    matcher = difflib.SequenceMatcher(None, old_words, new_words, autojunk=False)
    if matcher.ratio() < _MIN_SIMILAR:
        return (), ()
    old_spans: list[tuple[int, int]] = []
    new_spans: list[tuple[int, int]] = []
    old_at = new_at = 0
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        old_end = old_at + sum(map(len, old_words[old_from:old_to]))
        new_end = new_at + sum(map(len, new_words[new_from:new_to]))
        if kind != "equal":
            old_spans += [(old_at, old_end)] if old_end > old_at else []
            new_spans += [(new_at, new_end)] if new_end > new_at else []
        old_at, new_at = old_end, new_end
    return tuple(old_spans), tuple(new_spans)


class DiffPart(DrawnPart):
    """A diff of a file. `compare_later` compares the part in a thread and redraws it."""

    gap: int = 0

    def __init__(
        self,
        path: str,
        before: str | None,
        after: str,
        *,
        compare_later: "Callable[[DiffPart], None] | None" = None,
        folded: bool = True,
        framed: bool = False,
    ) -> None:
        """`framed`: it is in a question, which is narrower than the conversation."""
        super().__init__()
        self._side_by_side_width = SIDE_BY_SIDE_WIDTH - (_FRAME_WIDTH if framed else 0)
        self.path = path
        self.before = before
        self.after = after
        self.folded = folded
        self.comparison: Comparison | None = None
        size = after.count("\n") + (before or "").count("\n")
        if compare_later is None or size <= MAX_IMMEDIATE_LINES:
            self.compare()
        else:
            compare_later(self)

    def compare(self) -> None:
        """Compare the texts. Blocking."""
        self.comparison = compare(self.before, self.after)

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        comparison = self.comparison
        headline = Text("    ").append(clean_line(self.path), palette.strong)
        if comparison is None:
            return [strip_of(headline.append("  comparing…", palette.muted))]
        if self.before is None:
            headline.append("  new", palette.muted)
        headline.append(f"  +{comparison.added}", palette.good).append(f" −{comparison.removed}", palette.bad)
        if max(comparison.added, comparison.removed) > MAX_COMPARED_LINES // 2:
            shown_count = sum(row is not None for row in comparison.rows)
            if shown_count < comparison.added + comparison.removed:
                headline.append(
                    f"  too long: only {MAX_COMPARED_LINES // 2} lines of each side are shown", palette.warn
                )
        headline.truncate(width, overflow="ellipsis")
        hidden_count = 0
        if self.folded and len(comparison.rows) > MAX_IMMEDIATE_LINES:  # do not draw lines that are folded
            hidden_count = len(comparison.rows) - MAX_IMMEDIATE_LINES
            comparison = comparison._replace(rows=comparison.rows[:MAX_IMMEDIATE_LINES])
        drawing = _Drawing(self.path, comparison, palette, width)
        lines = drawing.side_by_side() if self._is_side_by_side(width, palette) else drawing.unified()
        if self.folded and len(lines) > FOLDED_LINES:
            hidden_count += len(lines) - FOLDED_LINES
            lines = [
                *lines[:FOLDED_LINES],
                strip_of(Text(f"      … {count_text(hidden_count, 'more line')}", palette.faint)),
            ]
        return [strip_of(headline), *lines]

    def _is_side_by_side(self, width: int, palette: "Palette") -> bool:
        """Whether to draw side by side, by the setting and the width."""
        min_width = MIN_SIDE_BY_SIDE_WIDTH if palette.diffs == "beside" else self._side_by_side_width
        return palette.diffs != "below" and self.before is not None and width >= min_width

    def estimate(self, width: int) -> int:
        if self.comparison is None:
            return 1
        return 1 + min(len(self.comparison.rows), FOLDED_LINES if self.folded else MAX_COMPARED_LINES)


class _Drawing:
    """Draws one comparison."""

    def __init__(self, path: str, comparison: Comparison, palette: "Palette", width: int) -> None:
        self._comparison = comparison
        self._palette = palette
        self._width = width
        self._digits = max(len(str(max(len(comparison.before), len(comparison.after)))), 2)
        language = language_of(path)
        self._before = self._highlighted(
            comparison.before, [row.before for row in comparison.rows if row], language
        )
        self._after = self._highlighted(
            comparison.after, [row.after for row in comparison.rows if row], language
        )
        self._mark_words()

    def _mark_words(self) -> None:
        """Mark what differs within the lines that replace others."""
        comparison = self._comparison
        for left, right in self._pairs():
            if left is None or right is None or left[1] is None:
                continue
            old, new = self._before.get(left[0]), self._after.get(right[0])
            if old is None or new is None:
                continue
            spans = marked_pair(comparison.before[left[0]], comparison.after[right[0]])
            for text, parts, sign in ((old, spans[0], "-"), (new, spans[1], "+")):
                for start, end in parts:
                    text.stylize(self._palette.changed(sign), start, end)

    def _highlighted(
        self, lines: list[str], line_numbers: list[int | None], language: str
    ) -> dict[int, Text]:
        """Return the visible lines, highlighted, by line number."""
        numbers = [number for number in line_numbers if number is not None]
        if not numbers:
            return {}
        first, last = min(numbers), max(numbers)
        highlighted = highlight("\n".join(lines[first : last + 1]), language, self._palette)
        return {
            number: highlighted[number - first] for number in numbers if number - first < len(highlighted)
        }

    def unified(self) -> list[Strip]:
        """Draw a unified diff."""
        out: list[Strip] = []
        for row in self._comparison.rows:
            if row is None:
                out.append(strip_of(Text(f"    {'⋯':>{self._digits}}", self._palette.faint)))
                continue
            number = row.after if row.after is not None else row.before
            text = (self._after if row.after is not None else self._before).get(number or 0, Text())
            sign, style, background = self._style(row)
            prefix = Text(f"{(number or 0) + 1:>{self._digits}} ", self._palette.faint)
            prefix.append(f"{sign} ", style)
            available = self._width - _MARGIN
            for at, piece in enumerate(wrap_cells(text, max(available - len(prefix), 1))):
                line = (prefix.copy() if at == 0 else Text(" " * len(prefix))).append_text(piece)
                if background is not None:
                    line.append(" " * max(available - cell_len(line.plain), 0))
                    line.stylize_before(background)
                out.append(strip_of(Text(" " * _MARGIN).append_text(line)))
        return out

    def side_by_side(self) -> list[Strip]:
        half = (self._width - 5) // 2
        out: list[Strip] = []
        for left, right in self._pairs():
            if left is None and right is None:
                out.append(strip_of(Text("    ⋯", self._palette.faint)))
                continue
            left_lines = self._cell(left, half, self._before)
            right_lines = self._cell(right, half, self._after)
            blank = Text(" " * half)
            for at in range(max(len(left_lines), len(right_lines))):
                line = Text("    ")
                line.append_text(left_lines[at] if at < len(left_lines) else blank.copy())
                line.append("│", self._palette.faint)
                line.append_text(right_lines[at] if at < len(right_lines) else blank.copy())
                out.append(strip_of(line))
        return out

    def _pairs(self) -> "list[tuple[Side | None, Side | None]]":
        """Pair removed with added lines."""
        pairs: list[tuple[Side | None, Side | None]] = []
        removed: list[int] = []
        added: list[int] = []

        def flush() -> None:
            removed_sides = [(number, False) for number in removed]
            added_sides = [(number, True) for number in added]
            pairs.extend(zip_longest(removed_sides, added_sides))
            removed.clear()
            added.clear()

        for row in self._comparison.rows:
            if row is None:
                flush()
                pairs.append((None, None))
            elif row.before is not None and row.after is not None:
                flush()
                pairs.append(((row.before, None), (row.after, None)))
            elif row.before is not None:
                if added:
                    flush()
                removed.append(row.before)
            elif row.after is not None:
                added.append(row.after)
        flush()
        return pairs

    def _cell(self, side: "Side | None", width: int, texts: dict[int, Text]) -> list[Text]:
        if side is None:
            return []
        number, is_added = side
        text = texts.get(number, Text())
        background = None if is_added is None else self._palette.added if is_added else self._palette.removed
        sign = " " if is_added is None else "+" if is_added else "−"
        prefix = f"{number + 1:>{self._digits}} {sign} "
        out: list[Text] = []
        for at, piece in enumerate(wrap_cells(text, max(width - len(prefix), 1))):
            line = Text(prefix if at == 0 else " " * len(prefix), self._palette.faint).append_text(piece)
            line.append(" " * max(width - cell_len(line.plain), 0))
            if background is not None:
                line.stylize_before(background)
            out.append(line)
        return out

    def _style(self, row: DiffRow) -> "tuple[str, Style, Style | None]":
        palette = self._palette
        if row.before is None:
            return "+", palette.good, palette.added
        if row.after is None:
            return "−", palette.bad, palette.removed
        return " ", palette.faint, None


def _lines(text: str) -> list[str]:
    return clean_text(text).expandtabs(4).splitlines()


_MAX_LINES: Final = 5_000


class RevealedTextPart(DrawnPart):
    """Text that the user has to judge: complete, with invisible characters escaped."""

    gap: int = 0

    def __init__(self, text: str, *, strong: bool = False, code: bool = False, quoted: bool = False) -> None:
        super().__init__()
        self.text = text
        self._strong = strong
        self._code = code
        self._quoted = quoted  # text of the agent, marked with a bar

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        source = self.text.split("\n")
        lines = [visible(line.expandtabs(4)) for line in source[:_MAX_LINES]]
        if len(source) > _MAX_LINES:
            lines.append(f"… and {count_text(len(source) - _MAX_LINES, 'more line')}")
        style = palette.strong if self._strong else palette.text
        texts = (
            highlight("\n".join(lines), "bash", palette)
            if self._code
            else [Text(line, style) for line in lines]
        )
        prefix = Text("│ ", palette.faint) if self._quoted else Text()
        out: list[Strip] = []
        for text in texts:
            out += [
                strip_of(prefix.copy().append_text(piece)) for piece in wrap_cells(text, max(width - 2, 1))
            ]
        return out

    def estimate(self, width: int) -> int:
        return estimate_lines(self.text, width)
