"""A shell line and what is known about it: its commands, and every reason to doubt that these are all.

Two readings have to agree (ours in `grammar.py`, tree-sitter's in `tree.py`). Without tree-sitter no line is judged.
"""

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from .grammar import Reading, read
from .tree import Tree, parse
from .words import Command, literal

LONGEST: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """What is known about a line. Only one that is `parsed` and has no doubts is known completely."""

    text: str
    commands: tuple[Command, ...] = ()
    """Everything that was found to run, in the order of the line, wrappers not yet opened."""
    doubts: tuple[str, ...] = ()
    """What may run besides, or otherwise than it looks."""
    parsed: bool = True
    """Whether it is a line of shell at all. One that is not is never run unasked."""
    loops: bool = False
    """Whether a command may run again after one that stands behind it."""
    functions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The functions it defines, each with the names of the commands inside."""


@lru_cache(maxsize=256)
def read_line(text: str) -> Line:
    """Read a line that is meant for `bash -c`."""
    hidden = unfit(text)
    reading = read(text) if len(text) <= LONGEST else Reading(unreadable="it is too long")
    # What bash cannot be handed (a NUL, half a surrogate pair) no parser needs to see.
    tree = parse(text) if hidden is None or ("\0" not in text and _encodable(text)) else None
    functions = tuple(
        (name, tuple(reading.commands[place].name for place in places)) for name, places in reading.functions
    )
    doubts = list(reading.doubts)
    if reading.unreadable is not None:
        doubts.append(f"it has {reading.unreadable}")
    parsed = hidden is None and tree is not None and not tree.broken and len(text) <= LONGEST
    if hidden is not None:
        doubts.insert(0, hidden)
    elif tree is None:
        doubts.insert(0, "there is no shell parser (pip install 'accord[agent]')")
    elif tree.broken:
        doubts.insert(0, "it does not parse")
    commands = list(reading.commands)
    if tree is not None and (doubts or not _agree(text, reading, tree)):
        commands.extend(tree.commands)
        if not doubts:
            doubts.append("two readings of it do not agree")
    said = tuple(filter(_says_something, commands))
    loops = reading.loops or bool(reading.functions) or reading.unreadable is not None
    return Line(text, said, tuple(doubts), parsed, loops, functions)


def line_of(arguments: tuple[str, ...]) -> Line:
    """A command that is started without a shell: the program and its arguments, as they are."""
    if not arguments or any(unfit(argument) for argument in arguments):
        return Line(" ".join(arguments), (), ("it cannot be read",), parsed=False)
    return Line(" ".join(arguments), (Command(tuple(literal(argument) for argument in arguments)),))


def unfit(text: str) -> str | None:
    """Why nobody should trust their eyes on this text, if so: characters that do not show, or do not show as they are."""
    for char in text:
        if char in " \n\t" or "!" <= char <= "~":
            continue
        if char < " " or char == "\x7f":
            return f"it has a control character, {char!r}"
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"):
            return f"it has a character that does not show, {char!a}"
    return None


def _says_something(command: Command) -> bool:
    return bool(command.words or command.assignments or command.redirects or command.stdin)


def _encodable(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _agree(text: str, reading: Reading, tree: Tree) -> bool:
    ours = reading.starts if text.isascii() else {len(text[:start].encode()) for start in reading.starts}
    return ours == tree.starts
