"""The table of user actions, from which keys, help and command palette are made, and the help page."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.table import Table
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from accord.tui.key_footer import ScreenFooter
from accord.tui.theme import palette_of, set_border

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from accord.tui.chat_app import ChatApp


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that the user can do. To add a key or a command of the palette, add it to `ACTIONS`."""

    name: str
    """Unique; used in `chat.json` and by `ChatApp.action_do`."""
    title: str
    run: "Callable[[ChatApp], Any]"
    """May return an awaitable."""
    key: str = ""
    """In Textual's notation; several are separated by commas."""
    key_label: str = ""
    """The key as the help shows it, if that differs."""
    help: str = ""


# Imports are inside the functions to keep them out of the first paint.


def _new_session(app: "ChatApp") -> None:
    from accord.tui.sessions_screen import open_agent_list

    open_agent_list(app)


def _sessions(app: "ChatApp") -> None:
    from accord.tui.sessions_screen import SessionsScreen

    app.push_screen(SessionsScreen(app))


def _dashboard(app: "ChatApp") -> None:
    from accord.tui.dashboard_screen import DashboardScreen

    app.push_screen(DashboardScreen(app))


def _open_values(app: "ChatApp", category: str) -> None:
    from accord.tui.option_screens import open_values

    open_values(app, category)


def _options(app: "ChatApp") -> None:
    from accord.tui.option_screens import open_options

    open_options(app)


def _copy(app: "ChatApp") -> None:
    from accord.tui.export import copy

    copy(app)


def _export(app: "ChatApp") -> None:
    from accord.tui.export import export

    export(app)


def _toggle_diff_layout(app: "ChatApp") -> None:
    from accord.tui.parts.diff_part import SIDE_BY_SIDE_WIDTH

    width = app.view.transcript.scrollable_content_region.width
    beside = app.diffs == "beside" or (app.diffs == "auto" and width >= SIDE_BY_SIDE_WIDTH)
    app.set_setting("diffs", "below" if beside else "beside")


def _review(app: "ChatApp") -> None:
    from accord.tui.review_screen import open_review

    open_review(app)


async def _sign_in(app: "ChatApp") -> None:
    from accord.tui.welcome_actions import sign_in

    app.run_worker(sign_in(app), group="welcome", exclusive=True)


async def _tour(app: "ChatApp") -> None:
    from accord.tui.welcome_actions import take_tour

    await take_tour(app)


def _stop_work(app: "ChatApp") -> None:
    from accord.tui.running_work import stop_work

    stop_work(app.view)


def _settings(app: "ChatApp") -> None:
    from accord.tui.option_screens import SettingsScreen

    app.push_screen(SettingsScreen(app.settings))


def _wire(app: "ChatApp") -> None:
    from accord.tui.wire_screen import show_wire

    show_wire(app)


ACTIONS: Final[list[Action]] = [
    Action("stop", "Stop the turn", lambda app: app.view.stop(), "escape", "Esc", "Cancel the running turn"),
    Action("stop_work", "Stop one tool call or command", _stop_work, "alt+x", "Alt+X",
           "The selected one; the turn goes on. Needs an agent of version 2"),
    Action(
        "restart", "Restart the agent, or search earlier prompts", lambda app: app.view.restart_or_search(),
        "ctrl+r", "Ctrl+R", "Restarts it after it ended or failed to start; the session continues",
    ),
    Action("history", "Search earlier prompts",
           lambda app: app.view.after_keys(app.view.search_history), "alt+r", "Alt+R",
           "Those of this folder"),
    Action("editor", "Edit the prompt in your editor",
           lambda app: app.view.after_keys(app.view.edit_prompt), "alt+e", "Alt+E",
           "The program in VISUAL or EDITOR"),
    Action("stash", "Put the prompt aside, or take it back",
           lambda app: app.view.after_keys(app.view.stash_prompt), "alt+s", "Alt+S"),
    Action("hand_over", "Attach the output of the last ! command",
           lambda app: app.view.attach_output(), "ctrl+g", "Ctrl+G",
           "To the next prompt"),
    Action("expand", "Unfold or fold the latest tool call or thought",
           lambda app: app.view.toggle_item(), "ctrl+o", "Ctrl+O"),
    Action("plan", "Fold or unfold the plan", lambda app: app.view.toggle_plan(), "ctrl+t", "Ctrl+T"),
    Action("transcript", "Transcript: arrows scroll, j k select, Enter unfolds, c copies",
           lambda app: app.view.toggle_focus(), "f6", "F6"),
    Action("later", "Queue the prompt",
           lambda app: app.view.after_keys(lambda: app.view.prompt.send(later=True)),
           "alt+enter,alt+q", "Alt+Enter", "Send it after the running turn"),
    Action("queue", "Queued prompts", lambda app: app.view.focus_queue(), "f7", "F7"),
    Action("rewind", "Undo and rewind", lambda app: app.view.choose_rewind(), "alt+u", "Alt+U",
           "Go back to before an earlier prompt"),
    Action("agent", "New session with an agent", _new_session, "ctrl+n", "Ctrl+N", "In a new tab"),
    Action("sign_in", "Sign in, or enter a model key", _sign_in, "alt+l", "Alt+L"),
    Action("tour", "Take the tour", _tour, "alt+t", "Alt+T", "Two minutes, without a key"),
    Action("review", "Review changes", _review, "alt+v", "Alt+V", "Revert, comment on or commit them"),
    Action("sessions", "Sessions: resume, fork, delete, search",
           _sessions, "f2", "F2", "Earlier sessions of all agents"),
    Action("dashboard", "All sessions, and what each waits for",
           _dashboard, "alt+d", "Alt+D", "Also those of other programs and of the gateway"),
    Action("model", "Model",
           lambda app: _open_values(app, "model"), "f3", "F3", "Choose one of the models of the agent"),
    Action("mode", "Mode",
           lambda app: _open_values(app, "mode"), "f4", "F4", "Choose one of the modes of the agent"),
    Action("options", "Agent options", _options, "f5", "F5", "All settings that the agent offers"),
    Action("copy", "Copy a message or a code block",
           _copy, "f8", "F8", "From the selected message or the latest answer"),
    Action("export", "Export the session as Markdown", _export, "ctrl+s", "Ctrl+S"),
    Action("diffs", "Diffs: side by side or unified", _toggle_diff_layout, "f10", "F10"),
    Action("next", "Next session", lambda app: app.tabs.step(1), "ctrl+pagedown", "Ctrl+PgDn"),
    Action("previous", "Previous session", lambda app: app.tabs.step(-1), "ctrl+pageup", "Ctrl+PgUp"),
    Action("close", "Close this session",
           lambda app: app.ask_to_close(app.view), "alt+w", "Alt+W", "Ends its agent"),
    Action("settings", "Settings", _settings, "f9", "F9", "Theme, notifications, diffs"),
    Action("wire", "Wire view", _wire, "f12", "F12", "All messages between the client and the agent"),
    Action("suspend", "Suspend", lambda app: app.action_suspend_process(), "ctrl+z", "Ctrl+Z",
           "Continue with fg in the shell"),
    Action("quit", "Quit", lambda app: app.exit(), "ctrl+q", "Ctrl+Q"),
]  # fmt: skip
"""In the order of the help page."""


