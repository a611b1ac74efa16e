"""The table of user actions, read by keys, help and command palette, and the help page."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.table import Table
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from accord.tui.theme import palette_of

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from accord.tui.chat_app import ChatApp


# MERGED tui.actions: Everything a user can do beside writing: one table, read by the keys, by the help and by the palette of commands.
#
# A new screen hooks in with one entry: `run` gets the app.


@dataclass(frozen=True, slots=True)
class Action:
    """One of them."""

    name: str
    """Short and unique; `ChatApp.action_do` takes it."""
    title: str
    run: "Callable[[ChatApp], Any]"
    """May give an awaitable."""
    key: str = ""
    """As Textual writes it; several with commas."""
    shown: str = ""
    """How the key is written in the help, where that differs."""
    help: str = ""


# What these need is imported when they are wanted: the first paint comes before.


def _new_session(app: "ChatApp") -> None:
    from accord.tui.sessions_screen import pick_agent

    pick_agent(app)


def _sessions(app: "ChatApp") -> None:
    from accord.tui.sessions_screen import SessionsScreen

    app.push_screen(SessionsScreen(app))


def _pick(app: "ChatApp", category: str) -> None:
    from accord.tui.option_screens import pick

    pick(app, category)


def _options(app: "ChatApp") -> None:
    from accord.tui.option_screens import pick_option

    pick_option(app)


def _copy(app: "ChatApp") -> None:
    from accord.tui.export import copy

    copy(app)


def _export(app: "ChatApp") -> None:
    from accord.tui.export import export

    export(app)


def _switch_diffs(app: "ChatApp") -> None:
    shown = app.view.transcript.size.width
    from accord.tui.parts.diff_part import WIDE

    beside = app.diffs == "beside" or (app.diffs == "auto" and shown >= WIDE)
    app.set_setting("diffs", "below" if beside else "beside")


def _settings(app: "ChatApp") -> None:
    from accord.tui.option_screens import SettingsScreen

    app.push_screen(SettingsScreen(app.settings))


def _wire(app: "ChatApp") -> None:
    from accord.tui.wire_screen import show_wire

    show_wire(app)


ACTIONS: Final[list[Action]] = [
    Action("stop", "Stop the turn", lambda app: app.view.stop(), "escape", "Esc", "Ask the agent to stop what it does"),
    Action(
        "restart", "Start the agent again", lambda app: app.view.restart(), "ctrl+r", "Ctrl+R",
        "After it died, or could not be started: the session goes on",
    ),
    Action("hand_over", "Hand over the output of the last ! command", lambda app: app.view.hand_over(), "ctrl+g", "Ctrl+G",
           "It goes with the next prompt"),
    Action("expand", "Show more or less of the last tool call or thought", lambda app: app.view.unfold(), "ctrl+o", "Ctrl+O"),
    Action("plan", "Fold the plan", lambda app: app.view.fold_plan(), "ctrl+t", "Ctrl+T"),
    Action("transcript", "Read: arrows scroll, j k mark, Enter unfolds, c copies", lambda app: app.view.read(), "f6", "F6"),
    Action("queue", "Look at the prompts that wait", lambda app: app.view.look_at_queue(), "f7", "F7"),
    Action("agent", "New session with an agent", _new_session, "ctrl+n", "Ctrl+N", "In a tab of its own"),
    Action("sessions", "Sessions: resume, fork, delete, search", _sessions, "f2", "F2", "Those there were, of every agent"),
    Action("model", "Model", lambda app: _pick(app, "model"), "f3", "F3", "Choose among the models that the agent lists"),
    Action("mode", "Mode", lambda app: _pick(app, "mode"), "f4", "F4", "Choose among the modes that the agent lists"),
    Action("options", "Options of the agent", _options, "f5", "F5", "Everything that it lets you set"),
    Action("copy", "Copy a message or a block of code", _copy, "f8", "F8", "Of the marked message, else of the latest answer"),
    Action("export", "Export the session as Markdown", _export, "ctrl+s", "Ctrl+S"),
    Action("diffs", "Changes of files: side by side or not", _switch_diffs, "f10", "F10"),
    Action("next", "Next session", lambda app: app.desk.step(1), "ctrl+pagedown", "Ctrl+PgDn"),
    Action("previous", "Previous session", lambda app: app.desk.step(-1), "ctrl+pageup", "Ctrl+PgUp"),
    Action("close", "Close this session", lambda app: app.ask_to_close(app.view), "alt+w", "Alt+W", "Its agent is ended"),
    Action("settings", "Settings", _settings, "f9", "F9", "Theme, notifications, changes of files"),
    Action("wire", "Wire view", _wire, "f12", "F12", "Every message between this client and the agent"),
    Action("quit", "Quit", lambda app: app.exit(), "ctrl+q", "Ctrl+Q"),
]  # fmt: skip
"""In the order of the help."""


# MERGED tui.help: The keys, on one page.

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
