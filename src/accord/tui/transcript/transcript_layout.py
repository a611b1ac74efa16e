"""The items of a transcript, and the layout that maps lines to parts.

Heights are estimated until a part is visible. Only lines near the screen are kept.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from textual.strip import Strip

from accord.clock import SYSTEM_CLOCK, Clock
from accord.tui.parts.note_part import NotePart, Tone
from accord.tui.parts.part import DrawnPart

if TYPE_CHECKING:
    from accord.client import TerminalView
    from accord.tui.theme import Palette


_BLOCK: Final = 256


class HeightIndex:
    """A list of heights with fast sums: kept in blocks, so that a change costs only the blocks behind it."""

    def __init__(self) -> None:
        self._heights: list[int] = []
        self._sums: list[int] = []  # the sum of each block
        self._tops: list[int] | None = None  # the first line of each block, then the total

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    def __setitem__(self, index: int, height: int) -> None:
        self._sums[index // _BLOCK] += height - self._heights[index]
        self._heights[index] = height
        self._tops = None

    def splice(self, start: int, stop: int, heights: Iterable[int]) -> None:
        """Replace the heights from `start` to `stop`."""
        self._heights[start:stop] = heights
        first = start // _BLOCK
        del self._sums[first:]
        for at in range(first * _BLOCK, len(self._heights), _BLOCK):
            self._sums.append(sum(self._heights[at : at + _BLOCK]))
        self._tops = None

    @property
    def total(self) -> int:
        """The sum of all heights."""
        return self._block_tops()[-1]

    def top(self, index: int) -> int:
        """Return the first line of an index; for the length of the list, the total."""
        block = index // _BLOCK
        return self._block_tops()[block] + sum(self._heights[block * _BLOCK : index])

    def at(self, line: int) -> int:
        """Return the index for a line, limited to the first and the last."""
        tops = self._block_tops()
        block = min(max(bisect_right(tops, line) - 1, 0), len(self._sums) - 1)
        index, last = block * _BLOCK, len(self._heights) - 1
        bottom = tops[block] + self._heights[index]
        while bottom <= line and index < last:
            index += 1
            bottom += self._heights[index]
        return index

    def _block_tops(self) -> list[int]:
        if self._tops is None:
            self._tops = list(accumulate(self._sums, initial=0))
        return self._tops


MAX_CACHED_LINES: Final = 1_000
"""Drawn lines that are kept in memory."""


class Layout:
    """The parts from top to bottom, for one width and palette."""

    def __init__(self, palette: "Palette", width: int = 80) -> None:
        self._palette = palette
        self._width = width
        self._parts: list[DrawnPart] = []
        self._heights = HeightIndex()  # of each part, including its gap
        self._cached: OrderedDict[int, tuple[DrawnPart, list[Strip]]] = OrderedDict()
        self._cached_line_count = 0

    @property
    def parts(self) -> Sequence[DrawnPart]:
        """All parts, from top to bottom."""
        return self._parts

    @property
    def width(self) -> int:
        """The width in cells."""
        return self._width

    @property
    def height(self) -> int:
        """The number of lines, partly estimated."""
        return self._heights.total

    def show(self, parts: Sequence[DrawnPart]) -> None:
        """Replace all parts."""
        self.splice(0, len(self._parts), parts)

    def splice(self, start: int, stop: int, parts: Sequence[DrawnPart]) -> None:
        """Replace the parts from `start` to `stop`."""
        self._parts[start:stop] = parts
        end = start + len(parts)
        if start == 0 and end < len(self._parts):
            stop, end = stop + 1, end + 1  # the first part has no gap
        self._heights.splice(start, stop, [self._height(index) for index in range(start, end)])

    def change(self, width: int, palette: "Palette") -> None:
        """Redraw everything for another width or palette."""
        self._width, self._palette = max(width, 10), palette
        self._cached.clear()
        self._cached_line_count = 0
        for part in self._parts:
            part.invalidate()
        self.show(list(self._parts))

    def top(self, index: int) -> int:
        """Return the first line of a part, including its gap."""
        return self._heights.top(index)

    def first_line(self, index: int) -> int:
        """Return the first line of a part below its gap."""
        return self._heights.top(index) + self._gap(index)

    def at(self, line: int) -> int:
        """Return the index of the part at a line; there must be a part."""
        return self._heights.at(line)

    def line(self, y: int) -> Strip | None:
        """Return a line; None if it is empty."""
        if not self._parts or not 0 <= y < self.height:
            return None
        index = self.at(y)
        offset = y - self.first_line(index)
        if offset < 0:
            return None
        drawn = self._drawn(index)
        return drawn[offset] if offset < len(drawn) else None

    def measure(self, index: int) -> int:
        """Draw a part if necessary; return the difference to its estimated height."""
        if self._parts[index].height is not None:
            return 0
        before = self._heights[index]
        self._drawn(index)
        return self._heights[index] - before

    def _drawn(self, index: int) -> list[Strip]:
        part = self._parts[index]
        drawn = part.lines
        if drawn is None:
            drawn = part.lines = part.draw(self._width, self._palette)
            part.height = len(drawn)
            height = part.height + self._gap(index)
            if self._heights[index] != height:
                self._heights[index] = height
            self._cache(part, drawn)
        elif id(part) in self._cached:
            self._cached.move_to_end(id(part))
        return drawn

    def _cache(self, part: DrawnPart, drawn: list[Strip]) -> None:
        before = self._cached.pop(id(part), None)
        if before is not None:
            self._cached_line_count -= len(before[1])
        self._cached[id(part)] = (part, drawn)
        self._cached_line_count += len(drawn)
        while self._cached_line_count > MAX_CACHED_LINES and len(self._cached) > 1:
            _, (oldest, lines) = self._cached.popitem(last=False)
            self._cached_line_count -= len(lines)
            if oldest.lines is lines:
                oldest.lines = None

    def _gap(self, index: int) -> int:
        return self._parts[index].gap if index else 0

    def _height(self, index: int) -> int:
        part = self._parts[index]
        measured = part.height
        return self._gap(index) + (max(part.estimate(self._width), 1) if measured is None else measured)


class ScrollAnchor(NamedTuple):
    """A position that stays on the screen when parts around it change."""

    part: "DrawnPart"
    offset: int
    """Lines of the part above the position, including its gap."""


class ItemList:
    """The items of a transcript. Change `items`, then call `arrange`."""

    def __init__(self, palette: "Palette") -> None:
        self.items: list[Item] = []
        self.layout: Layout = Layout(palette)
        self._arranged: list[Item] = []  # the items at the last call of `arrange`
        self._starts: list[int] = [0]  # the index of the first part of each, then the number of parts

    def arrange(self, changed: "set[int]") -> None:
        """Update the layout. `changed` contains the id() of each item whose parts may have changed."""
        old, new = self._arranged, self.items
        min_length = min(len(old), len(new))
        above = 0
        while above < min_length and old[above] is new[above] and id(new[above]) not in changed:
            above += 1
        below = 0
        while (
            below < min_length - above
            and old[-1 - below] is new[-1 - below]
            and id(new[-1 - below]) not in changed
        ):
            below += 1
        start, stop = self._starts[above], self._starts[len(old) - below]
        parts = [part for item in new[above : len(new) - below] for part in item.parts]
        self._starts = [0, *accumulate(len(item.parts) for item in new)]
        self._arranged = list(new)
        unchanged = 0  # a growing text keeps its first parts
        for before, after in zip(self.layout.parts[start:stop], parts, strict=False):
            if before is not after:
                break
            unchanged += 1
        self.layout.splice(start + unchanged, stop, parts[unchanged:])

    # -- positions --

    def item_at(self, line: int) -> "Item | None":
        if not self.layout.parts or not 0 <= line < self.layout.height:
            return None
        return self._arranged[bisect_right(self._starts, self.layout.at(line)) - 1]

    def first_line(self, item: "Item") -> int | None:
        """Return the first line of an item; None if it has no lines."""
        for index, arranged in enumerate(self._arranged):
            if arranged is item:
                first = self._starts[index]
                return self.layout.first_line(first) if first < self._starts[index + 1] else None
        return None

    def anchor(self, line: int) -> ScrollAnchor | None:
        """Return the position at a line."""
        layout = self.layout
        if not layout.parts:
            return None
        index = layout.at(line)
        return ScrollAnchor(layout.parts[index], line - layout.top(index))

    def line_of(self, anchor: ScrollAnchor) -> int | None:
        """Return the current line of a position; None if its part was removed."""
        for index, part in enumerate(self.layout.parts):
            if part is anchor.part:
                return self.layout.top(index) + anchor.offset
        return None

    # -- measuring --

    def measure_up(self, height: int) -> None:
        """Measure the last lines."""
        layout = self.layout
        index = len(layout.parts) - 1
        while index >= 0 and layout.height - layout.top(index + 1) < height:
            layout.measure(index)
            index -= 1

    def measure_down(self, line: int, height: int) -> int:
        """Measure lines from a line on; return by how much the lines below moved."""
        layout = self.layout
        if not layout.parts:
            return 0
        moved = 0
        index = layout.at(line)
        while index < len(layout.parts) and layout.top(index) <= line + height:
            moved += layout.measure(index)
            index += 1
        return moved

    def measure_all(self) -> None:
        """Measure all parts."""
        for index in range(len(self.layout.parts)):
            self.layout.measure(index)


@dataclass(slots=True)
class ItemContext:
    """What items need besides their own entry."""

    cwd: str = ""
    terminals: "Mapping[str, TerminalView] | None" = None
    clock: Clock = SYSTEM_CLOCK
    live: bool = False
    """Whether new entries happen now, so that durations can be measured."""
    compare_later: Callable[[Any], None] | None = None
    """Compares a large diff in a thread."""


class Item:
    """One entry of the transcript and its parts."""

    def __init__(self) -> None:
        self.parts: list[DrawnPart] = []

    def refresh(self) -> bool:
        """Update the parts from the entry; return whether anything changed."""
        return False

    def toggle(self) -> bool:
        """Fold or unfold; return whether that is possible."""
        return False

    @property
    def active(self) -> bool:
        """Whether it changes with time."""
        return False

    @property
    def text(self) -> str:
        """The text to copy."""
        return ""


class NoteItem(Item):
    """A note of the client."""

    def __init__(self, text: str, tone: Tone = "quiet", details: str = "") -> None:
        super().__init__()
        self.note: NotePart = NotePart(text, tone, details)
        self.parts: list[DrawnPart] = [self.note]

    @property
    def text(self) -> str:
        return "\n".join(filter(None, (self.note.text, self.note.details)))
