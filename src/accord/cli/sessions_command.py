"""`accord sessions`, and the JSON of transcripts and session lists."""

import asyncio
import json
import shlex
import sys
from argparse import Namespace
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from accord import __version__
from accord.cli.agent_choice import chosen_server, split_command
from accord.cli.agents_command import trust_option
from accord.cli.command_parser import Parser, folder, told_folder
from accord.errors import AuthRequired, StoreError, UsageError
from accord.frontend.agent_config import leave_out, load, once
from accord.frontend.recording import RecordedSessions
from accord.frontend.sign_in import how_to_sign_in
from accord.frontend.stored_sessions import StoredSessions, reach
from accord.frontend.transcript import (
    SessionListEntry,
    StoredTranscript,
    conversation,
    free_place,
    markdown,
    write_new,
)
from accord.safe_text import clean_line, one_line
from accord.schema import UNSET
from accord.schema.codec import to_builtins
from accord.session import (
    CompactionState,
    Message,
    PlanState,
    SessionMessageState,
    SubagentState,
    ToolCallState,
)
from accord.session import Entry as TimelineEntry
from accord.store import MemoryStore

# MERGED cli.stored.form: A transcript, and the list of sessions, as JSON. The form has a version; what it holds has the shapes of the protocol.

FORMAT: Final = "accord.session"
VERSION: Final = 1
"""Goes up when something that is there changes its meaning or goes; what is added does not change it."""


def transcript_form(transcript: StoredTranscript) -> dict[str, Any]:
    """The document of `accord sessions export --format json`."""
    state = transcript.state
    form: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "exportedBy": f"accord {__version__}",
        **entry_form(transcript.entry),
        "source": transcript.source,
    }
    form["title"] = transcript.title
    form["timeline"] = [_part(entry) for entry in state.timeline]
    if state.usage is not None:
        form["usage"] = _record(state.usage)
    return form


def entry_form(entry: SessionListEntry) -> dict[str, Any]:
    """One session of `accord sessions list --json`."""
    return {
        "agent": entry.agent,
        "sessionId": entry.session_id,
        "cwd": entry.cwd,
        "additionalDirectories": list(entry.additional_directories),
        "title": entry.title,
        "updatedAt": entry.updated,
        "archived": entry.archived,
        "source": entry.source,
    }


def json_text(value: Any) -> str:
    """JSON that is safe to look at: what a terminal could act on is written by its number."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if text.replace("\n", "").isprintable():
        return text
    return "".join([char if char == "\n" or char.isprintable() else _escaped(char) for char in text])


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _part(entry: TimelineEntry) -> dict[str, Any]:
    match entry:
        case Message():
            part: dict[str, Any] = {"type": "message", "role": entry.kind}
            if entry.id is not None:
                part["messageId"] = entry.id
            return {**part, "content": [_record(block) for block in entry.blocks]}
        case ToolCallState():
            part = {"type": "tool_call", **_record(entry.to_update())}
            part.pop("_meta", None)
            if entry.mark:
                part["endedAs"] = entry.mark
            return part
        case PlanState():
            return {"type": "plan", "planId": entry.plan_id, "plan": _record(entry.body)}
        case CompactionState():
            return {"type": "compaction", **_record(entry.to_update())}
        case SubagentState():
            return {"type": "subagent", **_record(entry.to_update())}
        case SessionMessageState():
            return {"type": "session_message", **_record(entry.to_update())}


def _record(value: Any) -> Any:
    built = to_builtins(value)
    if isinstance(built, dict):
        built.pop("sessionUpdate", None)  # pyright: ignore[reportUnknownMemberType]
    return built if built is not UNSET else None  # pyright: ignore[reportUnknownVariableType]


# MERGED cli.sessions: `accord sessions`: the sessions there were, of any agent: list them, read them, take them along, fork and delete them.

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
    from accord.cli.output.terminal_markdown import TerminalMarkdown
    from accord.cli.output.terminal_screen import Style, TerminalSize, signs_for, wants_colour

    parts: list[str] = []
    size = TerminalSize(sys.stdout)
    style = Style(wants_colour(True), signs_for(sys.stdout.encoding))
    page = TerminalMarkdown(lambda text, column: parts.append(text), lambda: size.columns - 1, style)
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


def _records(given: Namespace) -> RecordedSessions:
    """What was recorded. A store that cannot be used is no obstacle where the agent itself can tell."""
    try:
        return RecordedSessions.open()
    except StoreError as error:
        if given.recorded:
            raise
        _say(f"what was recorded here cannot be read: {clean_line(str(error))}")
        return RecordedSessions(MemoryStore())


async def _transcript(given: Namespace) -> StoredTranscript:
    async with _sessions(given) as stored:
        return await stored.transcript(await stored.find(given.id, given.cwd))


def _facts(transcript: StoredTranscript) -> list[tuple[str, str]]:
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


def _row(entry: SessionListEntry, given: Namespace) -> tuple[str, ...]:
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
