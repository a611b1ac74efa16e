"""Which variables a line may print: those it has set itself, to nothing that may be a secret."""

import re
from typing import NamedTuple

from ..shell.words import Word
from .runs import Runs
from .variables import harmless, may_be_shown


class Shown(NamedTuple):
    """Variables that may be shown: within quotes, and outside of them."""

    quoted: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()


NOTHING_SHOWN = Shown()


def open_variables(found: Runs) -> Shown:
    """The variables that the line sets itself, and to nothing that may be a secret."""
    if not all(may_be_shown(name) for name in found.told):
        return NOTHING_SHOWN
    used: dict[str, set[str]] = {}
    loose: set[str] = set()
    for assignment in (one for command in found.settings for one in command.assignments):
        used.setdefault(assignment.name, set()).update(
            name for word in assignment.values for name in word.variables
        )
        if not assignment.values or not all(
            _stays_put(word, assignment.in_turn) for word in assignment.values
        ):
            loose.add(assignment.name)
    quoted = _closed(used, set())
    return Shown(quoted, _closed({name: names for name, names in used.items() if name in quoted}, loose))


def _closed(used: dict[str, set[str]], without: set[str]) -> frozenset[str]:
    """Those that are made of nothing but each other and of what may be shown anyway."""
    fine: set[str] = set()
    for _ in used:
        fine |= {
            name
            for name, names in used.items()
            if name not in without and all(one in fine or may_be_shown(one) for one in names)
        }
    return frozenset(fine)


def _stays_put(word: Word, in_turn: bool) -> bool:
    """Whether a value cannot turn into the names of files elsewhere when it is used outside of quotes."""
    if any(part.kind == "unknown" for part in word.parts):
        return False
    text = "".join(part.text for part in word.parts if part.kind == "text")
    if in_turn and word.globs:
        return not text.startswith(("/", "~", "..")) and "/.." not in text and not word.variables
    return not re.search(r"[*?\[]", text)


def exports(found: Runs) -> bool:
    """Whether the line hands variables to its programs that may do more than inform them."""
    return any(
        "export" in command.via and not harmless(assignment.name)
        for command in found.settings
        for assignment in command.assignments
    )
