"""`accord chat`: reads the arguments and starts the terminal client, or the plain chat without a terminal."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from accord.cli.command_parser import (
    Parser,
    add_session_options,
    add_trust_option,
    agent_folder,
    check_session_options,
    is_terminal,
    read_env,
    split_command,
)
from accord.errors import UsageError
from accord.policy.rules import PERMISSION_DEFAULTS, PermissionDefault

if TYPE_CHECKING:
    from accord.frontend.agent_config import ConfiguredAgent
    from accord.frontend.agent_config.project_trust import TrustCallback
    from accord.tui.chat_types import ChatStart
    from accord.wire.remote.address import RemoteLauncher


def main(arguments: Sequence[str]) -> int:
    """Chat until the user leaves and return the exit code."""
    chat_arguments = read_arguments(arguments)
    if os.environ.get("TERM") != "dumb" and is_terminal(sys.stdin) and is_terminal(sys.stdout):
        from accord.extras import require

        require("tui", "accord chat")
        return run_screen_chat(chat_arguments)
    from accord.cli.plain_chat import run_plain_chat

    return run_plain_chat(chat_start(chat_arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatArguments:
    """The arguments, checked as far as possible before the screen starts."""

    agent: str | None
    remote: "RemoteLauncher | None"
    command: tuple[str, ...]
    """The agent's command after `--`; empty if the agent is named or the default."""
    env: Mapping[str, str] = field(repr=False)
    """The variables of `--env`, with their values."""
    cwd: str
    add_dir: tuple[str, ...]
    permissions: PermissionDefault | None
    model: str | None
    mode: str | None
    session: str | None
    newest: bool
    trust: bool


def read_arguments(words: Sequence[str]) -> ChatArguments:
    """Parse and check the arguments. Raises UsageError."""
    own_words, command = split_command(words)
    options = parser().parse_args(own_words)
    agents = [options.agent, options.url and "--url", command[0] if command else None]
    names = [name for name in agents if name is not None]
    if len(names) > 1:
        raise UsageError(f"{' and '.join(names)} both name an agent; use one of them")
    check_session_options(options)
    for name in ("agent", "url", "model", "mode", "session"):
        value = getattr(options, name)
        if value is not None and not value.strip():
            raise UsageError(f"{name} has an empty value; omit it or pass a value")
    remote = None
    if options.url is not None:
        from accord.cli.agent_choice import remote_launcher

        remote = remote_launcher(options.url, options.token_file)
    is_remote = remote is not None
    return ChatArguments(
        agent=options.agent,
        remote=remote,
        command=command,
        env=read_env(options.env),
        cwd=agent_folder("--cwd", options.cwd, remote=is_remote),
        add_dir=tuple(agent_folder("--add-dir", path, remote=is_remote) for path in options.add_dir),
        permissions=cast("PermissionDefault | None", options.permissions),
        model=options.model,
        mode=options.mode,
        session=options.session,
        newest=options.newest,
        trust=options.trust,
    )


def parser() -> Parser:
    """Return the parser of the arguments before `--`."""
    parser = Parser("accord chat", "Chat with an agent on a full screen; without a terminal, line by line.")
    parser.usage = "accord chat [OPTIONS] [NAME | --url URL] [-- COMMAND ...]"
    option = parser.add_argument
    option(
        "agent",
        nargs="?",
        metavar="NAME",
        help="agent from `accord agents list` (default: the configured default, else accord)",
    )
    option("--url", metavar="URL", help="address of a remote agent, for example of `accord serve`")
    add_session_options(parser)
    option(
        "--permissions",
        choices=PERMISSION_DEFAULTS,
        help="what the agent may do: ask (default), reads (default without a terminal), all, none",
    )
    add_trust_option(parser)
    return parser


def run_screen_chat(arguments: ChatArguments) -> int:
    """Run the terminal client. Raises UsageError for unusable settings."""
    from accord.tui.actions import ACTIONS
    from accord.tui.background_color import BackgroundColor, detect_background
    from accord.tui.chat_settings import AUTO_THEME, read_settings

    start = chat_start(arguments)
    settings = read_settings([action.name for action in ACTIONS])
    background = detect_background(os.environ) if settings.theme == AUTO_THEME else BackgroundColor(None)
    from accord.tui.chat_app import ChatApp

    def choose_by_name(name: str, cwd: str, trusting: "TrustCallback") -> "ConfiguredAgent":
        from accord.cli.agent_choice import choose_agent

        return choose_agent(name, (), cwd, trust=arguments.trust, ask_trust=trusting)

    app = ChatApp(
        start, settings=settings, dark=background.dark, typed=background.typed, choose_agent=choose_by_name
    )
    return app.run(mouse=settings.mouse) or 0


def chat_start(arguments: ChatArguments) -> "ChatStart":
    """Return what the chat starts with. The agent is looked up later, after the first screen is drawn."""
    from accord.tui.chat_types import ChatStart

    def find(trusting: "TrustCallback") -> "ConfiguredAgent":
        from accord.cli.agent_choice import choose_agent, configured_remote_agent

        if arguments.remote is not None:
            return configured_remote_agent(arguments.remote)

        return choose_agent(
            arguments.agent,
            arguments.command,
            arguments.cwd,
            trust=arguments.trust,
            ask_trust=trusting,
            env=arguments.env,
        )

    return ChatStart(
        find_agent=find,
        cwd=arguments.cwd,
        remote=arguments.remote,
        name=_agent_name(arguments),
        from_command=bool(arguments.command),
        add_dir=arguments.add_dir,
        permissions=arguments.permissions,
        model=arguments.model,
        mode=arguments.mode,
        session=arguments.session,
        newest=arguments.newest,
    )


def _agent_name(arguments: ChatArguments) -> str:
    if arguments.remote is not None:
        return str(arguments.remote)
    return arguments.agent or (arguments.command[0].rpartition("/")[2] if arguments.command else "accord")
