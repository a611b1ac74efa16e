"""A shell line and what is known about it: its commands, and every reason to doubt that these are all.

Two readings have to agree (ours in `grammar.py`, tree-sitter's in `tree.py`). Without tree-sitter no line is judged.
"""

import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from .grammar import read
from .tree import parse
from .words import Command, literal

LONGEST: Final = 64 * 1024
MOST_WORDS: Final = 500
"""In one command. Who has more to say is not judged."""
# Letters and symbols that look like nothing at all.
_BLANK_LOOKING: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"))


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
    if len(text) > LONGEST:
        return Line(text, (), ("it is too long",), parsed=False)
    hidden = unfit(text)
    reading = read(text)
    tree = parse(text)
    commands, doubts = list(reading.commands), list(reading.doubts)
    if hidden is not None:
        doubts.insert(0, hidden)
    elif tree is None:
        doubts.insert(0, "there is no shell parser (pip install 'accord[agent]')")
    elif tree.broken:
        doubts.insert(0, "it does not parse")
    if reading.unreadable is not None:
        doubts.append(f"it has {reading.unreadable}")
    if tree is not None and (doubts or reading.starts != tree.starts):
        commands.extend(tree.commands)
        if not doubts:
            doubts.append("two readings of it do not agree")
    talkative = any(len(command.words) > MOST_WORDS for command in commands)
    if talkative:
        doubts.insert(0, f"it has a command of more than {MOST_WORDS} words")
        commands = [replace(command, words=command.words[:MOST_WORDS]) for command in commands]
    functions = tuple(
        (name, tuple(reading.commands[place].name for place in places)) for name, places in reading.functions
    )
    return Line(
        text,
        tuple(filter(_says_something, commands)),
        tuple(doubts),
        parsed=tree is not None and not (tree.broken or hidden or reading.too_deep or talkative),
        loops=reading.loops or bool(reading.functions) or reading.unreadable is not None,
        functions=functions,
    )


def line_of(arguments: tuple[str, ...]) -> Line:
    """A command that is started without a shell: the program and its arguments, as they are."""
    if not arguments or len(arguments) > MOST_WORDS or any(unfit(argument) for argument in arguments):
        return Line(" ".join(arguments), (), ("it cannot be read",), parsed=False)
    return Line(" ".join(arguments), (Command(tuple(literal(argument) for argument in arguments)),))


def unfit(text: str) -> str | None:
    """Why nobody should trust their eyes on this text, if so: characters that do not show, or do not show as they are."""
    for char in text:
        if char in " \n\t" or "!" <= char <= "~":
            continue
        if char < " " or char == "\x7f":
            return f"it has a control character, {char!r}"
        if char in _BLANK_LOOKING or unicodedata.category(char) in _UNSEEN:
            return f"it has a character that does not show, {char!a}"
    return None


def _says_something(command: Command) -> bool:
    return bool(command.words or command.assignments or command.redirects or command.stdin)