REJECT_AND_SAY: Final = "reject_and_say"
ANSWER_KEYS: Final = {
    "allow": ("a", "allow"),
    "allow_always": ("A", "always allow"),
    "reject": ("r", "reject"),
    "reject_always": ("R", "always reject"),
    REJECT_AND_SAY: ("e", "reject, say what to do"),
}
"""The letters that answer a permission request, by their names in `chat.json`."""
ANSWER_KINDS: Final = {
    "allow": "allow_once",
    "allow_always": "allow_always",
    "reject": "reject_once",
    "reject_always": "reject_always",
    REJECT_AND_SAY: "reject_once",
}
"""The kinds of the options that these letters choose."""


def key_names() -> list[str]:
    """Everything that `chat.json` can give another key."""
    return [*(action.name for action in ACTIONS), *ANSWER_KEYS]


PROMPT_KEYS: Final = (
    ("Enter", "send; during a turn: to the agent at its next step, else queue"),
    ("Ctrl+J, Shift+Enter", "insert a new line; so does a backslash before Enter"),
    ("Up, Down", "earlier prompts of this folder"),
    ("/", "commands of the chat and of the agent"),
    ("@", "files of this folder; a few letters are enough"),
    ("!", "run a command in your own shell"),
    ("Ctrl+_", "undo a change of the prompt"),
    ("paste a path", "attach the file; Backspace at the start removes it"),
    ("Ctrl+V", "attach a picture from the clipboard"),
    ("Ctrl+O on a chip", "show the pasted text"),
)
GLOBAL_KEYS: Final = (
    ("PgUp, PgDn", "scroll the transcript"),
    ("Ctrl+C", "stop the turn; clear the prompt; twice: quit"),
    ("Ctrl+D", "quit if the prompt is empty"),
    ("Ctrl+P", "list all commands by name"),
    ("Alt+1 to Alt+9", "switch to that tab"),
    ("F1, ? in an empty prompt", "this page"),
)
_KEY_COLUMN_WIDTH: Final = 26


class CommandMenu(CommandPalette):
    """All commands by name, with their keys in the footer."""

    def compose(self) -> "ComposeResult":
        yield from super().compose()
        yield ScreenFooter(lambda: (("Enter", "run"), ("Esc", "close"), ("↑ ↓", "select")))


class HelpScreen(ModalScreen[None]):
    """Lists all keys."""

    DEFAULT_CSS: ClassVar[str] = """
    HelpScreen { align: center middle; }
    HelpScreen > VerticalScroll {
        width: 108; max-width: 96%; height: auto; max-height: 90%; padding: 1 2;
        background: $surface; border: round $primary; border-title-color: $primary;
        scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q,enter,question_mark", "dismiss", "Close", show=False)
    ]

    def __init__(self, keys: Mapping[str, str]) -> None:
        """`keys` are the keys that the user set for actions."""
        super().__init__()
        self._keys = keys

    def compose(self) -> "ComposeResult":
        with VerticalScroll() as page:
            set_border(page, title="Keys")
            yield Static(id="keys", markup=False)
        yield ScreenFooter(lambda: (("Esc", "close"), ("PgUp PgDn", "scroll")))

    def on_mount(self) -> None:
        palette = palette_of(self)
        out = Table.grid(padding=(0, 1))
        out.add_column(width=_KEY_COLUMN_WIDTH)
        out.add_column()
        actions = [
            (self._keys.get(action.name) or action.key_label or action.key, action.title)
            for action in ACTIONS
            if action.key
        ]
        answers = [(self._keys.get(name, key), meaning) for name, (key, meaning) in ANSWER_KEYS.items()]
        answers.append(("1 to 9", "choose an answer by its number"))
        groups = ("Prompt", PROMPT_KEYS), ("Questions", answers), ("Actions", actions)
        for title, rows in (*groups, ("Everywhere", GLOBAL_KEYS)):
            if out.row_count:
                out.add_row()
            out.add_row(Text(title, palette.heading))
            for key, description in rows:
                out.add_row(Text(f"  {key}", palette.strong), Text(description, palette.muted))
        self.query_one("#keys", Static).update(out)
