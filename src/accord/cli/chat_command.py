"""`accord chat`: arguments, and the start of the screen."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from accord.cli.agent_choice import split_command
from accord.cli.command_parser import Parser, check_session_options, session_options, told_folder
from accord.errors import UsageError
from accord.policy.rules import PERMISSION_DEFAULTS, PermissionDefault

if TYPE_CHECKING:
    from accord.frontend.agent_config import ConfiguredAgent
    from accord.frontend.agent_config.project_trust import Trusting
    from accord.tui.chat_types import ChatStart
    from accord.wire.remote.address import RemoteLauncher


# MERGED cli.chatting.arguments: The arguments of `accord chat`, checked as far as that is possible before the screen is there.


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatArguments:
    """What was asked for."""

    agent: str | None
    remote: "RemoteLauncher | None"
    command: tuple[str, ...]
    """Behind `--`; empty where an agent is named or the default one runs."""
    cwd: str
    add_dir: tuple[str, ...]
    permissions: PermissionDefault | None
    model: str | None
    mode: str | None
    settings: tuple[tuple[str, str], ...]
    session: str | None
    newest: bool
    trust: bool


def read_arguments(words: Sequence[str]) -> ChatArguments:
    """Raises UsageError for what cannot be meant."""
    found, command = split_command(words)
    given = parser().parse_args(found)
    named = [
        word
        for word in (given.agent, given.url and "--url", command[0] if command else None)
        if word is not None
    ]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)} both name an agent: choose one")
    check_session_options(given)
    for name in ("agent", "url", "model", "mode", "session"):
        value = getattr(given, name)
        if value is not None and not value.strip():
            raise UsageError(f"{name} was given an empty value: leave it out, or name one")
    remote = None
    if given.url is not None:
        from accord.cli.agent_choice import read_dial

        remote = read_dial(given.url, given.token_file)
    return ChatArguments(
        agent=given.agent,
        remote=remote,
        command=command,
        cwd=told_folder("--cwd", given.cwd, afar=given.url is not None),
        add_dir=tuple(told_folder("--add-dir", path, afar=given.url is not None) for path in given.add_dir),
        permissions=cast("PermissionDefault | None", given.permissions),
        model=given.model,
        mode=given.mode,
        settings=(),
        session=given.session,
        newest=given.newest,
        trust=given.trust,
    )


def parser() -> Parser:
    """The parser of everything before `--`."""
    made = Parser("accord chat", "Chat with an agent on a full screen; without a terminal, line by line.")
    made.usage = "accord chat [OPTIONS] [NAME | --url URL] [-- COMMAND ...]"
    option = made.add_argument
    option(
        "agent",
        nargs="?",
        metavar="NAME",
        help="an agent of `accord agents list`; by default the one of this package",
    )
    option("--url", metavar="URL", help="an agent on the network, such as one behind `accord serve`")
    session_options(made)
    option(
        "--permissions",
        choices=PERMISSION_DEFAULTS,
        help="what is allowed: ask (default), reads (default without a terminal), all, none",
    )
    option("--trust", action="store_true", help="let the project's acp.json count, this time only")
    return made


# MERGED cli.chat: `accord chat`: the terminal client for any agent. Without a terminal, prompts are read line by line and answers printed plainly.


def main(arguments: Sequence[str]) -> int:
    """Chat until the user leaves; the result is the exit code."""
    given = read_arguments(arguments)
    if _on_a_terminal():
        from accord.extras import require

        require("tui", "accord chat")
        return chat_on_screen(given)
    from accord.cli.plain_chat import chat_plainly

    return chat_plainly(start_of(given))


def chat_on_screen(given: ChatArguments) -> int:
    """The terminal client. Raises UsageError for settings that cannot be used."""
    import os

    from accord.tui.actions import ACTIONS
    from accord.tui.background_color import BackgroundColor, find_ground
    from accord.tui.chat_settings import FOLLOW, read_settings

    start = start_of(given)
    settings = read_settings([action.name for action in ACTIONS])
    ground = find_ground(os.environ) if settings.theme == FOLLOW else BackgroundColor(None)
    from accord.tui.chat_app import ChatApp

    def choose(name: str, cwd: str, trusting: "Trusting") -> "ConfiguredAgent":
        from accord.cli.agent_choice import chosen_server

        return chosen_server(name, (), cwd, trust=given.trust, asking=trusting)

    app = ChatApp(start, settings=settings, dark=ground.dark, typed=ground.typed, choose=choose)
    return app.run(mouse=settings.mouse) or 0


def start_of(given: ChatArguments) -> "ChatStart":
    """What the screen begins with. The agent is looked for later, when the prompt is there."""
    from accord.tui.chat_types import ChatStart

    def find(trusting: "Trusting") -> "ConfiguredAgent":
        from accord.cli.agent_choice import chosen_server, server_at

        if given.remote is not None:
            return server_at(given.remote)

        return chosen_server(given.agent, given.command, given.cwd, trust=given.trust, asking=trusting)

    return ChatStart(
        find=find,
        cwd=given.cwd,
        remote=given.remote,
        name=_name(given),
        add_dir=given.add_dir,
        permissions=given.permissions,
        model=given.model,
        mode=given.mode,
        settings=given.settings,
        session=given.session,
        newest=given.newest,
    )


def _name(given: ChatArguments) -> str:
    if given.remote is not None:
        return str(given.remote)
    return given.agent or (given.command[0].rpartition("/")[2] if given.command else "accord")


def _on_a_terminal() -> bool:
    """Whether there is a screen to draw on; a terminal that calls itself dumb has none."""
    if os.environ.get("TERM") == "dumb":
        return False
    streams = (sys.stdin, sys.stdout)
    return all(stream is not None and stream.isatty() for stream in cast("tuple[object, ...]", streams))  # type: ignore[attr-defined]
