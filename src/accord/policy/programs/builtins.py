"""The shell's own commands that run a text, set variables, or change how the rest of the line is read."""

import re
from collections.abc import Callable
from typing import Final

from ..lists import words
from ..shell.words import Assignment, Command
from .opened import Opened
from .options import names, parse

_SETTING: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Not `x`: it shows the value of every variable that is used.
_SHELL_FLAGS: Final = re.compile(r"[-+](?:[efuCbmh]+|[efuCbmh]*o)")
_SHELL_OPTIONS: Final = words("pipefail errexit nounset noglob noclobber monitor")
_SETS_VARIABLE: Final = re.compile(r"%[^A-Za-z%]*n")


def _eval(command: Command) -> Opened:
    texts = [word.spelled if not word.globs else None for word in command.arguments]
    if None in texts:
        return Opened(doubts=["eval runs a text that is only known when it runs"], itself=True)
    return Opened(lines=[" ".join(text or "" for text in texts)])


def _trap(command: Command) -> Opened:
    words = list(command.arguments)
    if words and words[0].text == "--":
        words.pop(0)
    if not words or words[0].text in ("-p", "-l"):
        return Opened()
    if words[0].spelled is None:
        return Opened(doubts=["trap runs a text that is only known when it runs"], itself=True)
    return Opened(lines=[words[0].spelled] if words[0].spelled not in ("", "-") else [])


def _source(command: Command) -> Opened:
    return Opened(doubts=[f"{command.name} lets a file change what the rest of the line does"], itself=True)


def _changes_reading(command: Command) -> Opened:
    return Opened(doubts=[f"{command.name} changes what the rest of the line does"], itself=True)


def _set(command: Command) -> Opened:
    words = [word.text for word in command.arguments]
    while words and (flag := words.pop(0)):
        if flag == "--":
            return Opened()  # only the positional parameters, which nobody trusts
        if not _SHELL_FLAGS.fullmatch(flag):
            break
        if flag.endswith("o") and (not words or words.pop(0) not in _SHELL_OPTIONS):
            break
        if not words:
            return Opened()
    return Opened(doubts=["set is called in an unusual way"], itself=True)


def _declaration(command: Command) -> Opened:
    """`export A=1`: as if it were written `A=1`."""
    assignments: list[Assignment] = []
    for word in command.arguments:
        found = _SETTING.match(word.raw)
        if found:
            assignments.append(Assignment(found[1], (word,)))
        elif word.text is not None and _NAME.fullmatch(word.text):
            assignments.append(Assignment(word.text))
        else:
            return Opened(doubts=[f"{command.name} is called in an unusual way"], itself=True)
    if not assignments:
        return Opened(itself=True)  # it prints every variable
    return Opened(
        [Command(assignments=(*command.assignments, *assignments), via=(*command.via, command.name))]
    )


def _named(command: Command, flags: str, valued: str = "") -> Opened:
    """A command that sets the variables it is given by name."""
    parsed = parse(command.arguments, names(flags), names(valued))
    if parsed is None or not all(_NAME.fullmatch(word.text or "") for word in parsed.operands):
        return Opened(doubts=[f"{command.name} is called in an unusual way"], itself=True)
    assignments = tuple(Assignment(word.text or "") for word in parsed.operands)
    return Opened(
        [Command(assignments=(*command.assignments, *assignments), via=(*command.via, command.name))]
    )


def _read(command: Command) -> Opened:
    return _named(command, "-r -s -e", "-p -d -n -N -t -u")


def _unset(command: Command) -> Opened:
    return _named(command, "-v")


def _printf(command: Command) -> Opened | None:
    """`printf FORMAT ...` only prints, unless it is told to set a variable (`-v NAME`, `%n`)."""
    form = command.arguments[0].text if command.arguments else ""
    if (
        form is not None
        and (form == "--" or not form.startswith("-"))
        and not _SETS_VARIABLE.search(form.replace("%%", ""))
    ):
        return None
    return Opened(doubts=["printf is called in an unusual way"], itself=True)


def _command(command: Command) -> Opened | None:
    words = command.arguments
    if words and words[0].text == "-p":
        words = words[1:]
    if not words:
        return Opened()
    if words[0].text is not None and words[0].text.startswith("-"):
        return None  # `command -v`, judged on its own
    return Opened([command.inner(words)])


_CHANGE_READING: Final = words(
    """
    alias unalias shopt enable hash bind complete compgen compopt mapfile readarray let getopts coproc
    caller fc history popd dirs ulimit umask
    """
)
BUILTINS: Final[dict[str, Callable[[Command], Opened | None]]] = {
    "eval": _eval,
    "trap": _trap,
    "source": _source,
    ".": _source,
    "set": _set,
    "read": _read,
    "unset": _unset,
    "printf": _printf,
    "command": _command,
    **dict.fromkeys(("export", "declare", "typeset", "readonly", "local"), _declaration),
    **dict.fromkeys(_CHANGE_READING, _changes_reading),
}
