"""A message of the agent as parts: finished stretches of Markdown, and the one that is being written."""

from typing import TYPE_CHECKING

from rich.text import Text
from textual.strip import Strip

from accord.cleaning import Cleaner
from accord.tui.parts.markdown import MARGIN, WIDEST, MarkdownPart, code_block
from accord.tui.parts.part import Part, lines_of, strip_of
from accord.tui.parts.segments import Segment, Segments

if TYPE_CHECKING:
    from accord.tui.palette import Palette


class CodePart(Part):
    """Lines of a block of code."""

    def __init__(self, segment: Segment) -> None:
        super().__init__()
        self.text = segment.text
        self.language = segment.language
        self.gap = 1 if segment.first else 0

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        lines = code_block(self.text, self.language, min(width - MARGIN, WIDEST), palette)
        return [strip_of(Text(" " * MARGIN).append_text(line)) for line in lines]

    def estimate(self, width: int) -> int:
        return lines_of(self.text, min(width, WIDEST))


class Prose:
    """The parts of a text that grows at its end."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._cleaner = Cleaner()
        self._segments = Segments()
        self._taken = ""
        self._open = False  # whether the last part may still change
        self._item = False  # whether the last finished part was an item of a list

    def show(self, text: str) -> bool:
        """The whole text as it is now; whether anything changed. What is new at its end is cheap, another text is not."""
        if text == self._taken:
            return False
        if not text.startswith(self._taken):
            self.parts.clear()
            self._cleaner, self._segments, self._open, self._item = Cleaner(), Segments(), False, False
            self._taken = ""
        piece = text[len(self._taken) :]
        self._taken = text
        self._segments.feed(self._cleaner.feed(piece))
        if self._open:
            self.parts.pop()
        for segment in self._segments.finished():
            self._add(segment)
        last = self._segments.open()
        self._open = last is not None
        if last is not None:
            self.parts.append(self._part(last))
        return True

    def _add(self, segment: Segment) -> None:
        self.parts.append(self._part(segment))
        self._item = segment.item

    def _part(self, segment: Segment) -> Part:
        if segment.code:
            return CodePart(segment)
        joined = not segment.first or (segment.item and self._item)
        return MarkdownPart(segment.text, gap=0 if joined and self.parts else 1)
