"""The arguments of `accord chat`, checked as far as that is possible before the screen is there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from accord.cli.chosen import split_command
from accord.cli.folders import told_folder
from accord.cli.parser import Parser, check_session_options, session_options
from accord.errors import UsageError
from accord.policy.rules import WORDS, Word

if TYPE_CHECKING:
    from accord.wire.remote.dial import Dial


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What was asked for."""

    agent: str | None
    remote: "Dial | None"
    command: tuple[str, ...]
    """Behind `--`; empty where an agent is named or the default one runs."""
    cwd: str
    add_dir: tuple[str, ...]
    permissions: Word | None
    model: str | None
    mode: str | None
    settings: tuple[tuple[str, str], ...]
    session: str | None
    newest: bool
    trust: bool


def read_arguments(words: Sequence[str]) -> Arguments:
    """Raises UsageError for what cannot be meant."""
    found, command = split_command(words)
    given = parser().parse_args(found)
    named = [
        word
        for word in (given.agent, given.url and "--url", command[0] if command else None)
        if word is not None
    ]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)} both name an agent: choose one")
    check_session_options(given)
    for name in ("agent", "url", "model", "mode", "session"):
        value = getattr(given, name)
        if value is not None and not value.strip():
            raise UsageError(f"{name} was given an empty value: leave it out, or name one")
    remote = None
    if given.url is not None:
        from accord.cli.remote import read_dial

        remote = read_dial(given.url, given.token_file)
    return Arguments(
        agent=given.agent,
        remote=remote,
        command=command,
        cwd=told_folder("--cwd", given.cwd, afar=given.url is not None),
        add_dir=tuple(told_folder("--add-dir", path, afar=given.url is not None) for path in given.add_dir),
        permissions=cast("Word | None", given.permissions),
        model=given.model,
        mode=given.mode,
        settings=(),
        session=given.session,
        newest=given.newest,
        trust=given.trust,
    )


def parser() -> Parser:
    """The parser of everything before `--`."""
    made = Parser("accord chat", "Chat with an agent on a full screen; without a terminal, line by line.")
    made.usage = "accord chat [OPTIONS] [NAME | --url URL] [-- COMMAND ...]"
    option = made.add_argument
    option(
        "agent",
        nargs="?",
        metavar="NAME",
        help="an agent of `accord agents list`; by default the one of this package",
    )
    option("--url", metavar="URL", help="an agent on the network, such as one behind `accord serve`")
    session_options(made)
    option(
        "--permissions",
        choices=WORDS,
        help="what is allowed: ask (default), reads (default without a terminal), all, none",
    )
    option("--trust", action="store_true", help="let the project's acp.json count, this time only")
    return made
