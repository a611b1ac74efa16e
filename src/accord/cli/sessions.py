"""`accord sessions`: the sessions there were, of any agent: list them, read them, take them along, fork and delete them."""

import asyncio
import shlex
import sys
from argparse import Namespace
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from accord.cleaning import clean_line, one_line
from accord.cli.agents import trust_option
from accord.cli.chosen import chosen_server, split_command
from accord.cli.folders import folder, told_folder
from accord.cli.parser import Parser
from accord.cli.stored.form import entry_form, json_text, transcript_form
from accord.client.recording import Records
from accord.client.servers import leave_out, load, once
from accord.client.signin import how_to_sign_in
from accord.client.stored.markdown import conversation, markdown
from accord.client.stored.places import free_place, write_new
from accord.client.stored.sessions import StoredSessions, reach
from accord.client.stored.transcript import Entry, Transcript
from accord.errors import AuthRequired, StoreError, UsageError
from accord.store import MemoryStore

_FORMATS: Final = ("md", "json")


def main(arguments: Sequence[str]) -> int:
    """Run one of the subcommands."""
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help", "help"):
        print(_help())
        return 0 if arguments else 2
    command = _COMMANDS.get(name)
    if command is None:
        raise UsageError(f"there is no {name!r}; there are: {', '.join(_COMMANDS)}")
    given = _read(name, command[1], arguments[1:])
    return asyncio.run(command[2](given))


async def _list(given: Namespace) -> int:
    async with _sessions(given) as stored:
        found = await stored.list(None if given.all else given.cwd)
    if given.json:
        print(json_text([entry_form(entry) for entry in found]))
        return 0
    if not found:
        _say(
            f"no sessions{'' if given.all else f' of {one_line(given.cwd)}; --all shows those of every folder'}"
        )
        return 0
    _print_rows([_row(entry, given) for entry in found])
    return 0


async def _show(given: Namespace) -> int:
    transcript = await _transcript(given)
    if given.json:
        print(json_text(transcript_form(transcript)))
        return 0
    for label, text in _facts(transcript):
        print(f"{label + ':':<10} {text}")
    print()
    sys.stdout.write(_for_reading(conversation(transcript, folded=False)))
    return 0


def _for_reading(text: str) -> str:
    """On a terminal rendered, else as it is."""
    if not sys.stdout.isatty():
        return text
    from accord.cli.output.markdown import Markdown
    from accord.cli.output.style import Style, signs_for, wants_colour
    from accord.cli.output.terminalsize import TerminalSize

    parts: list[str] = []
    size = TerminalSize(sys.stdout)
    style = Style(wants_colour(True), signs_for(sys.stdout.encoding))
    page = Markdown(lambda text, column: parts.append(text), lambda: size.columns - 1, style)
    page.feed(text)
    page.end()
    return "".join(parts)


async def _export(given: Namespace) -> int:
    place = None if given.output is None else free_place(given.output, "--output ")
    transcript = await _transcript(given)
    text = markdown(transcript) if given.format == "md" else json_text(transcript_form(transcript)) + "\n"
    if place is None:
        sys.stdout.write(text)
        return 0
    write_new(place, text, "--output ")
    _say(f"{transcript.entry.label} is in {place}")
    return 0


async def _fork(given: Namespace) -> int:
    async with _sessions(given) as stored:
        entry = await stored.find(given.id, given.cwd)
        new = await stored.fork(entry)
    if given.json:
        print(json_text({"agent": entry.agent, "sessionId": new, "forkedFrom": entry.session_id}))
    else:
        print(one_line(new))
        behind = f" -- {one_line(entry.agent)}" if given.command else ""
        named = "" if given.command else f" -a {shlex.quote(one_line(entry.agent))}"
        _say(f"go on in it: accord run{named} --session {shlex.quote(one_line(new))} PROMPT{behind}")
    return 0


async def _delete(given: Namespace) -> int:
    async with _sessions(given) as stored:
        entries = [await stored.find(text, given.cwd) for text in dict.fromkeys(given.ids)]
        for entry in entries:
            where = await stored.delete(entry)
            _say(f"deleted {where}: {entry.label}")
    if given.json:
        print(json_text([entry_form(entry) for entry in entries]))
    return 0


_More = Callable[[Parser], None]
_Run = Callable[[Namespace], Coroutine[Any, Any, int]]


def _with_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the session; the beginning of its id is enough")


