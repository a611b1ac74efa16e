"""`accord sessions`: lists, shows, exports, forks and deletes the sessions of any agent."""

import asyncio
import shlex
import sys
from argparse import Namespace
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from accord.cli.agent_choice import choose_agent, configured_remote_agent
from accord.cli.command_parser import (
    Parser,
    add_env_option,
    add_trust_option,
    agent_folder,
    check_remote_options,
    existing_folder,
    find_subcommand,
    is_terminal,
    json_text,
    print_stderr,
    print_table,
    read_env,
    split_command,
)
from accord.errors import AccordError, StoreError, UsageError
from accord.frontend.agent_config import leave_out, load, once
from accord.frontend.recording import NAME as RECORDINGS
from accord.frontend.recording import RecordedSessions
from accord.frontend.sign_in import failure_hints
from accord.frontend.stored_sessions import StoredSessions, open_stored_sessions
from accord.frontend.transcript import (
    SessionListEntry,
    StoredTranscript,
    list_entry_json,
    local_time,
    markdown,
    markdown_body,
    new_file_path,
    transcript_json,
    write_new_file,
)
from accord.safe_text import clean_line, one_line
from accord.schema.codec import to_builtins
from accord.store import MemoryStore, store_path
from accord.trace.redaction import command_line_text

if TYPE_CHECKING:
    from accord.frontend.session_search import SearchHit, SearchMatch
    from accord.gateway.contracts import SessionOwner
    from accord.wire.remote.address import RemoteLauncher

_print_note = partial(print_stderr, command="sessions")


def main(arguments: Sequence[str]) -> int:
    """Run one subcommand and return the exit code."""
    if arguments and arguments[0].startswith("-") and arguments[0] not in ("-h", "--help"):
        arguments = ("list", *arguments)  # `accord sessions --url URL`
    name = find_subcommand("accord sessions", _COMMANDS, arguments)
    if name is None:
        return 0 if arguments else 2
    _, add_options, run = _COMMANDS[name]
    return asyncio.run(run(_read_options(name, add_options, arguments[1:])))


async def _list(options: Namespace) -> int:
    async with _sessions(options) as stored:
        entries = await stored.list(None if options.all else options.cwd)
    entries = [entry for entry in entries if options.archived or not entry.archived]
    owners = _gateway_owners() if options.remote is None else {}
    if options.json:
        print(json_text([_with_owner(entry, owners) for entry in entries]))
        return 0
    if not entries:
        where = "" if options.all else f" in {one_line(options.cwd)}"
        hints = [] if options.all else ["--all for every folder"]
        hints += [] if options.recorded else ["--recorded for recordings of all agents"]
        _print_note(f"no sessions{where}" + (f"; use {' or '.join(hints)}" if hints else ""))
        return 0
    print_table([_row(entry, options, owners) for entry in entries])
    return 0


async def _show(options: Namespace) -> int:
    transcript = await _transcript(options)
    if options.json:
        print(json_text(transcript_json(transcript)))
        return 0
    for label, text in _details(transcript):
        print(f"{label + ':':<10} {text}")
    print()
    sys.stdout.write(_render_markdown(markdown_body(transcript, folded=False)))
    return 0


def _render_markdown(text: str) -> str:
    """Render Markdown for a terminal; return it unchanged for other outputs."""
    if not is_terminal(sys.stdout):
        return text
    from accord.cli.output.terminal_markdown import TerminalMarkdown
    from accord.cli.output.terminal_screen import OutputSize, Style, symbols_for, wants_color

    parts: list[str] = []
    size = OutputSize(sys.stdout)
    style = Style(wants_color(True), symbols_for(sys.stdout.encoding))
    markdown = TerminalMarkdown(lambda text, column: parts.append(text), lambda: size.columns - 1, style)
    markdown.feed(text)
    markdown.end()
    return "".join(parts)


async def _export(options: Namespace) -> int:
    path = None if options.output is None else new_file_path(options.output, "--output ")
    transcript = await _transcript(options)
    text = markdown(transcript) if options.format == "md" else json_text(transcript_json(transcript)) + "\n"
    if path is None:
        sys.stdout.write(text)
        return 0
    write_new_file(path, text, "--output ")
    _print_note(f"exported {transcript.entry.label} to {path}")
    return 0


