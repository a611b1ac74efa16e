"""Screens with a filtered list, a single line, or a yes/no question.

Imported on first use: it loads Textual.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input, Static

from accord.safe_text import clean_line, one_line
from accord.tui.parts.part import strip_of
from accord.tui.theme import palette_of
from accord.workspace.file_search import fit

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from accord.tui.theme import Palette


# MERGED tui.lists.rows: Rows to choose from: of any number, only those on the screen are drawn. The keys are the screen's; the mouse is theirs.

_LONGEST: Final = 400
_NARROW: Final = 50


@dataclass(frozen=True, slots=True)
class ListRow:
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


def fitting(rows: "Sequence[ListRow]", letters: str) -> "list[ListRow | Heading]":
    """The rows that have these letters, the best first; without letters all of them, in their groups."""
    found: list[ListRow | Heading] = []
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


def _score(row: ListRow, words: list[str]) -> float | None:
    """Every word has to be in it, in the name rather than beside it."""
    points = 0.0
    for word in words:
        in_name = fit(word, row.name)
        beside = in_name if in_name is not None else fit(word, row.searched)
        if beside is None:
            return None
        points += beside + (2_000 if in_name is not None else 0)
    return points


class ListRows(ScrollView, can_focus=False):
    """The rows. One of them is marked."""

    DEFAULT_CSS = """
    ListRows {
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


def row_line(row: ListRow, width: int, palette: "Palette", marked: bool) -> Text:
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


# MERGED tui.lists.screen: A screen with a list: letters find a row, Enter or a click takes it, and what goes wrong is told below.


class ListScreen(ModalScreen[Any]):
    """A list on top of everything. Its result is the value of the row that was taken; None: the user went away."""

    DEFAULT_CSS = """
    ListScreen { align: center middle; }
    ListScreen > #frame {
        width: 90%; max-width: 120; height: 80%; max-height: 40; padding: 0 1; background: $surface;
        border: round $primary; border-title-color: $primary; border-subtitle-color: $text-muted;
    }
    ListScreen #letters { height: 1; border: none; padding: 0 1; margin: 0 0 1 0; background: $surface; }
    ListScreen #letters:focus { border: none; }
    ListScreen #told { height: auto; max-height: 3; padding: 0 1; }
    ListScreen.small > #frame { height: auto; max-height: 80%; }
    ListScreen.small ListRows { height: auto; max-height: 24; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close", show=False),
        Binding("up,ctrl+up", "move(-1)", "Up", show=False),
        Binding("down,ctrl+down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
    ]
    HINT = "Enter chooses · Esc closes"

    def __init__(
        self,
        title: str,
        rows: Sequence[ListRow] = (),
        *,
        placeholder: str = "Filter",
        empty: str = "Nothing fits",
    ) -> None:
        super().__init__()
        self.all_rows: Sequence[ListRow] = rows
        self._title = title
        self.list = self.make_rows(empty)
        self.letters = Input(placeholder=placeholder, id="letters", compact=True)
        self.told = Static(id="told", markup=False)

    def make_rows(self, empty: str) -> ListRows:
        """The widget that shows the rows."""
        return ListRows(empty=empty)

    def compose(self) -> "ComposeResult":
        with Vertical(id="frame") as frame:
            frame.border_title = clean_line(self._title)
            frame.border_subtitle = self.HINT
            yield self.letters
            yield self.list
            yield self.told

    def on_mount(self) -> None:
        self.letters.focus()
        self.show_rows(at_current=True)

    # -- rows ---------------------------------------------------------------------------------------------------

    def show_rows(self, rows: Sequence[ListRow] | None = None, *, at_current: bool = False) -> None:
        """Show the rows that fit to the letters; other rows where they are given. The mark stays with what it was on."""
        if rows is not None:
            before = self.list.marked
            self.all_rows = rows
        else:
            before = None
        found = fitting(self.all_rows, self.letters.value)
        at: int | None = None
        for number, row in enumerate(found):
            if isinstance(row, ListRow) and (
                (at_current and row.current) or (before is not None and row.value == before.value)
            ):
                at = number
                break
        self.list.show(found, at)

    @on(Input.Changed, "#letters")
    def _filter(self, event: Input.Changed) -> None:
        event.stop()
        self.tell("")
        self.show_rows()

    def tell(self, text: str, *, bad: bool = False) -> None:
        """One line below the list."""
        palette = palette_of(self)
        self.told.update(Text(clean_line(text)[:500], palette.bad if bad else palette.muted))

    # -- taking one ---------------------------------------------------------------------------------------------

    async def take(self, row: ListRow) -> None:
        """This one it is."""
        self.dismiss(row.value)

    @on(Input.Submitted, "#letters")
    async def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        row = self.list.marked
        if row is not None:
            await self.take(row)

    @on(ListRows.Clicked)
    async def _clicked(self, event: ListRows.Clicked) -> None:
        event.stop()
        await self.take(event.row)

    def action_leave(self) -> None:
        """Esc takes the letters away, then the screen."""
        if self.letters.value:
            self.letters.value = ""
        else:
            self.dismiss(None)

    def action_move(self, by: int) -> None:
        self.list.move(by)

    def action_page(self, by: int) -> None:
        self.list.page(by)

    def on_click(self, event: "events.Click") -> None:
        """A click beside it closes it."""
        if event.widget is self:
            self.dismiss(None)


# MERGED tui.lists.line: A screen that asks for one line, and one that asks for a yes.


class LineScreen(ModalScreen[None]):
    """One line of text. `done` gets it, and says what is wrong with it, if something is."""

    DEFAULT_CSS = """
    LineScreen { align: center middle; }
    LineScreen > Vertical {
        width: 90%; max-width: 100; height: auto; padding: 0 1; background: $surface; border: round $primary;
        border-title-color: $primary; border-subtitle-color: $text-muted;
    }
    LineScreen Input { border: none; height: 1; padding: 0 1; background: $surface; }
    LineScreen Input:focus { border: none; }
    LineScreen Static { height: auto; max-height: 3; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close", show=False)]

    def __init__(self, title: str, text: str, done: Callable[[str], str | None]) -> None:
        super().__init__()
        self._title = title
        self._done = done
        self.line = Input(text, compact=True, select_on_focus=False)
        self.told = Static(markup=False)

    def compose(self) -> "ComposeResult":
        with Vertical() as frame:
            frame.border_title = self._title
            frame.border_subtitle = "Enter takes it · Esc closes"
            yield self.line
            yield self.told

    def on_mount(self) -> None:
        self.line.focus()

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        wrong = self._done(event.value) if event.value.strip() else "write something, or leave with Esc"
        if wrong is None:
            self.dismiss(None)
        else:
            self.told.update(Text(clean_line(wrong), palette_of(self).bad))


class ConfirmScreen(ListScreen):
    """Is the user sure? What does nothing stands first."""

    def __init__(self, question: str, yes: str, no: str) -> None:
        super().__init__(question, [ListRow(False, no), ListRow(True, yes)])
        self.add_class("small")
