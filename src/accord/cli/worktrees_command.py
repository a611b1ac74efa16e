"""`accord worktrees`, and the option `--worktree` of `accord run` and `accord chat`."""

import sys
from argparse import Namespace
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from accord.cli.command_parser import (
    Parser,
    SessionArguments,
    can_ask,
    confirm,
    existing_folder,
    find_subcommand,
    json_text,
    print_stderr,
    print_table,
)
from accord.errors import UsageError
from accord.frontend.git_command import Git, GitFailed
from accord.frontend.worktrees import (
    Worktree,
    close_worktree,
    find_worktree,
    open_worktree,
    remove_worktree,
    state_of,
    worktrees_of,
)
from accord.safe_text import one_line

_print_note = partial(print_stderr, command="worktrees")
_MAX_NAMED: Final = 10
Arguments = TypeVar("Arguments", bound=SessionArguments)


def main(arguments: Sequence[str]) -> int:
    """Run one subcommand and return the exit code."""
    name = find_subcommand("accord worktrees", _COMMANDS, arguments)
    if name is None:
        return 0 if arguments else 2
    summary, add_options, run = _COMMANDS[name]
    parser = Parser(f"accord worktrees {name}", summary)
    add_options(parser)
    parser.option("--cwd DIR", "folder in the repository (default: the current one)", default=".")
    parser.option("--json", "print JSON")
    options = parser.parse_args(arguments[1:])
    options.cwd = existing_folder("--cwd", options.cwd)
    return run(options)


def _list(options: Namespace) -> int:
    worktrees = worktrees_of(Git.require(options.cwd))
    if options.json:
        print(json_text([_json(worktree) for worktree in worktrees]))
        return 0
    if not worktrees:
        _print_note(f"no worktrees of the repository of {one_line(options.cwd)}")
        return 0
    print_table([_row(worktree) for worktree in worktrees])
    for worktree in worktrees:
        if worktree.branch:
            lines = (worktree.name, f"  {worktree.path}", f"  {worktree.merge_command}")
            print("\n" + "\n".join(map(one_line, lines)))
    return 0


def _remove(options: Namespace) -> int:
    for name in dict.fromkeys(options.names):
        worktree = find_worktree(name, options.cwd)
        result = remove_worktree(worktree, save=options.save)
        _print_note(f"removed {one_line(worktree.name)}: {one_line(result)}")
    if options.json:
        print(json_text([]))
    return 0


def _row(worktree: Worktree) -> tuple[str, ...]:
    return (
        one_line(worktree.name),
        one_line(worktree.branch or "no branch"),
        _state_text(worktree),
    )


def _state_text(worktree: Worktree) -> str:
    try:
        return state_of(worktree).text
    except GitFailed as error:
        return str(error)


def _json(worktree: Worktree) -> dict[str, Any]:
    state = state_of(worktree)
    return {
        "name": worktree.name,
        "path": worktree.path,
        "branch": worktree.branch or None,
        "main": worktree.main,
        "uncommitted": state.changes,
        "commits": state.commits,
        "merge": worktree.merge_command,
    }


def _add_list_options(_: Parser) -> None:
    """The list has no options of its own."""


def _add_remove_options(parser: Parser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+", help="names of the worktrees")
    parser.option("--save", "commit what is not committed to the branch first")


_COMMANDS: Final[dict[str, tuple[str, Callable[[Parser], None], Callable[[Namespace], int]]]] = {
    "list": ("list worktrees, their state and how to merge them", _add_list_options, _list),
    "remove": ("remove worktrees that have nothing uncommitted", _add_remove_options, _remove),
}


# -- `--worktree` of `accord run` and `accord chat` ----------------------------------------------------------


@contextmanager
def in_worktree(arguments: Arguments, command: str) -> Generator[Arguments]:
    """Run a session in its worktree: yields the arguments with that folder. Raises UsageError."""
    if arguments.worktree is None:
        yield arguments
        return
    if arguments.remote is not None:
        raise UsageError("--worktree needs an agent on this machine; --url has its own folders")
    opened = open_worktree(arguments.cwd, arguments.worktree or None, _approve_secrets)
    verb = "made" if opened.created else "using"
    worktree = opened.worktree
    say = partial(print_stderr, command=command)
    place = f"{one_line(worktree.path)}, branch {one_line(worktree.branch)}"
    say(f"{verb} the worktree {worktree.name} in {place}")
    for note in opened.notes:
        say(one_line(note, 500))
    try:
        yield replace(arguments, cwd=opened.cwd, worktree=worktree.name)
    finally:
        try:
            say(one_line(close_worktree(worktree), 500))
        except UsageError as error:
            say(f"kept the worktree {worktree.name}: {error}")


def _approve_secrets(files: Sequence[str]) -> bool:
    if not can_ask():
        return False
    names = ", ".join(map(one_line, files[:_MAX_NAMED]))
    more = f" and {len(files) - _MAX_NAMED} more" if len(files) > _MAX_NAMED else ""
    sys.stdout.flush()
    return confirm(f"Copy {names}{more} into the worktree? They may hold secrets.", "")
