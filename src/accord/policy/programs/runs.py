"""Everything that a shell line runs, wrappers opened: the list that a decision has to cover whole."""

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ..shell.line import Line, read_line
from ..shell.words import Command, Redirect
from .variables import steers
from .wrappers import open_one

DEEPEST: Final = 12
MOST: Final = 150
_LANGUAGE: Final = re.compile(r"LC_|LANG")


class Redirected(NamedTuple):
    """A redirection, the command it belongs to, and how many commands stand before it."""

    redirect: Redirect
    command: Command
    after: int


@dataclass(slots=True)
class Runs:
    """What a line runs."""

    commands: list[Command] = field(default_factory=list[Command])
    redirects: list[Redirected] = field(default_factory=list[Redirected])
    settings: list[Command] = field(default_factory=list[Command])
    """The commands that only set variables."""
    loops: bool = False
    """Whether a command may run again after one that stands behind it."""
    doubts: list[str] = field(default_factory=list[str])
    """What may run besides, or otherwise than it looks."""
    parsed: bool = True
    functions: list[tuple[str, tuple[str, ...]]] = field(default_factory=list[tuple[str, tuple[str, ...]]])
    told: list[str] = field(default_factory=list[str])
    """Variables whose values are handed to commands in here-documents."""
    lines: list[str] = field(default_factory=list[str])
    """The line itself and every line handed to a shell inside it."""


def runs(line: Line) -> Runs:
    """Open the wrappers of a line, and those inside them."""
    found = Runs()
    _line(line, found, DEEPEST)
    found.doubts = list(dict.fromkeys(found.doubts))
    return found


def _line(line: Line, found: Runs, depth: int) -> None:
    found.lines.append(line.text)
    found.parsed = found.parsed and line.parsed
    found.loops = found.loops or line.loops
    found.doubts += line.doubts
    found.functions += line.functions
    for command in line.commands:
        found.redirects += [Redirected(one, command, len(found.commands)) for one in command.redirects]
        if len(found.redirects) > MOST:
            found.doubts.append("it reads and writes too many files")
            found.parsed = False
            return
        found.told += command.told
        _command(command, found, depth)


def _command(command: Command, found: Runs, depth: int) -> None:
    if depth == 0 or len(found.commands) >= MOST:
        found.doubts.append("it runs too many commands" if depth else "commands start commands too often")
        found.parsed = False
        return
    for assignment in command.assignments:
        # An unknown language makes the shell complain, and say its name.
        tells = _LANGUAGE.match(assignment.name) and any(word.spelled is None for word in assignment.values)
        if steers(assignment.name) or tells:
            found.doubts.append(f"it sets {assignment.name}")
    if not command.words:
        found.settings.append(command)
        return
    if command.program is None:
        found.doubts.append(f"what {command.words[0].raw[:60]!r} runs is not certain")
        found.commands.append(command)
        return
    opened = open_one(command)
    if opened is None:
        found.commands.append(command)
        return
    found.doubts += opened.doubts
    if opened.itself:
        found.commands.append(command)
    for inner in opened.commands:
        _command(inner, found, depth - 1)
    for text in opened.lines:
        _line(read_line(text), found, depth - 1)
