"""The items of the conversation from top to bottom, and where the parts they are drawn of lie."""

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from accord.tui.transcript.layout import Layout

if TYPE_CHECKING:
    from accord.tui.palette import Palette
    from accord.tui.parts.part import Part
    from accord.tui.transcript.item import Item


class Anchor(NamedTuple):
    """A place that stays where it is on the screen, whatever changes around it."""

    part: "Part"
    within: int
    """Lines of the part, its gap included, above that place."""


class Sheet:
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

    def anchor(self, line: int) -> Anchor | None:
        """The place at a line."""
        layout = self.layout
        if not layout.parts:
            return None
        index = layout.at(line)
        return Anchor(layout.parts[index], line - layout.top(index))

    def line_of(self, anchor: Anchor) -> int | None:
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
