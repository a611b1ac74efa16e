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
    Action("quit", "Quit", lambda app: app.exit(), "ctrl+q", "Ctrl+Q"),
]  # fmt: skip
"""In the order of the help."""
