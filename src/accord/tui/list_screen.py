"""Screens with a filtered list, a one-line text input, or a yes/no question.

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
from accord.tui.key_footer import ScreenFooter
from accord.tui.ordered_keys import run_own_binding
from accord.tui.parts.part import strip_of
from accord.tui.theme import palette_of, set_border

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from accord.tui.key_footer import KeyHint
    from accord.tui.theme import Palette


_MAX_CHARACTERS: Final = 400
_MAX_MESSAGE: Final = 500
_MIN_WIDTH_FOR_RIGHT: Final = 50


@dataclass(frozen=True, slots=True)
class ListRow:
    """One row. Its texts may come from an agent; they are cleaned when they are drawn."""

    value: Any
    name: str
    note: str = ""
    """Shown after the name if it fits."""
    right: str = ""
    """Shown at the right edge."""
    group: str = ""
    """The heading above the row."""
    current: bool = False
    """Whether this is the current value."""
    search_text: str = ""
    """Further text that the filter searches."""

    @property
    def all_text(self) -> str:
        """All text that the filter searches."""
        return " ".join((self.name, self.note, self.right, self.group, self.search_text))


class Heading(str):
    """The name of a group between rows; it cannot be selected."""

    __slots__ = ()


def filter_rows(rows: "Sequence[ListRow]", query: str) -> "list[ListRow | Heading]":
    """Return the matching rows, best first; without a filter, all rows with their headings."""
    result: list[ListRow | Heading] = []
    query = query.strip().casefold()
    if query:
        words = query.split()
        scored = [(_score(row, words), number, row) for number, row in enumerate(rows)]
        ordered = sorted((-points, number, row) for points, number, row in scored if points is not None)
        return [row for _, _, row in ordered]
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            result.append(Heading(group))
        result.append(row)
    return result


def _score(row: ListRow, words: list[str]) -> float | None:
    """Return the score of a row, or None if a word is missing. Matches in the name score higher."""
    points = 0.0
    for word in words:
        in_name = word_score(word, row.name)
        match = in_name if in_name is not None else word_score(word, row.all_text)
        if match is None:
            return None
        points += match + (2_000 if in_name is not None else 0)
    return points


def word_score(word: str, text: str) -> float | None:
    """How well a text matches a case-folded word: at the beginning of a word, else inside of one.

    None if the word is not there. Scattered letters are no match.
    """
    folded = text.casefold()
    position = folded.find(word)
    inside = position
    while position >= 0:
        if position == 0 or not folded[position - 1].isalnum():
            return 1_000 - min(position, 500)
        position = folded.find(word, position + 1)
    return None if inside < 0 or len(word) < 2 else 400 - min(inside, 300)


class ListRows(ScrollView, can_focus=False):
    """Draws only the visible rows of a list; one row is selected. The screen handles the keys."""

    DEFAULT_CSS: ClassVar[str] = """
    ListRows {
        height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; background: $surface;
        scrollbar-background: $surface; scrollbar-background-hover: $surface;
        scrollbar-background-active: $surface;
    }
    """

    class Clicked(Message):
        """A row was clicked."""

        def __init__(self, row: Any) -> None:
            super().__init__()
            self.row = row

    class Selected(Message):
        """The selection has changed."""

    def __init__(self, *, empty_text: str = "No matches") -> None:
        super().__init__()
        self.rows: Sequence[Any] = ()
        self.selected_index: int = 0
        self.empty_text: str = empty_text

    # -- selection --

    def show(self, rows: Sequence[Any], index: int | None = None) -> None:
        """Show these rows and select one, by default the first."""
        self.rows = rows
        self.selected_index = 0 if index is None else min(max(index, 0), max(len(rows) - 1, 0))
        self._skip_headings(1)
        self._update_size()
        self._scroll_into_view()
        self.refresh()
        self.post_message(self.Selected())

    @property
    def selected(self) -> Any | None:
        """The selected row."""
        if self.selected_index >= len(self.rows) or self._is_heading(self.selected_index):
            return None
        return self.rows[self.selected_index]

    def move(self, by: int) -> None:
        """Move the selection."""
        before = self.selected_index
        self.selected_index = min(max(self.selected_index + by, 0), max(len(self.rows) - 1, 0))
        self._skip_headings(1 if by > 0 else -1)
        if self._is_heading(self.selected_index):
            self.selected_index = before
        self._scroll_into_view()
        self.refresh()
        self.post_message(self.Selected())

    def page(self, by: int) -> None:
        """Move the selection by a page."""
        self.move(by * max(self.size.height - 1, 1))

    def _is_heading(self, index: int) -> bool:
        return index < len(self.rows) and isinstance(self.rows[index], Heading)

    def _skip_headings(self, by: int) -> None:
        while self._is_heading(self.selected_index) and 0 <= self.selected_index + by < len(self.rows):
            self.selected_index += by

    def _update_size(self) -> None:
        self.virtual_size: Size = Size(self.scrollable_content_region.width, len(self.rows))

    def _scroll_into_view(self) -> None:
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        if self.selected_index < top:
            first = (
                self.selected_index - 1
                if self.selected_index and self._is_heading(self.selected_index - 1)
                else self.selected_index
            )
            self.scroll_to(y=first, animate=False, immediate=True, force=True)
        elif self.selected_index >= top + height:
            self.scroll_to(y=self.selected_index - height + 1, animate=False, immediate=True, force=True)

    def on_resize(self) -> None:
        self._update_size()
        self._scroll_into_view()

    # -- drawing --

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base, palette = self.rich_style, palette_of(self)
        index = self.scroll_offset.y + y
        if index >= len(self.rows):
            text = Text(f"  {self.empty_text}", palette.muted) if not self.rows and y == 0 else Text()
            return strip_of(text).crop_extend(0, width, base).apply_style(base)
        row = self.rows[index]
        if isinstance(row, Heading):
            line = Text(f"  {one_line(clean_line(row))}", palette.heading)
        else:
            line = self.draw_row(row, width - 2, palette, index == self.selected_index)
            line = Text("▸ " if index == self.selected_index else "  ", palette.accent).append_text(line)
        line.truncate(width, overflow="ellipsis")
        strip = strip_of(
            line, background=palette.prompt if index == self.selected_index else None, width=width
        )
        return strip.crop_extend(0, width, base).apply_style(base)

    def draw_row(self, row: Any, width: int, palette: "Palette", selected: bool) -> Text:
        """Draw one row."""
        return row_line(row, width, palette, selected)

    # -- mouse --

    def on_click(self, event: "events.Click") -> None:
        event.stop()
        index = self.scroll_offset.y + event.get_content_offset_capture(self).y
        if index < len(self.rows) and not self._is_heading(index):
            self.selected_index = index
            self.refresh()
            self.post_message(self.Selected())
            self.post_message(self.Clicked(self.rows[index]))


def row_line(row: ListRow, width: int, palette: "Palette", selected: bool) -> Text:
    """Draw a `ListRow` on one line."""
    line = Text("● " if row.current else "  ", palette.good)
    line.append(
        one_line(clean_line(row.name)[:_MAX_CHARACTERS]), palette.strong if selected else palette.text
    )
    right = Text(one_line(clean_line(row.right)), palette.muted)
    if width < _MIN_WIDTH_FOR_RIGHT:
        right = Text()
    if row.note:
        line.append(f"  {one_line(clean_line(row.note)[:_MAX_CHARACTERS])}", palette.muted)
    line.truncate(max(width - cell_len(right.plain) - 1, 1), overflow="ellipsis")
    gap = width - cell_len(line.plain) - cell_len(right.plain)
    return line.append(" " * max(gap, 1)).append_text(right) if right else line


class LineInput(Input):
    """One line of text."""

    async def _on_key(self, event: "events.Key") -> None:
        if event.key != "enter":  # it belongs to the list, as the arrow keys before it
            await run_own_binding(self, event)


class ListScreen(ModalScreen[Any]):
    """A list with a filter. Its result is the value of the chosen row, or None."""

    DEFAULT_CSS: ClassVar[str] = """
    ListScreen { align: center middle; }
    ListScreen > #frame {
        width: 90%; max-width: 120; height: 80%; max-height: 40; padding: 0 1; background: $surface;
        border: round $primary; border-title-color: $primary;
    }
    ListScreen #filter { height: 1; border: none; padding: 0 1; margin: 0 0 1 0; background: $surface; }
    ListScreen #filter:focus { border: none; }
    ListScreen #message { height: auto; max-height: 3; padding: 0 1; }
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
    ENTER_HINT: ClassVar[str] = "choose"
    """What Enter does, for the footer."""
    KEYS: ClassVar[Sequence["KeyHint"]] = ()
    """Further keys, for the footer."""

    def __init__(
        self,
        title: str,
        rows: Sequence[ListRow] = (),
        *,
        placeholder: str = "Filter",
        empty_text: str = "No matches",
    ) -> None:
        super().__init__()
        self.all_rows: Sequence[ListRow] = rows
        self._title = title
        self._empty_text = empty_text
        self.list: ListRows = ListRows()
        self.filter_input: LineInput = LineInput(placeholder=placeholder, id="filter", compact=True)
        self.message: Static = Static(id="message", markup=False)

    def compose(self) -> "ComposeResult":
        with Vertical(id="frame") as frame:
            set_border(frame, title=self._title)
            yield self.filter_input
            yield self.list
            yield self.message
        yield ScreenFooter(self._key_hints)

    def on_mount(self) -> None:
        self.filter_input.focus()
        self.show_rows(at_current=True)

    def _key_hints(self) -> "Sequence[KeyHint]":
        escape = ("Esc", "clear the filter") if self.filter_input.value else ("Esc", "close")
        return ("Enter", self.ENTER_HINT), escape, *self.KEYS, ("↑ ↓", "select")

    # -- rows --

    def show_rows(self, rows: Sequence[ListRow] | None = None, *, at_current: bool = False) -> None:
        """Show the rows that match the filter; keep the selected value if `rows` replaces them."""
        if rows is not None:
            selected = self.list.selected
            self.all_rows = rows
        else:
            selected = None
        matches = filter_rows(self.all_rows, self.filter_input.value)
        index: int | None = None
        for number, row in enumerate(matches):
            if isinstance(row, ListRow) and (
                (at_current and row.current) or (selected is not None and row.value == selected.value)
            ):
                index = number
                break
        self.list.empty_text = "No matches" if self.filter_input.value else self._empty_text
        self.list.show(matches, index)

    @on(Input.Changed, "#filter")
    def _filter(self, event: Input.Changed) -> None:
        event.stop()
        self.show_message("")
        self.query_one(ScreenFooter).refresh(layout=True)
        self.show_rows()

    def show_message(self, text: str, *, bad: bool = False) -> None:
        """Show a line below the list."""
        palette = palette_of(self)
        self.message.update(Text(clean_line(text)[:_MAX_MESSAGE], palette.bad if bad else palette.muted))

    # -- choosing --

    async def choose(self, row: ListRow) -> None:
        """Act on the chosen row."""
        self.dismiss(row.value)

    @on(Input.Submitted, "#filter")
    async def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        row = self.list.selected
        if row is not None:
            await self.choose(row)

    @on(ListRows.Clicked)
    async def _clicked(self, event: ListRows.Clicked) -> None:
        event.stop()
        await self.choose(event.row)

    def action_leave(self) -> None:
        """Esc: clear the filter, then close the screen."""
        if self.filter_input.value:
            self.filter_input.value = ""
        else:
            self.dismiss(None)

    def action_move(self, by: int) -> None:
        self.list.move(by)

    def action_page(self, by: int) -> None:
        self.list.page(by)

    def on_click(self, event: "events.Click") -> None:
        """Close the screen on a click outside of the list."""
        if event.widget is self:
            self.dismiss(None)


