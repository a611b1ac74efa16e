"""The slash commands of the chat itself, beside those of the agent.

A command of the agent with the same name is sent with two slashes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from accord.tui.chat_app import ChatApp


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """One command of the chat."""

    name: str
    description: str
    run: "Callable[[ChatApp, str], Any]"
    """Gets the text after the name; may return an awaitable."""
    argument: str = ""
    """The hint for the text after the name."""


def _action(name: str) -> "Callable[[ChatApp, str], Any]":
    return lambda app, text: app.action_do(name)


def _model(app: "ChatApp", text: str) -> None:
    _choose(app, "model", text)


def _mode(app: "ChatApp", text: str) -> None:
    _choose(app, "mode", text)


def _choose(app: "ChatApp", category: str, text: str) -> None:
    from accord.tui.option_screens import open_values

    open_values(app, category, text)


def _theme(app: "ChatApp", text: str) -> None:
    from accord.tui.option_screens import choose_theme

    choose_theme(app, text)


def _rewind(command: str) -> "Callable[[ChatApp, str], Any]":
    return lambda app, text: app.view.run_rewind_command(f"/{command} {text}")


COMMANDS: Final = (
    ChatCommand("help", "keys and commands", lambda app, text: app.action_help()),
    ChatCommand("new", "start a session, also with another agent", _action("agent")),
    ChatCommand("model", "choose the model", _model, "name"),
    ChatCommand("mode", "choose the mode", _mode, "name"),
    ChatCommand("sessions", "continue, search, rename or delete a session", _action("sessions")),
    ChatCommand("dashboard", "all sessions, and what each waits for", _action("dashboard")),
    ChatCommand("theme", "choose the colors", _theme, "name"),
    ChatCommand("copy", "copy a message or a code block", _action("copy")),
    ChatCommand("export", "write the session to a Markdown file", _action("export")),
    ChatCommand("undo", "go back to before the last prompt", _rewind("undo"), "files | conversation"),
    ChatCommand("redo", "take the last undo back", _rewind("redo")),
    ChatCommand("rewind", "go back to an earlier prompt", _rewind("rewind")),
    ChatCommand("review", "look at all changes, revert or comment on them", _action("review")),
    ChatCommand("login", "sign in, or enter a model key", _action("sign_in")),
    ChatCommand("tour", "two minutes, without a key", _action("tour")),
    ChatCommand("settings", "theme, notifications, diffs, mouse", _action("settings")),
    ChatCommand("exit", "quit", _action("quit")),
)
"""In the order of the list."""
_ALIASES: Final = {"quit": "exit", "keys": "help", "resume": "sessions"}


def find_command(text: str, agent_commands: Sequence[str]) -> tuple[ChatCommand, str] | None:
    """The command of the chat that a prompt is, with the text after its name; None for other prompts."""
    name, _, rest = text.strip().partition(" ")
    if not name.startswith("/") or "\n" in text.strip():
        return None
    name = name[1:]
    if name not in agent_commands:
        name = _ALIASES.get(name, name)
    command = next((command for command in COMMANDS if command.name == name), None)
    return None if command is None else (command, rest.strip())


def agent_command(text: str) -> str:
    """A prompt with two slashes as the agent gets it: with one."""
    return text.lstrip()[1:] if text.lstrip().startswith("//") else text
