"""A screen with a list: letters find a row, Enter or a click takes it, and what goes wrong is told below."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from accord.cleaning import clean_line
from accord.tui.host import palette_of
from accord.tui.lists.rows import Row, Rows, fitting

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult


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
    ListScreen.small Rows { height: auto; max-height: 24; }
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
        rows: Sequence[Row] = (),
        *,
        placeholder: str = "Filter",
        empty: str = "Nothing fits",
    ) -> None:
        super().__init__()
        self.all_rows: Sequence[Row] = rows
        self._title = title
        self.list = self.make_rows(empty)
        self.letters = Input(placeholder=placeholder, id="letters", compact=True)
        self.told = Static(id="told", markup=False)

    def make_rows(self, empty: str) -> Rows:
        """The widget that shows the rows."""
        return Rows(empty=empty)

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

    def show_rows(self, rows: Sequence[Row] | None = None, *, at_current: bool = False) -> None:
        """Show the rows that fit to the letters; other rows where they are given. The mark stays with what it was on."""
        if rows is not None:
            before = self.list.marked
            self.all_rows = rows
        else:
            before = None
        found = fitting(self.all_rows, self.letters.value)
        at: int | None = None
        for number, row in enumerate(found):
            if isinstance(row, Row) and (
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

    async def take(self, row: Row) -> None:
        """This one it is."""
        self.dismiss(row.value)

    @on(Input.Submitted, "#letters")
    async def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        row = self.list.marked
        if row is not None:
            await self.take(row)

    @on(Rows.Clicked)
    async def _clicked(self, event: Rows.Clicked) -> None:
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
