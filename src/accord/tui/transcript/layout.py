"""Where every line of the conversation lies: heights known or guessed, and drawn lines for what is near the screen only.

Parts far away are guessed; a part is measured when it comes near, or by and by. What was drawn is forgotten when it is far again.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from textual.strip import Strip

from accord.tui.parts.part import Part

if TYPE_CHECKING:
    from accord.tui.palette import Palette

KEPT_LINES: Final = 3_000
"""Drawn lines that are kept."""


class Layout:
    """The parts of a conversation from top to bottom, for one width and palette."""

    def __init__(self, palette: "Palette", width: int = 80) -> None:
        self._palette = palette
        self._width = width
        self._parts: Sequence[Part] = ()
        self._tops: list[int] | None = None  # where each part begins, its gap included, and where all ends
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

    def show(self, parts: Sequence[Part]) -> None:
        """These are the parts now."""
        self._parts = parts
        self._tops = None

    def change(self, width: int, palette: "Palette") -> None:
        """Draw everything anew."""
        self._width, self._palette = max(width, 10), palette
        self._kept.clear()
        self._kept_lines = 0
        for part in self._parts:
            part.forget()
        self._tops = None

    def moved(self) -> None:
        """Some part has changed."""
        self._tops = None

    @property
    def height(self) -> int:
        """Lines in all, as far as one knows."""
        return self._edges()[-1]

    def top(self, index: int) -> int:
        """The line where a part begins, its gap included."""
        return self._edges()[index]

    def at(self, line: int) -> int:
        """The part that a line belongs to."""
        return min(max(bisect_right(self._edges(), line) - 1, 0), len(self._parts) - 1)

    def line(self, y: int) -> Strip | None:
        """What is on a line; None for an empty one."""
        if not self._parts or not 0 <= y < self.height:
            return None
        index = self.at(y)
        part = self._parts[index]
        within = y - self.top(index) - self._gap(index)
        drawn = self.drawn(part)
        return drawn[within] if 0 <= within < len(drawn) else None

    def measure(self, index: int) -> int:
        """Draw a part if it is not; by how much its height differs from what was taken for it."""
        part = self._parts[index]
        if part.height is not None:
            return 0
        before = self._height_of(part)
        self.drawn(part)
        after = self._height_of(part)
        if after != before:
            self._tops = None
        return after - before

    def drawn(self, part: Part) -> list[Strip]:
        """The lines of a part."""
        key = id(part)
        drawn = part.kept
        if drawn is None:
            drawn = part.kept = part.draw(self._width, self._palette)
            if part.height != len(drawn):
                part.height = len(drawn)
                self._tops = None
            self._keep(key, part, drawn)
        elif key in self._kept:
            self._kept.move_to_end(key)
        return drawn

    def unmeasured(self) -> int | None:
        """The lowest part that is still guessed."""
        for index in range(len(self._parts) - 1, -1, -1):
            if self._parts[index].height is None:
                return index
        return None

    def _keep(self, key: int, part: Part, drawn: list[Strip]) -> None:
        before = self._kept.pop(key, None)
        if before is not None:
            self._kept_lines -= len(before[1])
        self._kept[key] = (part, drawn)
        self._kept_lines += len(drawn)
        while self._kept_lines > KEPT_LINES and len(self._kept) > 1:
            _, (oldest, lines) = self._kept.popitem(last=False)
            self._kept_lines -= len(lines)
            if oldest.kept is lines:
                oldest.kept = None

    def _edges(self) -> list[int]:
        if self._tops is None:
            heights = [self._gap(index) + self._height_of(part) for index, part in enumerate(self._parts)]
            self._tops = list(accumulate(heights, initial=0))
        return self._tops

    def _gap(self, index: int) -> int:
        return self._parts[index].gap if index else 0

    def _height_of(self, part: Part) -> int:
        if part.height is not None:
            return part.height
        if part.guess is None:
            part.guess = max(part.estimate(self._width), 1)
        return part.guess
