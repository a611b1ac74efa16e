"""Answers to choose from, by number, arrows or the mouse. None is chosen to begin with."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.text import Text
from textual.message import Message
from textual.widget import Widget

from accord.cleaning import one_line
from accord.tui.host import palette_of
from accord.tui.parts.part import wrapped

if TYPE_CHECKING:
    from textual import events

ROWS: Final = 9
"""Answers that are shown at a time."""
_INDENT: Final = 5


class Options(Widget):
    """A list of answers; the dialog keeps the keys."""

    DEFAULT_CSS = "Options { height: auto; margin: 1 0 0 0; }"

    class Clicked(Message):
        """One was clicked."""

        def __init__(self, index: int, event: "events.Click") -> None:
            super().__init__()
            self.index = index
            self.event = event

    def __init__(self, names: Sequence[str], tones: Sequence[str] = ()) -> None:
        super().__init__()
        self.names = [one_line(name) for name in names]
        self._tones = list(tones)
        self.at: int | None = None

    def move(self, by: int) -> None:
        """Mark another."""
        if not self.names:
            return
        if self.at is None:
            self.at = 0 if by > 0 else len(self.names) - 1
        else:
            self.at = (self.at + by) % len(self.names)
        self.refresh(layout=True)

    @property
    def _first(self) -> int:
        return max(min((self.at or 0) - ROWS + 1, len(self.names) - ROWS), 0)

    def _rows(self, width: int) -> list[tuple[int, str]]:
        """What is shown, line by line: the number of the answer, and a piece of its name. A long name takes several lines."""
        first, rows = self._first, list[tuple[int, str]]()
        for number, name in enumerate(self.names[first : first + ROWS], first):
            pieces = wrapped(Text(name), max(width - _INDENT, 8))
            rows += [(number, piece.plain.rstrip()) for piece in pieces]
        return rows

    def shows(self, index: int) -> bool:
        """Whether this answer is among those that can be seen."""
        return self._first <= index < min(self._first + ROWS, len(self.names))

    @property
    def _others(self) -> str:
        """That there are more than can be seen."""
        hidden = len(self.names) - ROWS
        return f"{hidden} more: the arrows bring them" if hidden > 0 else ""

    def render(self) -> Text:
        palette = palette_of(self)
        tones = {"allow": palette.good, "reject": palette.bad}
        lines: list[Text] = []
        before: int | None = None
        for number, words in self._rows(self.size.width):
            chosen, begins = number == self.at, number != before
            tone = self._tones[number].partition("_")[0] if number < len(self._tones) else ""
            line = Text("▸ " if chosen and begins else "  ", palette.accent)
            line.append(f"{number + 1} " if number < 9 and begins else "  ", tones.get(tone, palette.accent))
            line.append(f" {words}", palette.strong if chosen else palette.text)
            lines.append(line)
            before = number
        if self._others:
            lines.append(Text(f"     {self._others}", palette.muted))
        return Text("\n").join(lines)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return self.height_for(width)

    def height_for(self, width: int) -> int:
        """The lines that it needs."""
        return len(self._rows(width)) + (1 if self._others else 0)

    def on_click(self, event: "events.Click") -> None:
        rows = self._rows(self.size.width)
        if 0 <= event.y < len(rows):
            self.post_message(self.Clicked(rows[event.y][0], event))


def digit(key: str) -> int | None:
    """The number of the answer that a key stands for, from zero."""
    return int(key) - 1 if len(key) == 1 and key in "123456789" else None