async def _fork(options: Namespace) -> int:
    async with _sessions(options) as stored:
        entry = await stored.find(options.id, options.cwd)
        new = await stored.fork(entry)
    if options.json:
        print(json_text({"agent": entry.agent, "sessionId": new, "forkedFrom": entry.session_id}))
    else:
        print(one_line(new))
        command = f" -- {one_line(entry.agent)}" if options.command else ""
        agent = "" if options.command else f" -a {shlex.quote(one_line(entry.agent))}"
        _print_note(
            f"continue it with: accord run{agent} --session {shlex.quote(one_line(new))} PROMPT{command}"
        )
    return 0


async def _search(options: Namespace) -> int:
    from accord.frontend.session_search import search_sessions

    cwd = None if options.all else options.cwd
    agent = _recorded_name(options)
    if options.limit < 1:
        raise UsageError(f"--limit: it must be 1 or more, not {options.limit}")
    query = " ".join(options.words)
    hits = await asyncio.to_thread(search_sessions, query, cwd=cwd, agent=agent, limit=options.limit)
    if options.json:
        print(json_text([_hit_json(hit) for hit in hits]))
        return 0
    if not hits:
        where = "" if options.all else f" in {one_line(options.cwd)}; use --all for every folder"
        _print_note(f"no session has {one_line(clean_line(query))!r}{where}")
    for number, hit in enumerate(hits):
        if number:
            print()
        when, title = local_time(hit.updated), one_line(clean_line(hit.title or "Untitled"), 80)
        marks = f"  {one_line(hit.cwd)}" if options.all else ""
        print(f"{one_line(hit.session_id)}  {when}  {one_line(hit.agent)}{marks}  {title}")
        for match in hit.matches:
            if match.role != "title":
                print(f"  {_SPEAKERS[match.role]:<6} {_highlighted(match)}")
    return 0


_SPEAKERS: Final = {"user": "You:", "agent": "Agent:", "tool": "Tool:", "title": "Title:"}


def _highlighted(match: "SearchMatch") -> str:
    """The passage, with its words in bold on a terminal."""
    if not is_terminal(sys.stdout):
        return clean_line(match.text)
    from accord.cli.output.terminal_screen import wants_color

    bold, plain = ("\x1b[1m", "\x1b[22m") if wants_color(True) else ("", "")
    parts: list[str] = []
    end = 0
    for start, stop in match.marked:
        parts += [clean_line(match.text[end:start]), bold, clean_line(match.text[start:stop]), plain]
        end = stop
    return "".join([*parts, clean_line(match.text[end:])])


def _hit_json(hit: "SearchHit") -> dict[str, Any]:
    return {
        "agent": hit.agent,
        "sessionId": hit.session_id,
        "cwd": hit.cwd,
        "title": hit.title,
        "updatedAt": hit.updated,
        "archived": hit.archived,
        "matches": [{"role": match.role, "text": match.text} for match in hit.matches],
    }


async def _rename(options: Namespace) -> int:
    async with _sessions(options) as stored:
        entry = await stored.find(options.id, options.cwd)
        title = await stored.rename(entry, " ".join(options.title))
    _report(options, [replace(entry, title=title)], f"renamed {one_line(entry.session_id)}: {title}")
    return 0


async def _archive(options: Namespace) -> int:
    return await _set_archived(options, archived=True)


async def _unarchive(options: Namespace) -> int:
    return await _set_archived(options, archived=False)


async def _set_archived(options: Namespace, *, archived: bool) -> int:
    async with _sessions(options) as stored:
        entries = [await stored.find(text, options.cwd) for text in dict.fromkeys(options.ids)]
        for entry in entries:
            await stored.archive(entry, archived=archived)
    verb = "archived" if archived else "in the list again"
    changed = [replace(entry, archived=archived) for entry in entries]
    _report(options, changed, *(f"{verb}: {entry.label}" for entry in entries))
    return 0


def _report(options: Namespace, entries: Sequence[SessionListEntry], *notes: str) -> None:
    for note in notes:
        _print_note(note)
    if options.json:
        print(json_text([list_entry_json(entry) for entry in entries]))


