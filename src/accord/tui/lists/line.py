"""A screen that asks for one line, and one that asks for a yes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from accord.cleaning import clean_line
from accord.tui.host import palette_of
from accord.tui.lists.rows import Row
from accord.tui.lists.screen import ListScreen

if TYPE_CHECKING:
    from textual.app import ComposeResult


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


class SureScreen(ListScreen):
    """Is the user sure? What does nothing stands first."""

    def __init__(self, question: str, yes: str, no: str) -> None:
        super().__init__(question, [Row(False, no), Row(True, yes)])
        self.add_class("small")
