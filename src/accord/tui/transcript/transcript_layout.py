"""Items from top to bottom, and where each of their lines is."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from textual.strip import Strip

from accord.clock import SYSTEM_CLOCK, Clock
from accord.tui.parts.markdown_part import NotePart, Tone
from accord.tui.parts.part import DrawnPart

if TYPE_CHECKING:
    from accord.client import TerminalView
    from accord.tui.theme import Palette


# MERGED tui.transcript.heights: Many heights on top of each other: where each begins and which one is at a line, while any of them may change.
#
# They are summed up in blocks, so that a change costs the blocks behind it, not everything.

_BLOCK: Final = 256


class HeightIndex:
    """A list of heights that knows its sums."""

    def __init__(self) -> None:
        self._heights: list[int] = []
        self._sums: list[int] = []  # of each block
        self._tops: list[int] | None = None  # where each block begins, and where all ends

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    def __setitem__(self, index: int, height: int) -> None:
        self._sums[index // _BLOCK] += height - self._heights[index]
        self._heights[index] = height
        self._tops = None

    def splice(self, start: int, stop: int, heights: Iterable[int]) -> None:
        """Put these in the place of those from `start` to `stop`."""
        self._heights[start:stop] = heights
        first = start // _BLOCK
        del self._sums[first:]
        for at in range(first * _BLOCK, len(self._heights), _BLOCK):
            self._sums.append(sum(self._heights[at : at + _BLOCK]))
        self._tops = None

    @property
    def total(self) -> int:
        """All of them."""
        return self._edges()[-1]

    def top(self, index: int) -> int:
        """Where one begins; for the number of all, where they end."""
        block = index // _BLOCK
        return self._edges()[block] + sum(self._heights[block * _BLOCK : index])

    def at(self, line: int) -> int:
        """The one that a line belongs to; the first for lines above, the last for lines below."""
        edges = self._edges()
        block = min(max(bisect_right(edges, line) - 1, 0), len(self._sums) - 1)
        index, last = block * _BLOCK, len(self._heights) - 1
        below = edges[block] + self._heights[index]
        while below <= line and index < last:
            index += 1
            below += self._heights[index]
        return index

    def _edges(self) -> list[int]:
        if self._tops is None:
            self._tops = list(accumulate(self._sums, initial=0))
        return self._tops


# MERGED tui.transcript.layout: Where every line of the conversation lies: heights known or guessed, and drawn lines for what is near the screen only.
#
# A part is guessed until it comes on the screen. What was drawn is forgotten when it is far again.

KEPT_LINES: Final = 1_000
"""Drawn lines that are kept."""


class Layout:
    """The parts of a conversation from top to bottom, for one width and palette."""

    def __init__(self, palette: "Palette", width: int = 80) -> None:
        self._palette = palette
        self._width = width
        self._parts: list[DrawnPart] = []
        self._heights = HeightIndex()  # of each part, its gap included
        self._kept: OrderedDict[int, tuple[DrawnPart, list[Strip]]] = OrderedDict()
        self._kept_lines = 0

    @property
    def parts(self) -> Sequence[DrawnPart]:
        """From top to bottom."""
        return self._parts

    @property
    def width(self) -> int:
        """The cells of a line."""
        return self._width

    @property
    def height(self) -> int:
        """Lines in all, as far as one knows."""
        return self._heights.total

    def show(self, parts: Sequence[DrawnPart]) -> None:
        """These are the parts now."""
        self.splice(0, len(self._parts), parts)

    def splice(self, start: int, stop: int, parts: Sequence[DrawnPart]) -> None:
        """Put these parts in the place of those from `start` to `stop`."""
        self._parts[start:stop] = parts
        end = start + len(parts)
        if start == 0 and end < len(self._parts):
            stop, end = stop + 1, end + 1  # whether there is a gap above the next one may have changed
        self._heights.splice(start, stop, [self._height(index) for index in range(start, end)])

    def change(self, width: int, palette: "Palette") -> None:
        """Draw everything anew."""
        self._width, self._palette = max(width, 10), palette
        self._kept.clear()
        self._kept_lines = 0
        for part in self._parts:
            part.forget()
        self.show(list(self._parts))

    def top(self, index: int) -> int:
        """The line where a part begins, its gap included."""
        return self._heights.top(index)

    def first_line(self, index: int) -> int:
        """The line where a part begins, below its gap."""
        return self._heights.top(index) + self._gap(index)

    def at(self, line: int) -> int:
        """The part that a line belongs to; there must be one."""
        return self._heights.at(line)

    def line(self, y: int) -> Strip | None:
        """What is on a line; None for an empty one."""
        if not self._parts or not 0 <= y < self.height:
            return None
        index = self.at(y)
        within = y - self.first_line(index)
        if within < 0:
            return None
        drawn = self._drawn(index)
        return drawn[within] if within < len(drawn) else None

    def measure(self, index: int) -> int:
        """Draw a part if it is not; by how much its height differs from what was taken for it."""
        if self._parts[index].height is not None:
            return 0
        before = self._heights[index]
        self._drawn(index)
        return self._heights[index] - before

    def _drawn(self, index: int) -> list[Strip]:
        part = self._parts[index]
        drawn = part.kept
        if drawn is None:
            drawn = part.kept = part.draw(self._width, self._palette)
            part.height = len(drawn)
            height = part.height + self._gap(index)
            if self._heights[index] != height:
                self._heights[index] = height
            self._keep(part, drawn)
        elif id(part) in self._kept:
            self._kept.move_to_end(id(part))
        return drawn

    def _keep(self, part: DrawnPart, drawn: list[Strip]) -> None:
        before = self._kept.pop(id(part), None)
        if before is not None:
            self._kept_lines -= len(before[1])
        self._kept[id(part)] = (part, drawn)
        self._kept_lines += len(drawn)
        while self._kept_lines > KEPT_LINES and len(self._kept) > 1:
            _, (oldest, lines) = self._kept.popitem(last=False)
            self._kept_lines -= len(lines)
            if oldest.kept is lines:
                oldest.kept = None

    def _gap(self, index: int) -> int:
        return self._parts[index].gap if index else 0

    def _height(self, index: int) -> int:
        part = self._parts[index]
        known = part.height
        return self._gap(index) + (max(part.estimate(self._width), 1) if known is None else known)


# MERGED tui.transcript.sheet: The items of the conversation from top to bottom, and where the parts they are drawn of lie.


class ScrollAnchor(NamedTuple):
    """A place that stays where it is on the screen, whatever changes around it."""

    part: "DrawnPart"
    within: int
    """Lines of the part, its gap included, above that place."""


class ItemList:
    """Change `items` as you like, say which ones changed, and arrange."""

    def __init__(self, palette: "Palette") -> None:
        self.items: list[Item] = []
        self.layout = Layout(palette)
        self._laid: list[Item] = []  # the items as they were arranged last
        self._starts: list[int] = [0]  # the first part of each of them, and the number of all parts

    def arrange(self, changed: "set[int]") -> None:
        """Bring the layout up to date. `changed` has the ids of the items whose parts may be others."""
        old, new = self._laid, self.items
        least = min(len(old), len(new))
        above = 0
        while above < least and old[above] is new[above] and id(new[above]) not in changed:
            above += 1
        below = 0
        while (
            below < least - above
            and old[-1 - below] is new[-1 - below]
            and id(new[-1 - below]) not in changed
        ):
            below += 1
        start, stop = self._starts[above], self._starts[len(old) - below]
        parts = [part for item in new[above : len(new) - below] for part in item.parts]
        self._starts = [0, *accumulate(len(item.parts) for item in new)]
        self._laid = list(new)
        same = 0  # a text that grows at its end keeps the parts above
        for before, after in zip(self.layout.parts[start:stop], parts, strict=False):
            if before is not after:
                break
            same += 1
        self.layout.splice(start + same, stop, parts[same:])

    # -- places -------------------------------------------------------------------------------------------------

    def item_at(self, line: int) -> "Item | None":
        """The item that a line belongs to."""
        if not self.layout.parts or not 0 <= line < self.layout.height:
            return None
        return self._laid[bisect_right(self._starts, self.layout.at(line)) - 1]

    def first_line(self, item: "Item") -> int | None:
        """Where an item begins; None if it is not there or shows nothing."""
        for index, laid in enumerate(self._laid):
            if laid is item:
                first = self._starts[index]
                return self.layout.first_line(first) if first < self._starts[index + 1] else None
        return None

    def anchor(self, line: int) -> ScrollAnchor | None:
        """The place at a line."""
        layout = self.layout
        if not layout.parts:
            return None
        index = layout.at(line)
        return ScrollAnchor(layout.parts[index], line - layout.top(index))

    def line_of(self, anchor: ScrollAnchor) -> int | None:
        """Where a place is now; None if its part is gone."""
        for index, part in enumerate(self.layout.parts):
            if part is anchor.part:
                return self.layout.top(index) + anchor.within
        return None

    # -- measuring ----------------------------------------------------------------------------------------------

    def measure_up(self, height: int) -> None:
        """Measure so many lines at the end."""
        layout = self.layout
        index = len(layout.parts) - 1
        while index >= 0 and layout.height - layout.top(index + 1) < height:
            layout.measure(index)
            index -= 1

    def measure_down(self, line: int, height: int) -> int:
        """Measure so many lines from a line on; by how much what lies below them moved."""
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
        """Measure everything."""
        for index in range(len(self.layout.parts)):
            self.layout.measure(index)


# MERGED tui.transcript.item: One thing in the conversation: an entry of the session, or something of this client's own, and the parts it is drawn of.


@dataclass(slots=True)
class ItemContext:
    """What items look at beside their own entry."""

    cwd: str = ""
    terminals: "Mapping[str, TerminalView] | None" = None
    clock: Clock = SYSTEM_CLOCK
    live: bool = False
    """Whether what appears now happens now: only then is it known how long it takes."""
    later: Callable[[Any], None] | None = None
    """Compares a large change in a thread."""


class Item:
    """Something in the conversation."""

    def __init__(self) -> None:
        self.parts: list[DrawnPart] = []

    def refresh(self) -> bool:
        """Look at the entry again; whether anything changed. Parts that changed have forgotten their lines."""
        return False

    def toggle(self) -> bool:
        """Show more, or less again; whether there is anything to show."""
        return False

    @property
    def going_on(self) -> bool:
        """Whether it changes with time alone."""
        return False

    @property
    def text(self) -> str:
        """What copying it gives."""
        return ""


class NoteItem(Item):
    """A note of this client."""

    def __init__(self, text: str, tone: Tone = "quiet", details: str = "") -> None:
        super().__init__()
        self.note = NotePart(text, tone, details)
        self.parts = [self.note]

    @property
    def text(self) -> str:
        return "\n".join(filter(None, (self.note.text, self.note.details)))
