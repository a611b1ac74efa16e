"""The keys, on one page."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from rich.table import Table
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from accord.tui.actions import ACTIONS
from accord.tui.host import palette_of

if TYPE_CHECKING:
    from textual.app import ComposeResult

WRITING: Final = (
    ("Enter", "send; while a turn runs: queue"),
    ("Ctrl+J, Alt+Enter, Shift+Enter", "a new line; so does a backslash before Enter"),
    ("Up, Down", "what you said before in this folder"),
    ("/", "commands of the agent"),
    ("@", "files of this folder, found by a few letters"),
    ("!", "run a command in your own shell"),
    ("paste a path", "attach the file; Backspace at the beginning takes it off"),
)
OTHERS: Final = (
    ("PgUp, PgDn", "scroll the conversation"),
    ("Ctrl+C", "stop the turn; empty the prompt; twice: quit"),
    ("Ctrl+D", "quit, where nothing is written"),
    ("Ctrl+P", "all commands, by name"),
    ("Alt+1 to Alt+9", "the session of that tab"),
    ("F1, ? in an empty prompt", "this page"),
)
_KEYS: Final = 33


class HelpScreen(ModalScreen[None]):
    """What the keys do."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > VerticalScroll {
        width: 84; max-width: 96%; height: auto; max-height: 90%; padding: 1 2; background: $surface; border: round $primary;
        border-title-color: $primary;
        scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q,enter,question_mark", "dismiss", "Close", show=False)
    ]

    def __init__(self, keys: Mapping[str, str]) -> None:
        """`keys` are those that the user gave to actions."""
        super().__init__()
        self._keys = keys

    def compose(self) -> "ComposeResult":
        with VerticalScroll() as page:
            page.border_title = "Keys"
            yield Static(id="keys")

    def on_mount(self) -> None:
        palette = palette_of(self)
        out = Table.grid(padding=(0, 1))
        out.add_column(width=_KEYS)
        out.add_column()
        actions = [
            (self._keys.get(action.name) or action.shown or action.key, action.title)
            for action in ACTIONS
            if action.key
        ]
        for title, rows in (("Writing", WRITING), ("Doing", actions), ("Anywhere", OTHERS)):
            if out.row_count:
                out.add_row()
            out.add_row(Text(title, palette.heading))
            for key, words in rows:
                out.add_row(Text(f"  {key}", palette.strong), Text(words, palette.muted))
        self.query_one("#keys", Static).update(out)
