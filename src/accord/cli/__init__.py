"""The command line: imports only the module of the subcommand, turns errors into one line and an exit code.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from accord import __version__
from accord.lazy_names import import_asyncio

if TYPE_CHECKING:
    from accord.errors import AccordError


class Subcommand(NamedTuple):
    """A subcommand: its help text, and the module with its `main(arguments)`."""

    summary: str
    module: str


COMMANDS: Final[dict[str, Subcommand]] = {
    "run": Subcommand("run one turn of any agent, for shells, scripts and CI", "accord.cli.run_command"),
    "chat": Subcommand("chat with any agent in the terminal", "accord.cli.chat_command"),
    "agent": Subcommand("run the coding agent, ACP on stdio", "accord.cli.agent_command"),
    "serve": Subcommand("serve agents to browsers and the network", "accord.cli.serve_command"),
    "cluster": Subcommand("show and check the nodes of a cluster", "accord.cli.cluster_command"),
    "check": Subcommand("test an agent or a client against the protocol", "accord.cli.check_command"),
    "trace": Subcommand("record, show and replay protocol messages", "accord.cli.trace_command"),
    "proxy": Subcommand("change messages between a client and an agent", "accord.cli.proxy_command"),
    "agents": Subcommand("list and configure agents, set up editors", "accord.cli.agents_command"),
    "sessions": Subcommand(
        "list, search, show, export, fork and delete sessions", "accord.cli.sessions_command"
    ),
    "worktrees": Subcommand("list and remove the git worktrees of sessions", "accord.cli.worktrees_command"),
    "tour": Subcommand("see what Accord does, in two minutes and without a key", "accord.cli.tour_command"),
    "doctor": Subcommand("check what works on this machine", "accord.cli.doctor_command"),
    "completion": Subcommand("print the completion script of a shell", "accord.cli.completion_command"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    gc.disable()  # until the command is loaded: imports create many objects and no garbage
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = words[0] if words else "--help"
    if name != "completion":  # it needs no msgspec
        import_asyncio()
    from accord.errors import AccordError

    try:
        code = _run(name, words)
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
        return code
    except (KeyboardInterrupt, OSError, AccordError) as error:
        return _end_with_error(name, error)
    finally:
        gc.enable()
        if arguments is None:
            gc.freeze()  # the process ends now, and does not have to search for garbage once more


def _run(name: str, words: list[str]) -> int:
    if name == "help" and len(words) > 1:
        return _run(words[1], [*words[1:], "--help"])
    if name in ("--help", "-h", "help"):
        print(_help())
        return 0 if words else 2
    if name in ("--version", "-V"):
        print(_version())
        return 0
    command = COMMANDS.get(name)
    if command is None:
        from accord.errors import UsageError

        raise UsageError(f"unknown command; use one of: {', '.join(COMMANDS)}")
    if name in ("agent", "run", "chat", "serve") and any(key.startswith("OTEL_") for key in os.environ):
        from accord import telemetry

        if telemetry.is_enabled():
            from accord.cli.telemetry_setup import set_up

            set_up(name)
    module = import_module(command.module)
    if name not in ("agent", "run"):  # these enable it when `initialize` is answered and the turn begins
        gc.enable()
    return module.main(words[1:])


def _end_with_error(name: str, error: "KeyboardInterrupt | OSError | AccordError") -> int:
    """Print the error, unless the user or the reader ended the command, and return the exit code."""
    from accord.cli.exit_codes import DONE, FAILED, INTERRUPTED, exit_code

    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader closed the pipe, as `head` does. The flush at exit must not fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return DONE
    from accord.safe_text import clean_text  # the message may quote an agent

    if isinstance(error, OSError):
        from accord.paths import explain_file_error

        print(f"accord {name}: {clean_text(explain_file_error(error))}", file=sys.stderr)
        return FAILED
    print(f"accord {name}: {clean_text(str(error))}", file=sys.stderr)
    return exit_code(error)


def _version() -> str:
    from accord.extras import EXTRAS, is_installed

    extras = ", ".join(filter(is_installed, EXTRAS)) or "none"
    return f"accord {__version__} (Python {sys.version.split()[0]}; extras: {extras})"


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "accord: the Agent Client Protocol for Python\n",
            "usage: accord COMMAND [ARGUMENTS]   (accord COMMAND --help shows the options)",
            "",
            *lines,
            "",
            "  --version  print the version, the version of Python and the installed extras",
        ]
    )
