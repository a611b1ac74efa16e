"""Answers to choose from, by number, arrows or the mouse. None is chosen to begin with."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.text import Text
from textual.message import Message
from textual.widget import Widget

from accord.cleaning import one_line
from accord.tui.host import palette_of

if TYPE_CHECKING:
    from textual import events

ROWS: Final = 9


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
        self.refresh()

    @property
    def _first(self) -> int:
        return max(min((self.at or 0) - ROWS + 1, len(self.names) - ROWS), 0)

    def render(self) -> Text:
        palette = palette_of(self)
        tones = {"allow": palette.good, "reject": palette.bad}
        out = Text(no_wrap=True, overflow="ellipsis")
        first = self._first
        for number, name in enumerate(self.names[first : first + ROWS], first):
            chosen = number == self.at
            if number > first:
                out.append("\n")
            tone = self._tones[number].partition("_")[0] if number < len(self._tones) else ""
            out.append("▸ " if chosen else "  ", palette.accent)
            out.append(f"{number + 1} " if number < 9 else "  ", tones.get(tone, palette.accent))
            out.append(f" {name}", palette.strong if chosen else palette.text)
        return out

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return min(len(self.names), ROWS)

    def on_click(self, event: "events.Click") -> None:
        index = self._first + event.y
        if index < len(self.names):
            self.post_message(self.Clicked(index, event))


def digit(key: str) -> int | None:
    """The number of the answer that a key stands for, from zero."""
    return int(key) - 1 if len(key) == 1 and key in "123456789" else None