async def _delete(options: Namespace) -> int:
    async with _sessions(options) as stored:
        entries = [await stored.find(text, options.cwd) for text in dict.fromkeys(options.ids)]
        for entry in entries:
            where = await stored.delete(entry)
            _print_note(f"deleted {where}: {entry.label}")
    _report(options, entries)
    return 0


_AddOptions = Callable[[Parser], None]
_Run = Callable[[Namespace], Coroutine[Any, Any, int]]


def _add_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="id of the session, or its beginning")


def _add_ids(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="ids of the sessions, or their beginnings")


def _add_list_options(parser: Parser) -> None:
    parser.option("--all", "list the sessions of every folder")
    parser.option("--archived", "list archived sessions, too")


def _add_export_options(parser: Parser) -> None:
    _add_id(parser)
    parser.option(
        "--format", "md for people (default) or json for programs", choices=("md", "json"), default="md"
    )
    parser.option("-o --output FILE", "file to write (default: stdout)")


def _add_search_options(parser: Parser) -> None:
    parser.add_argument("words", metavar="WORD", nargs="+", help="words that were said, in any order")
    parser.option("--all", "search the sessions of every folder")
    parser.option("--limit N", "number of sessions (default: 20)", type=int, default=20)


def _add_rename_options(parser: Parser) -> None:
    _add_id(parser)
    parser.add_argument("title", metavar="TITLE", nargs="+", help="the new title")


_COMMANDS: Final[dict[str, tuple[str, _AddOptions, _Run]]] = {
    "list": ("list the sessions of a folder", _add_list_options, _list),
    "search": ("find sessions by what was said in them", _add_search_options, _search),
    "show": ("show one session", _add_id, _show),
    "export": ("export one session as Markdown or JSON", _add_export_options, _export),
    "fork": ("copy a session into a new one and print its id", _add_id, _fork),
    "rename": ("give a session a title", _add_rename_options, _rename),
    "archive": ("hide sessions from the list", _add_ids, _archive),
    "unarchive": ("show archived sessions in the list again", _add_ids, _unarchive),
    "delete": ("delete sessions, at the agent and in the local recordings", _add_ids, _delete),
}


def _read_options(name: str, add_options: _AddOptions, words: Sequence[str]) -> Namespace:
    parser = Parser(f"accord sessions {name}", _COMMANDS[name][0])
    add_options(parser)
    parser.option("-a --agent NAME", "agent from `accord agents list` (default: the default agent)")
    parser.option("--url URL", "address of a remote agent, for example of `accord serve`")
    parser.option("--token-file F", "file with the token for --url (default: ACCORD_TOKEN)")
    parser.option("--cwd DIR", "folder of the sessions (default: the current one)", default=".")
    parser.option("--recorded", "use only the local recordings; start no agent")
    parser.option("--json", "print JSON")
    add_env_option(parser)
    add_trust_option(parser)
    own_words, command = split_command(words)
    options = parser.parse_args(own_words)
    options.command = command
    check_remote_options(options)
    options.remote = None if options.url is None else _remote(options)
    if options.recorded:
        options.cwd = existing_folder("--cwd", options.cwd)
    else:
        options.cwd = agent_folder("--cwd", options.cwd, remote=options.url is not None)
    return options


def _remote(options: Namespace) -> "RemoteLauncher":
    """How to reach the agent of `--url`. Raises UsageError for options that do not go with it."""
    if options.command or options.agent is not None:
        other = f"-a {options.agent}" if options.agent is not None else f"-- {options.command[0]}"
        raise UsageError(f"--url and {other} both name an agent; use one of them")
    if options.recorded:
        raise UsageError("--url asks an agent, and --recorded asks none; use one of them")
    from accord.cli.agent_choice import remote_launcher

    return remote_launcher(options.url, options.token_file)


@asynccontextmanager
async def _sessions(options: Namespace) -> AsyncGenerator[StoredSessions]:
    records, failure = _open_records(options)
    try:
        if options.recorded:
            yield StoredSessions(_recorded_name(options), records, _print_note)
            return
        if options.remote is not None:
            agent = configured_remote_agent(options.remote)
        else:
            agent = choose_agent(
                options.agent, options.command, options.cwd, trust=options.trust, env=read_env(options.env)
            )
        try:
            async with open_stored_sessions(
                agent, options.cwd, records, _print_note, options.remote
            ) as stored:
                yield stored
            if failure:
                _print_note(failure)
        except AccordError as error:
            # What keeps the agent from listing its sessions is often the same, and is then said once.
            if failure and isinstance(error, UsageError):
                _print_note(failure)
            started = None if options.remote is not None else agent
            for line in failure_hints(error, started, options.cwd, named=not options.command):
                _print_note(clean_line(line))
            raise
    finally:
        records.close()


