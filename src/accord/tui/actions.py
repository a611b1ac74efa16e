"""Everything a user can do beside writing: one table, read by the keys, by the help and by the palette of commands.

A new screen hooks in with one entry: `run` gets the app.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from accord.tui.app import ChatApp


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
    from accord.tui.agents import pick_agent

    pick_agent(app)


def _sessions(app: "ChatApp") -> None:
    from accord.tui.stored.screen import SessionsScreen

    app.push_screen(SessionsScreen(app))


def _pick(app: "ChatApp", category: str) -> None:
    from accord.tui.pickers import pick

    pick(app, category)


def _options(app: "ChatApp") -> None:
    from accord.tui.pickers import pick_option

    pick_option(app)


def _copy(app: "ChatApp") -> None:
    from accord.tui.copying import copy

    copy(app)


def _export(app: "ChatApp") -> None:
    from accord.tui.copying import export

    export(app)


def _switch_diffs(app: "ChatApp") -> None:
    shown = app.view.transcript.size.width
    from accord.tui.parts.diff import WIDE

    beside = app.diffs == "beside" or (app.diffs == "auto" and shown >= WIDE)
    app.set_setting("diffs", "below" if beside else "beside")


def _settings(app: "ChatApp") -> None:
    from accord.tui.settings.screen import SettingsScreen

    app.push_screen(SettingsScreen(app.settings))


def _wire(app: "ChatApp") -> None:
    from accord.tui.wire.screen import show_wire

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