class TextInputScreen(ModalScreen[None]):
    """Asks for one line of text. `submit` gets it and returns an error message or None."""

    DEFAULT_CSS: ClassVar[str] = """
    TextInputScreen { align: center middle; }
    TextInputScreen > Vertical {
        width: 90%; max-width: 100; height: auto; padding: 0 1; background: $surface; border: round $primary;
        border-title-color: $primary;
    }
    TextInputScreen Input { border: none; height: 1; padding: 0 1; background: $surface; }
    TextInputScreen Input:focus { border: none; }
    TextInputScreen Static { height: auto; max-height: 3; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Close", show=False)]

    def __init__(self, title: str, text: str, submit: Callable[[str], str | None]) -> None:
        super().__init__()
        self._title = title
        self._submit = submit
        self.text_input: LineInput = LineInput(text, compact=True, select_on_focus=False)
        self.message: Static = Static(markup=False)

    def compose(self) -> "ComposeResult":
        with Vertical() as frame:
            set_border(frame, title=self._title)
            yield self.text_input
            yield self.message
        yield ScreenFooter(lambda: (("Enter", "confirm"), ("Esc", "close")))

    def on_mount(self) -> None:
        self.text_input.focus()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        error = (
            self._submit(event.value) if event.value.strip() else "enter some text, or press Esc to cancel"
        )
        if error is None:
            self.dismiss(None)
        else:
            self.message.update(Text(clean_line(error), palette_of(self).bad))


class ConfirmScreen(ListScreen):
    """Asks for confirmation: True, False, or None if closed. The safe answer is first."""

    def __init__(self, question: str, yes: str, no: str) -> None:
        super().__init__(question, [ListRow(False, no), ListRow(True, yes)])
        self.add_class("small")