def _recorded_name(options: Namespace) -> str | None:
    """Return the agent's name in the recordings. The agent may no longer be configured."""
    if options.command:
        return command_line_text(options.command)
    if options.agent is None:
        return None
    try:
        return load(options.cwd, trust=once if options.trust else leave_out)[options.agent].name
    except UsageError:
        return options.agent


def _open_records(options: Namespace) -> tuple[RecordedSessions, str]:
    """Open the recordings. If the store is unusable, use the agent's own sessions and return why."""
    if not options.recorded and not store_path(RECORDINGS).exists():
        return RecordedSessions(MemoryStore()), ""  # nothing was recorded yet; create no file
    try:
        return RecordedSessions.open(), ""
    except StoreError as error:
        if options.recorded:
            raise
        failure = f"cannot read the local recordings: {clean_line(str(error))}"
        return RecordedSessions(MemoryStore()), failure


async def _transcript(options: Namespace) -> StoredTranscript:
    async with _sessions(options) as stored:
        return await stored.transcript(await stored.find(options.id, options.cwd))


def _gateway_owners() -> "dict[tuple[str, str], SessionOwner]":
    """Return which sessions are open in a running gateway, by agent and session id."""
    from accord.gateway.session_log import STORE_NAME, FileBook

    if not store_path(STORE_NAME).exists():
        return {}
    try:
        logs = FileBook.open()
    except StoreError as error:
        _print_note(f"cannot read the sessions of the gateway: {clean_line(str(error))}")
        return {}
    try:
        owners = logs.owners()
        return {
            (recorded.agent, recorded.session_id): owners[recorded.summary.session_id]
            for recorded in (logs.records.list() if owners else ())
            if recorded.summary.session_id in owners
        }
    finally:
        logs.close()


def _details(transcript: StoredTranscript) -> list[tuple[str, str]]:
    entry = transcript.entry
    details = [
        ("session", one_line(entry.session_id)),
        ("title", one_line(clean_line(transcript.title or ""))),
        ("agent", one_line(entry.agent)),
        ("folder", one_line(entry.cwd)),
        ("node", one_line(clean_line(entry.node))),
        ("last used", entry.when),
        ("state", transcript.running_text),
        ("from", "the agent" if transcript.source == "agent" else "the local recording"),
    ]
    owner = _gateway_owners().get((entry.agent, entry.session_id))
    if owner is not None:
        details.append(("open in", str(owner)))
    return [(label, text) for label, text in details if text]


def _row(
    entry: SessionListEntry, options: Namespace, owners: "Mapping[tuple[str, str], SessionOwner]"
) -> tuple[str, ...]:
    cells = [one_line(entry.session_id), entry.when or "-"]
    if options.recorded and options.agent is None:
        cells.append(one_line(entry.agent))
    if options.all:
        cells.append(one_line(entry.cwd))
    title = one_line(clean_line(entry.title), 80) if entry.title else ""
    marks = [title, "(archived)" if entry.archived else ""]
    if (owner := owners.get((entry.agent, entry.session_id))) is not None:
        marks.append(f"(open in {owner})")
    elif entry.node:
        lost = ", which does not run" if entry.node_is_lost else ""
        marks.append(f"(at {one_line(entry.node, 80)}{lost})")
    elif entry.running_in is not None:
        marks.append(f"(open in process {entry.running_in})")
    return (*cells, " ".join(filter(None, marks)))


def _with_owner(entry: SessionListEntry, owners: "Mapping[tuple[str, str], SessionOwner]") -> dict[str, Any]:
    """Return a session for `accord sessions list --json`, with who has it open."""
    owner = owners.get((entry.agent, entry.session_id))
    return {**list_entry_json(entry), **({} if owner is None else {"owner": to_builtins(owner)})}
