"""Collects the parsers of all commands. A parser is built when its command runs, so each runs with `--help`.

The completion scripts and the man pages are written from this tree.
"""

import re
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from unittest.mock import patch

from accord.cli import COMMANDS, main
from accord.cli.command_parser import Parser

_FILE_METAVARS = {"F", "FILE", "PATH"}
_DIR_METAVARS = {"DIR", "D"}


class _HelpShown(BaseException):
    """Carries the parser whose help was asked for."""

    def __init__(self, parser: ArgumentParser) -> None:
        self.parser = parser


@dataclass(frozen=True, slots=True)
class Argument:
    """An option or a positional argument."""

    flags: tuple[str, ...]
    """Empty for a positional argument."""
    metavar: str
    """Empty for an option without a value."""
    help: str
    values: str | tuple[str, ...]
    """What to offer as its value: the choices, or `file`, `dir`, `agent`, or `` for nothing."""
    optional: bool


@dataclass(frozen=True, slots=True)
class CommandNode:
    """A command: the words of its path, its own arguments, and its subcommands."""

    path: tuple[str, ...]
    summary: str
    description: str
    usage: str
    epilog: str
    arguments: tuple[Argument, ...]
    subcommands: tuple["CommandNode", ...]

    @property
    def options(self) -> list[Argument]:
        return [argument for argument in self.arguments if argument.flags]

    @property
    def positionals(self) -> list[Argument]:
        return [argument for argument in self.arguments if not argument.flags]

    def walk(self) -> Iterator["CommandNode"]:
        """Yield this command and all below it."""
        yield self
        for command in self.subcommands:
            yield from command.walk()


@cache
def command_tree() -> CommandNode:
    """Return the root, `accord`, with all commands."""
    subcommands = tuple(_read((name,), command.summary) for name, command in COMMANDS.items())
    arguments = (
        Argument(("-h", "--help"), "", "list the commands", "", False),
        Argument(
            ("-V", "--version"), "", "print the version, of Python too, and the installed extras", "", False
        ),
    )
    about = "The Agent Client Protocol for Python"
    return CommandNode((), about, about + ".", "accord COMMAND [ARGUMENTS]", "", arguments, subcommands)


def _read(path: tuple[str, ...], summary: str) -> CommandNode:
    printed = StringIO()
    parser: ArgumentParser | None = None

    def stop(parser: ArgumentParser, file: object = None) -> None:
        raise _HelpShown(parser)

    try:
        with patch.object(Parser, "print_help", stop), redirect_stdout(printed):
            main([*path, "--help"])
    except _HelpShown as shown:
        parser = shown.parser
    if parser is None:  # a command with subcommands prints them as a table
        rows: dict[str, str] = dict(re.findall(r"^  ([a-z]+) +(\S.*)$", printed.getvalue(), re.MULTILINE))
        usage = f"{' '.join(['accord', *path])} {' | '.join(rows)}"
        subcommands = tuple(_read((*path, name), about) for name, about in rows.items())
        return CommandNode(path, summary or ", ".join(rows), "", usage, "", (), subcommands)
    # A command that also runs without a subcommand names them in its usage.
    names = re.findall(rf"^\s*{re.escape(parser.prog)} ([a-z]+)\b", parser.usage or "", re.MULTILINE)
    return CommandNode(
        path,
        summary,
        parser.description or "",
        parser.usage or _usage(parser),
        parser.epilog or "",
        tuple(_argument(parser, action) for action in parser._actions if action.help != SUPPRESS),
        tuple(_read((*path, name), "") for name in names),
    )


def _argument(parser: ArgumentParser, action: Action) -> Argument:
    words = (action.help or "") % {**vars(action), "prog": parser.prog}
    takes_value = action.nargs != 0
    choices = tuple(map(str, action.choices)) if action.choices is not None else ()
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    metavar = metavar or ("|".join(choices) if choices else action.dest.upper())
    about_agents = re.match(r"agents? from|name of the agent \(default|name of the agent$", words) is not None
    values: str | tuple[str, ...] = choices
    if takes_value and not choices:
        values = "agent" if about_agents else "file" if metavar in _FILE_METAVARS else ""
        values = "dir" if metavar in _DIR_METAVARS else values
    optional = not action.option_strings and action.nargs in ("?", "*")
    return Argument(
        tuple(action.option_strings), metavar if takes_value else "", words, values or "", optional
    )


def _usage(parser: ArgumentParser) -> str:
    words = [parser.prog, "[OPTIONS]"]
    for action in parser._actions:
        if not action.option_strings:
            name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
            name += " ..." if action.nargs in ("*", "+") else ""
            words.append(f"[{name}]" if action.nargs in ("?", "*") else name)
    return " ".join(words)
