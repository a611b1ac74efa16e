"""Whether a command only reads, which files it reads, and which variables it may print.

The tables in `readonly_specs.py` list the options that are known to be harmless. A command with any other
option needs a permission.
"""

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from accord.policy.programs.executed_commands import ExecutedCommands, is_harmless, is_public
from accord.policy.programs.program_options import ParsedArguments, parse_arguments
from accord.policy.programs.wrappers import is_system_program
from accord.policy.shell.syntax import SimpleCommand, Word

if TYPE_CHECKING:
    from accord.policy.programs.readonly_specs import ReadOnlySpec


class PrintableVariables(NamedTuple):
    """The variables that a line may print: in quotes, and without quotes."""

    quoted: frozenset[str] = frozenset()
    unquoted: frozenset[str] = frozenset()


NOTHING_PRINTABLE = PrintableVariables()


def printable_variables(found: ExecutedCommands) -> PrintableVariables:
    """Return the variables that the line itself sets to values that are no secrets."""
    if not all(is_public(name) for name in found.stdin_variables):
        return NOTHING_PRINTABLE
    used_variables: dict[str, set[str]] = {}
    with_globs: set[str] = set()
    assignments = [item for command in found.assignment_commands for item in command.assignments]
    for assignment in assignments:
        used_variables.setdefault(assignment.name, set()).update(
            name for word in assignment.values for name in word.variables
        )
        if not assignment.values or not all(
            _has_no_outside_glob(word, assignment.in_loop) for word in assignment.values
        ):
            with_globs.add(assignment.name)
    quoted = _public_closure(used_variables, set())
    return PrintableVariables(
        quoted,
        _public_closure(
            {name: names for name, names in used_variables.items() if name in quoted}, with_globs
        ),
    )


def _public_closure(used_variables: dict[str, set[str]], excluded: set[str]) -> frozenset[str]:
    """Return the variables that depend only on each other and on public ones."""
    public: set[str] = set()
    for _ in used_variables:
        public |= {
            name
            for name, names in used_variables.items()
            if name not in excluded and all(used in public or is_public(used) for used in names)
        }
    return frozenset(public)


def _has_no_outside_glob(word: Word, in_loop: bool) -> bool:
    """Whether the value cannot expand to file names elsewhere when it is used without quotes."""
    if any(part.kind == "unknown" for part in word.parts):
        return False
    text = "".join(part.text for part in word.parts if part.kind == "text")
    if in_loop and word.has_glob:
        return not text.startswith(("/", "~", "..")) and "/.." not in text and not word.variables
    return not re.search(r"[*?\[]", text)


def exports_variables(found: ExecutedCommands) -> bool:
    """Whether the line exports variables that may change what its programs do."""
    return any(
        "export" in command.via and not is_harmless(assignment.name)
        for command in found.assignment_commands
        for assignment in command.assignments
    )


@dataclass(frozen=True, slots=True)
class ReadOnlyUse:
    """What a read-only command reads."""

    files: tuple[Word, ...] = ()
    """Files whose content or names it prints."""
    trees: bool = False
    """Whether it prints the content of everything below them, including secrets."""
    mentions: tuple[Word, ...] = field(default=())
    """Words that may name a file in another way, such as `HEAD:path`. None of them may be a secret."""
    shows_tracked: bool = False
    """Whether git prints the content of tracked files. Only `safe_git` leaves secrets out."""
    objects: tuple[str, ...] = ()
    """Names of git objects whose content it prints. None of them may be a file."""


def read_only_use(
    command: SimpleCommand, printable: PrintableVariables = NOTHING_PRINTABLE
) -> ReadOnlyUse | None:
    """Return what the command reads; None if it may do more. `printable` are variables without secrets."""
    if not is_system_program(command.program) or not all(is_harmless(a.name) for a in command.assignments):
        return None
    if "nohup" in command.via:
        return None  # it may write nohup.out
    if not all(name in printable.quoted or is_public(name) for name in command.stdin_variables):
        return None
    spec = _specs().get(command.name)
    if spec is None:
        return _version_query(command)
    if any(not _is_certain(word) for word in command.arguments) and not spec.prints_arguments:
        return None
    if spec.prints_arguments:
        if not all(_is_printable(word, printable) for word in command.arguments):
            return None
        return ReadOnlyUse(
            tuple(word for word in command.arguments if word.has_glob)
        )  # it prints their names
    if spec.parse is not None:
        return spec.parse(command.arguments)
    parsed = parse_arguments(command.arguments, spec.flags, spec.valued | spec.files, digits=spec.digits)
    return None if parsed is None else _use_by_spec(spec, parsed, command.piped_from is not None)


def _use_by_spec(spec: "ReadOnlySpec", parsed: ParsedArguments, piped: bool) -> ReadOnlyUse | None:
    operands = list(parsed.operands)
    files = parsed.values(*spec.files)
    if spec.pattern and not parsed.has(*spec.patterns):
        if not operands or operands[0].text is None:
            return None
        pattern = operands.pop(0).text
        if spec.script is not None and not spec.script(pattern or ""):
            return None
    if spec.script is not None and not all(
        spec.script(word.text or "") for word in parsed.values(*spec.patterns)
    ):
        return None
    if spec.operands == "none" and operands:
        return None
    if spec.max_operands is not None and len(operands) > spec.max_operands:
        return None
    if spec.operands == "text":
        return ReadOnlyUse(tuple(files)) if all(word.text is not None for word in operands) else None
    # It searches everything below a folder, unless it reads from a pipe.
    trees = parsed.has(*spec.recursive) or (spec.trees and not (piped and not operands))
    return ReadOnlyUse((*files, *operands), trees)


def _is_certain(word: Word) -> bool:
    """Whether the files that the word names are known in advance."""
    return not word.has_braces and all(
        part.kind == "text" or (part.kind == "variable" and part.text in ("HOME", "PWD"))
        for part in word.parts
    )


def _is_printable(word: Word, printable: PrintableVariables) -> bool:
    """Whether printing the word cannot reveal a secret.

    A command inside it is checked separately, but its output could expand to file names if it is not quoted.
    """
    for part in word.parts:
        if part.kind == "unknown" and not part.quoted:
            return False
        if (
            part.kind == "variable"
            and not part.quoted
            and part.text not in printable.unquoted
            and not is_public(part.text)
        ):
            return False
    return all(name in printable.quoted or is_public(name) for name in word.variables)


def _version_query(command: SimpleCommand) -> ReadOnlyUse | None:
    from accord.policy.programs.readonly_specs import VERSION_OPTIONS

    arguments = [word.text for word in command.arguments]
    is_version_query = command.name in VERSION_OPTIONS and arguments in (
        ["--version"],
        ["-V"],
        ["version"],
        ["-version"],
    )
    return ReadOnlyUse() if is_version_query and arguments[0] in VERSION_OPTIONS[command.name] else None


def is_reading_program(command: SimpleCommand) -> bool:
    """Whether its program prints the files it is given.

    Git is excluded because its content is shared anyway.
    """
    return command.name in _specs() and command.name != "git"


@cache
def _specs() -> "dict[str, ReadOnlySpec]":
    from accord.policy.programs.readonly_specs import SPECS

    return SPECS
