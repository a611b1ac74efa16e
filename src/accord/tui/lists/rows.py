"""Rows to choose from: of any number, only those on the screen are drawn. The keys are the screen's; the mouse is theirs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.text import Text
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from accord.cleaning import clean_line, one_line
from accord.tui.host import palette_of
from accord.tui.parts.part import strip_of
from accord.workspace.finding import fit

if TYPE_CHECKING:
    from textual import events

    from accord.tui.palette import Palette

_LONGEST: Final = 400
_NARROW: Final = 50


@dataclass(frozen=True, slots=True)
class Row:
    """One of them. Its texts may be anybody's: they are cleaned when they are drawn."""

    value: Any
    name: str
    note: str = ""
    """Beside the name, as far as there is room."""
    right: str = ""
    """At the right edge."""
    group: str = ""
    """Rows of a group stand below its name."""
    current: bool = False
    """What is set now."""
    also: str = ""
    """By which it is found, too."""

    @property
    def searched(self) -> str:
        """All that letters are looked for in."""
        return " ".join((self.name, self.note, self.right, self.group, self.also))


class Heading(str):
    """The name of a group, between rows; it cannot be chosen."""

    __slots__ = ()


def fitting(rows: "Sequence[Row]", letters: str) -> "list[Row | Heading]":
    """The rows that have these letters, the best first; without letters all of them, in their groups."""
    found: list[Row | Heading] = []
    wanted = letters.strip().casefold()
    if wanted:
        words = wanted.split()
        scored = [(_score(row, words), number, row) for number, row in enumerate(rows)]
        ordered = sorted((-points, number, row) for points, number, row in scored if points is not None)
        return [row for _, _, row in ordered]
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            found.append(Heading(group))
        found.append(row)
    return found


def _score(row: Row, words: list[str]) -> float | None:
    """Every word has to be in it, in the name rather than beside it."""
    points = 0.0
    for word in words:
        in_name = fit(word, row.name)
        beside = in_name if in_name is not None else fit(word, row.searched)
        if beside is None:
            return None
        points += beside + (2_000 if in_name is not None else 0)
    return points


class Rows(ScrollView, can_focus=False):
    """The rows. One of them is marked."""

    DEFAULT_CSS = """
    Rows {
        height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; background: $surface;
        scrollbar-background: $surface; scrollbar-background-hover: $surface; scrollbar-background-active: $surface;
    }
    """

    class Clicked(Message):
        """One was clicked."""

        def __init__(self, row: Any) -> None:
            super().__init__()
            self.row = row

    class Marked(Message):
        """Another one is marked."""

    def __init__(self, *, empty: str = "Nothing fits") -> None:
        super().__init__()
        self.rows: Sequence[Any] = ()
        self.at = 0
        self.empty = empty

    # -- what it shows ------------------------------------------------------------------------------------------

    def show(self, rows: Sequence[Any], at: int | None = None) -> None:
        """These rows now, with one of them marked; without a word, the first that can be."""
        self.rows = rows
        self.at = 0 if at is None else min(max(at, 0), max(len(rows) - 1, 0))
        if at is None or self._is_heading(self.at):
            self._skip(1)
        self._measure()
        self._into_view()
        self.refresh()
        self.post_message(self.Marked())

    @property
    def marked(self) -> Any | None:
        """The row that is."""
        if self.at >= len(self.rows) or self._is_heading(self.at):
            return None
        return self.rows[self.at]

    def move(self, by: int) -> None:
        """Mark another one."""
        before = self.at
        self.at = min(max(self.at + by, 0), max(len(self.rows) - 1, 0))
        self._skip(1 if by > 0 else -1)
        if self._is_heading(self.at):
            self.at = before
        self._into_view()
        self.refresh()
        self.post_message(self.Marked())

    def page(self, by: int) -> None:
        """Mark one that lies a page away."""
        self.move(by * max(self.size.height - 1, 1))

    def _is_heading(self, index: int) -> bool:
        return index < len(self.rows) and isinstance(self.rows[index], Heading)

    def _skip(self, by: int) -> None:
        while self._is_heading(self.at) and 0 <= self.at + by < len(self.rows):
            self.at += by

    def _measure(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.rows))

    def _into_view(self) -> None:
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        if self.at < top:
            first = self.at - 1 if self.at and self._is_heading(self.at - 1) else self.at
            self.scroll_to(y=first, animate=False, immediate=True, force=True)
        elif self.at >= top + height:
            self.scroll_to(y=self.at - height + 1, animate=False, immediate=True, force=True)

    def on_resize(self) -> None:
        self._measure()
        self._into_view()

    # -- drawing ------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base, palette = self.rich_style, palette_of(self)
        index = self.scroll_offset.y + y
        if index >= len(self.rows):
            text = Text(f"  {self.empty}", palette.muted) if not self.rows and y == 0 else Text()
            return strip_of(text).crop_extend(0, width, base).apply_style(base)
        row = self.rows[index]
        if isinstance(row, Heading):
            line = Text(f"  {one_line(clean_line(row))}", palette.heading)
        else:
            line = self.line(row, width - 2, palette, index == self.at)
            line = Text("▸ " if index == self.at else "  ", palette.accent).append_text(line)
        line.truncate(width, overflow="ellipsis")
        strip = strip_of(line, ground=palette.user if index == self.at else None, width=width)
        return strip.crop_extend(0, width, base).apply_style(base)

    def line(self, row: Any, width: int, palette: "Palette", marked: bool) -> Text:
        """One row on a line."""
        return row_line(row, width, palette, marked)

    # -- the mouse ----------------------------------------------------------------------------------------------

    def on_click(self, event: "events.Click") -> None:
        event.stop()
        index = self.scroll_offset.y + event.get_content_offset_capture(self).y
        if index < len(self.rows) and not self._is_heading(index):
            self.at = index
            self.refresh()
            self.post_message(self.Marked())
            self.post_message(self.Clicked(self.rows[index]))


def row_line(row: Row, width: int, palette: "Palette", marked: bool) -> Text:
    """A row of the usual sort."""
    line = Text("● " if row.current else "  ", palette.good)
    line.append(one_line(clean_line(row.name)[:_LONGEST]), palette.strong if marked else palette.text)
    right = Text(one_line(clean_line(row.right)), palette.muted)
    if width < _NARROW:
        right = Text()
    if row.note:
        line.append(f"  {one_line(clean_line(row.note)[:_LONGEST])}", palette.muted)
    line.truncate(max(width - cell_len(right.plain) - 1, 1), overflow="ellipsis")
    gap = width - cell_len(line.plain) - cell_len(right.plain)
    return line.append(" " * max(gap, 1)).append_text(right) if right else line
