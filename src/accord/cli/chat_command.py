"""`accord chat`: reads the arguments and starts the terminal client, or the plain chat without a terminal."""

import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from accord.cli.command_parser import (
    Parser,
    SessionArguments,
    add_session_options,
    add_trust_option,
    check_session_options,
    is_terminal,
    print_stderr,
    quoted_command,
    session_values,
    split_command,
)
from accord.errors import UsageError
from accord.policy.rules import PERMISSION_DEFAULTS

if TYPE_CHECKING:
    from accord.frontend.agent_config import ConfiguredAgent
    from accord.frontend.agent_config.project_trust import TrustCallback
    from accord.tui.chat_types import ChatStart, KeyState


def main(arguments: Sequence[str]) -> int:
    """Chat until the user leaves and return the exit code."""
    chat_arguments = read_arguments(arguments)
    if chat_arguments.worktree is None:
        return _chat(chat_arguments)
    from accord.cli.worktrees_command import in_worktree

    with in_worktree(chat_arguments, "chat") as chat_arguments:
        return _chat(chat_arguments)


def _chat(arguments: SessionArguments) -> int:
    if os.environ.get("TERM") != "dumb" and is_terminal(sys.stdin) and is_terminal(sys.stdout):
        from accord.extras import require

        require("tui", "accord chat")
        return run_screen_chat(arguments)
    from accord.cli.plain_chat import run_plain_chat

    return run_plain_chat(chat_start(arguments))


def read_arguments(words: Sequence[str]) -> SessionArguments:
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
    return SessionArguments(**session_values(options, command))


def parser() -> Parser:
    """Return the parser of the arguments before `--`."""
    parser = Parser("accord chat", "Chat with an agent on a full screen; without a terminal, line by line.")
    parser.usage = "accord chat [OPTIONS] [NAME | --url URL] [-- COMMAND ...]"
    option = parser.option
    parser.add_argument(
        "agent",
        nargs="?",
        metavar="NAME",
        help="agent from `accord agents list` (default: the configured default, else accord)",
    )
    option("--url URL", "address of a remote agent, for example of `accord serve`")
    add_session_options(parser)
    option(
        "--permissions",
        "what the agent may do: ask (default), reads (default without a terminal), all, none",
        choices=PERMISSION_DEFAULTS,
    )
    add_trust_option(parser)
    return parser


def run_screen_chat(arguments: SessionArguments) -> int:
    """Run the terminal client. Raises UsageError for unusable settings."""
    from accord.tui.actions import key_names
    from accord.tui.background_color import BackgroundColor, detect_background, early_keys, pending_keys
    from accord.tui.chat_settings import AUTO_THEME, read_settings

    def choose_by_name(name: str, cwd: str, trusting: "TrustCallback") -> "ConfiguredAgent":
        from accord.cli.agent_choice import choose_agent

        return choose_agent(name, (), cwd, trust=arguments.trust, ask_trust=trusting)

    start = chat_start(arguments)
    settings = read_settings(key_names())
    with early_keys() as terminal_mode:  # the user may type before the screen opens
        typed = pending_keys()
        background = detect_background(os.environ) if settings.theme == AUTO_THEME else BackgroundColor(None)
        from accord.tui.chat_app import ChatApp

        typed += background.typed + pending_keys()
        app = ChatApp(
            start,
            settings=settings,
            dark=background.dark,
            typed=typed,
            choose_agent=choose_by_name,
            check_key=_check_key,
            terminal_mode=terminal_mode,
        )
        code = app.run(mouse=settings.mouse) or 0
    for line in resume_lines(arguments, app.ended):
        print_stderr(line)
    return code


def _check_key(online: bool) -> "KeyState":
    from accord.cli.model_check import model_key_state

    return model_key_state(online)


def resume_lines(arguments: SessionArguments, ended: "Sequence[tuple[ChatStart, str]]") -> list[str]:
    """One line that says how to continue the session, and one about others that were open."""
    if not ended:
        return []
    from accord.safe_text import one_line

    start, session_id = ended[0]
    words = ["accord", "chat"]
    if start.remote is not None:
        words += ["--url", str(start.remote)]
    elif not start.from_command:
        words += [start.name] if start.name != _agent_name(arguments) or arguments.agent else []
    if arguments.worktree is not None:
        words.append(f"--worktree={arguments.worktree}")
    elif start.remote is None and os.path.realpath(start.cwd) != os.path.realpath(os.getcwd()):
        words += ["--cwd", start.cwd]
    words += ["--session", session_id]
    if arguments.command and start.from_command:
        words += ["--", quoted_command(arguments.command)]
        return [one_line(f"Continue with: {' '.join(words)}", 500)]
    more = f"; {len(ended) - 1} more: accord sessions list" if len(ended) > 1 else ""
    return [one_line(f"Continue with: {shlex.join(words)}{more}", 500)]


def chat_start(arguments: SessionArguments) -> "ChatStart":
    """Return what the chat starts with. The agent is looked up later, after the first screen is drawn."""
    from accord.tui.chat_types import ChatStart

    def find(trusting: "TrustCallback") -> "ConfiguredAgent":
        from accord.cli.agent_choice import choose_agent, configured_remote_agent

        if arguments.remote is not None:
            return configured_remote_agent(arguments.remote, arguments.protocol)

        return choose_agent(
            arguments.agent,
            arguments.command,
            arguments.cwd,
            trust=arguments.trust,
            ask_trust=trusting,
            env=arguments.env,
            protocol=arguments.protocol,
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


def _agent_name(arguments: SessionArguments) -> str:
    if arguments.remote is not None:
        return str(arguments.remote)
    return arguments.agent or (arguments.command[0].rpartition("/")[2] if arguments.command else "accord")
