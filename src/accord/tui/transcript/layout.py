"""Where every line of the conversation lies: heights known or guessed, and drawn lines for what is near the screen only.

A part is guessed until it comes on the screen. What was drawn is forgotten when it is far again.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from textual.strip import Strip

from accord.tui.parts.part import Part
from accord.tui.transcript.heights import Heights

if TYPE_CHECKING:
    from accord.tui.palette import Palette

KEPT_LINES: Final = 1_000
"""Drawn lines that are kept."""


class Layout:
    """The parts of a conversation from top to bottom, for one width and palette."""

    def __init__(self, palette: "Palette", width: int = 80) -> None:
        self._palette = palette
        self._width = width
        self._parts: list[Part] = []
        self._heights = Heights()  # of each part, its gap included
        self._kept: OrderedDict[int, tuple[Part, list[Strip]]] = OrderedDict()
        self._kept_lines = 0

    @property
    def parts(self) -> Sequence[Part]:
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

    def show(self, parts: Sequence[Part]) -> None:
        """These are the parts now."""
        self.splice(0, len(self._parts), parts)

    def splice(self, start: int, stop: int, parts: Sequence[Part]) -> None:
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

    def _keep(self, part: Part, drawn: list[Strip]) -> None:
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
