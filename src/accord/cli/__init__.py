"""The command line: finds the subcommand, builds only its parser, and turns errors into one line and an exit code."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

from accord import __version__
from accord.errors import AccordError, AuthRequired, BadAnswer, ConnectionClosed, LimitReached, UsageError

DONE, FAILED, USAGE, AGENT_BROKE, TIMEOUT, NO_PERMISSION, AUTH, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130


class Subcommand(NamedTuple):
    """One subcommand: what it is for, the module with its `main(arguments)`, and the extra it needs."""

    summary: str
    module: str
    extra: str | None = None


COMMANDS: Final = {
    "run": Subcommand("one turn of any agent, for the shell, scripts and CI", "accord.cli.run_command"),
    "chat": Subcommand("the terminal client for any agent", "accord.cli.chat_command"),
    "agent": Subcommand("the coding agent, ACP on stdio", "accord.cli.agent_command"),
    "serve": Subcommand("the gateway: agents in the browser and on the network", "accord.cli.serve_command"),
    "check": Subcommand("does an agent follow the protocol?", "accord.cli.check_command"),
    "trace": Subcommand("record the wire, look at it, play it again", "accord.cli.trace_command"),
    "agents": Subcommand(
        "the agents that can be launched, acp.json, set-up of editors", "accord.cli.agents_command"
    ),
    "sessions": Subcommand(
        "the sessions there were: list, show, export, fork, delete", "accord.cli.sessions_command"
    ),
    "doctor": Subcommand("what works here, what is missing", "accord.cli.doctor_command"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = words[0] if words else "--help"
    try:
        if name in ("--help", "-h", "help"):
            print(_help())
            code = DONE if words else USAGE
        elif name in ("--version", "-V"):
            print(f"accord {__version__}")
            code = DONE
        else:
            code = _run(name, words[1:])
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Who read our output has enough, as `head` does. What is still buffered must not fail again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return DONE
    except AccordError as error:
        from accord.safe_text import clean_text  # what an agent said may be part of it

        print(f"accord {name}: {clean_text(str(error))}", file=sys.stderr)
        return exit_code(error)


def exit_code(error: AccordError) -> int:
    """The exit code for an error that ended a command."""
    match error:
        case UsageError():
            return USAGE
        case ConnectionClosed() | BadAnswer():
            return AGENT_BROKE
        case LimitReached():
            return TIMEOUT
        case AuthRequired():
            return AUTH
        case _:
            return FAILED


def _run(name: str, words: list[str]) -> int:
    command = COMMANDS.get(name)
    if command is None:
        raise UsageError(f"no such command; there are: {', '.join(COMMANDS)}")
    if command.extra is not None:
        from accord.extras import require

        require(command.extra, f"accord {name}")
    return import_module(command.module).main(words)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "accord: the Agent Client Protocol for Python",
            "",
            "usage: accord COMMAND [ARGUMENTS]   (accord COMMAND --help tells more)",
            "",
            *lines,
            "",
            "  --version  print the version",
        ]
    )
