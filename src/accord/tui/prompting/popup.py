"""The list of completions above the editor."""

from typing import TYPE_CHECKING, Final

from rich.text import Text
from textual.message import Message
from textual.widget import Widget

from accord.cleaning import clean_line
from accord.tui.host import palette_of
from accord.tui.prompting.completing import Completion

if TYPE_CHECKING:
    from textual import events

ROWS: Final = 8


class Popup(Widget):
    """Shows completions; the editor keeps the keys and moves the mark."""

    DEFAULT_CSS = """
    Popup { display: none; height: auto; max-height: 8; margin: 0 1; padding: 0 1; background: $surface; }
    Popup.open { display: block; }
    """

    class Chosen(Message):
        """One was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self) -> None:
        super().__init__()
        self.completions: list[Completion] = []
        self.at = 0

    @property
    def open(self) -> bool:
        """Whether there is something to choose."""
        return bool(self.completions)

    @property
    def current(self) -> Completion | None:
        """The one that is marked."""
        return self.completions[self.at] if self.completions else None

    def show(self, completions: list[Completion]) -> None:
        """Offer these; none closes the list."""
        if completions != self.completions:
            self.completions, self.at = completions, 0
        self.set_class(bool(completions), "open")
        self.refresh(layout=True)

    def move(self, by: int) -> None:
        """Mark another."""
        if self.completions:
            self.at = (self.at + by) % len(self.completions)
            self.refresh()

    def render(self) -> Text:
        palette = palette_of(self)
        first = self._first
        out = Text(no_wrap=True, overflow="ellipsis")
        width = max((len(one.label) for one in self.completions[first : first + ROWS]), default=0)
        for number, one in enumerate(self.completions[first : first + ROWS], first):
            chosen = number == self.at
            if number > first:
                out.append("\n")
            out.append("▸ " if chosen else "  ", palette.accent)
            out.append(
                clean_line(one.label).ljust(min(width, 40)), palette.strong if chosen else palette.text
            )
            if one.hint:
                out.append(f"  {clean_line(one.hint)}", palette.muted)
        return out

    @property
    def _first(self) -> int:
        return min(max(self.at - ROWS + 1, 0), max(len(self.completions) - ROWS, 0)) if self.at >= ROWS else 0

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return min(len(self.completions), ROWS)

    def on_click(self, event: "events.Click") -> None:
        index = self._first + event.y
        if index < len(self.completions):
            self.post_message(self.Chosen(index))