def _with_ids(parser: Parser) -> None:
    parser.add_argument(
        "ids", metavar="ID", nargs="+", help="the sessions; the beginnings of their ids are enough"
    )


def _for_list(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="those of every folder")


def _for_export(parser: Parser) -> None:
    _with_id(parser)
    parser.add_argument(
        "--format", choices=_FORMATS, default="md", help="md for people (default), json for programs"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to; without it to stdout")


_COMMANDS: Final[dict[str, tuple[str, _More, _Run]]] = {
    "list": (
        "The sessions of this folder, with the agent that is named or the default one.",
        _for_list,
        _list,
    ),
    "show": ("One session, to read.", _with_id, _show),
    "export": ("One session as a file: Markdown, or JSON.", _for_export, _export),
    "fork": ("A new session that begins as this one did; prints its id.", _with_id, _fork),
    "delete": ("Delete sessions, at the agent and here.", _with_ids, _delete),
}


def _read(name: str, more: Callable[[Parser], None], words: Sequence[str]) -> Namespace:
    parser = Parser(f"accord sessions {name}", _COMMANDS[name][0])
    more(parser)
    parser.add_argument(
        "-a", "--agent", metavar="NAME", help="an agent of `accord agents list`; by default the default one"
    )
    parser.add_argument("--cwd", metavar="DIR", default=".", help="the folder; by default this one")
    parser.add_argument("--recorded", action="store_true", help="start no agent: only what was recorded here")
    parser.add_argument("--json", action="store_true", help="for programs")
    trust_option(parser)
    ours, command = split_command(words)
    given = parser.parse_args(ours)
    given.command = command
    given.cwd = (folder if given.recorded else told_folder)("--cwd", given.cwd)
    return given


@asynccontextmanager
async def _sessions(given: Namespace) -> AsyncGenerator[StoredSessions]:
    records = _records(given)
    try:
        if given.recorded:
            yield StoredSessions(_recorded_as(given), records, _say)
            return
        server = chosen_server(given.agent, given.command, given.cwd, trust=given.trust)
        try:
            async with reach(server, given.cwd, records, _say) as stored:
                yield stored
        except AuthRequired as error:
            name = None if given.command else server.name
            for line in how_to_sign_in(error, name, server.launch(given.cwd)):
                _say(clean_line(line))
            raise
    finally:
        records.close()


def _recorded_as(given: Namespace) -> str | None:
    """The name under which the sessions of the agent were recorded. It is not started, and may be gone from every file."""
    if given.command:
        return shlex.join(given.command)
    if given.agent is None:
        return None
    try:
        return load(given.cwd, trust=once if given.trust else leave_out)[given.agent].name
    except UsageError:
        return given.agent


def _records(given: Namespace) -> Records:
    """What was recorded. A store that cannot be used is no obstacle where the agent itself can tell."""
    try:
        return Records.open()
    except StoreError as error:
        if given.recorded:
            raise
        _say(f"what was recorded here cannot be read: {clean_line(str(error))}")
        return Records(MemoryStore())


async def _transcript(given: Namespace) -> Transcript:
    async with _sessions(given) as stored:
        return await stored.transcript(await stored.find(given.id, given.cwd))


def _facts(transcript: Transcript) -> list[tuple[str, str]]:
    entry = transcript.entry
    facts = [
        ("session", one_line(entry.session_id)),
        ("title", one_line(clean_line(transcript.title or ""))),
        ("agent", one_line(entry.agent)),
        ("folder", one_line(entry.cwd)),
        ("last used", entry.when),
        ("from", "the agent" if transcript.source == "agent" else "what was recorded here"),
    ]
    return [(label, text) for label, text in facts if text]


def _row(entry: Entry, given: Namespace) -> tuple[str, ...]:
    cells = [one_line(entry.session_id), entry.when or "-"]
    if given.recorded and given.agent is None:
        cells.append(one_line(entry.agent))
    if given.all:
        cells.append(one_line(entry.cwd))
    title = one_line(clean_line(entry.title), 80) if entry.title else ""
    return (*cells, title + (" (archived)" if entry.archived else ""))


def _print_rows(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())


def _say(text: str) -> None:
    print(f"accord sessions: {text}", file=sys.stderr)


def _help() -> str:
    width = max(map(len, _COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, (summary, *_) in _COMMANDS.items()]
    return "\n".join(
        ["usage: accord sessions COMMAND   (accord sessions COMMAND --help tells more)", "", *lines]
    )
