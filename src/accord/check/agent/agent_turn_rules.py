"""Rules for turns, tool calls and requests of an agent."""

import re
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final, cast
from urllib.parse import parse_qsl, urlsplit

from accord.check.agent.agent_message_rules import AgentRecord
from accord.check.findings import RuleNotes
from accord.trace.trace_steps import at, listed
from accord.trace.wire_line import WireLine
from accord.wire.envelope import id_key

_TURN_UPDATES: Final = (
    *("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "plan_update"),
)
_CHUNKS: Final = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")


def check_turns(record: AgentRecord, notes: RuleNotes) -> None:
    """Check the order of updates and answers, message ids, replays and resumes."""
    _check_late_updates(record, notes)
    _check_message_ids(record, notes)
    _check_replays(record, notes)
    _check_resumes(record, notes)


def _check_late_updates(record: AgentRecord, notes: RuleNotes) -> None:
    """Updates of a turn must come before its answer."""
    for line in record.updates:
        if line.kind not in _TURN_UPDATES or record.is_replay(line) or record.turn_at(line) is not None:
            continue
        ended_turns = [
            turn for turn in record.turns if turn.session == line.session and turn.end < line.number
        ]
        if ended_turns and ended_turns[-1].answer is not None:
            last = ended_turns[-1]
            frames = [ended_turns[-1].answer, line]
            notes.add_fail(
                "cancel.updates-before-response" if last.cancelled else "prompt.updates-before-response",
                f"{line.kind} after the answer of its turn",
                *frames,
            )
    for turn in record.turns:
        if turn.answer is not None and "result" in (turn.answer.message or {}):
            notes.add_pass(
                "cancel.updates-before-response" if turn.cancelled else "prompt.updates-before-response",
                "no update of a turn comes after its answer",
            )


def _check_message_ids(record: AgentRecord, notes: RuleNotes) -> None:
    """A message id belongs to one message of one kind in one turn."""
    owners: dict[tuple[str, str], tuple[str, int, WireLine]] = {}
    chunks: dict[tuple[str, int, str], list[str]] = {}
    for line in record.updates:
        id = line.update.get("messageId")
        if line.kind not in _CHUNKS or not isinstance(id, str) or record.is_replay(line):
            continue
        turn = record.turn_at(line)
        begin = turn.begin if turn else 0
        owner = owners.setdefault((line.session, id), (line.kind, begin, line))
        if owner[:2] != (line.kind, begin):
            frames = [owner[2], line]
            notes.add_fail(
                "prompt.message-id-constant", f"the message id {id} is used for two messages", *frames
            )
        else:
            notes.add_pass("prompt.message-id-constant", "each message id belongs to one message")
        chunks.setdefault((line.session, begin, line.kind), []).append(id)
    for (_, _, kind), ids in chunks.items():
        if len(ids) > 3 and len(set(ids)) == len(ids):
            notes.add_fail("prompt.message-id-constant", f"every {kind} of a turn has another message id")


def _check_replays(record: AgentRecord, notes: RuleNotes) -> None:
    for call in record.client_requests:
        if call.request.method != "session/load" or not call.answers:
            continue
        answer = call.answers[0]
        if "result" not in (answer.message or {}):
            continue
        session = call.request.session
        next_turn = next(
            (turn.begin for turn in record.turns if turn.begin > answer.number), len(record.lines) + 1
        )
        late = [
            line
            for line in record.updates
            if line.session == session and line.kind in _CHUNKS and answer.number < line.number < next_turn
        ]
        early = any(
            line.session == session and call.request.number < line.number < answer.number
            for line in record.updates
            if line.kind in _CHUNKS
        )
        if late:
            notes.add_fail(
                "session.load-answers-last", "the replay continues after the answer", answer, late[0]
            )
        elif early:
            notes.add_pass("session.load-answers-last", "the answer comes after the replay", answer)


def _check_resumes(record: AgentRecord, notes: RuleNotes) -> None:
    for call in record.client_requests:
        if call.request.method != "session/resume" or not call.answers:
            continue
        begin, end = call.request.number, call.answers[0].number
        if "result" not in (call.answers[0].message or {}):
            continue
        chunks_before_answer = [
            line for line in record.updates if line.kind in _CHUNKS and begin < line.number < end
        ]
        failure = f"{len(chunks_before_answer)} message chunks before the answer"
        reason = "no history before the answer"
        passed = not chunks_before_answer
        notes.judge(
            "session.resume-without-history", passed, reason, failure, call.request, *chunks_before_answer[:2]
        )


def is_absolute(path: Any) -> bool:
    """Whether a path is absolute on POSIX or Windows."""
    return isinstance(path, str) and (
        PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()
    )


def check_tool_calls(record: AgentRecord, notes: RuleNotes) -> None:
    """Check the last status and the paths of tool calls, and terminals."""
    _check_last_status(record, notes)
    for line in record.updates:
        if line.kind in ("tool_call", "tool_call_update"):
            _check_paths(line, notes)
    _check_terminals(record, notes)


def _check_last_status(record: AgentRecord, notes: RuleNotes) -> None:
    turns = {turn.begin: turn for turn in record.turns}
    for call in record.judge.tool_calls.values():
        turn = turns.get(call.prompt.number) if call.prompt is not None else None
        if turn is None or turn.answer is None or turn.cancelled:
            continue
        if at((turn.answer.message or {}).get("result"), "stopReason") != "end_turn":
            continue
        frames = (call.line, turn.answer)
        done = call.status in ("completed", "failed")
        failure = f"a call is {call.status!r} at the end of its turn"
        notes.judge("tool-call.final-status", done, "finished calls have a final status", failure, *frames)
        if call.status == "completed":
            failure = "a completed call was never in progress"
            reason = "running calls were in progress"
            notes.judge("tool-call.in-progress", call.was_in_progress, reason, failure, *frames)


def _check_paths(line: WireLine, notes: RuleNotes) -> None:
    diffs = [one for one in listed(line.update, "content") if at(one, "type") == "diff"]
    locations = listed(line.update, "locations")
    for item in [*diffs, *locations]:
        path = at(item, "path")
        if isinstance(path, str):
            failure = f"the path {path!r} is relative"
            notes.judge("tool-call.absolute-paths", is_absolute(path), "paths are absolute", failure, line)
    for item in locations:
        number = at(item, "line")
        if isinstance(number, int):
            notes.judge(
                "tool-call.line-number", number >= 1, "lines count from 1", f"the line is {number}", line
            )


def _check_terminals(record: AgentRecord, notes: RuleNotes) -> None:
    """A terminal must be shown before its release; after that it may be named again."""
    released: dict[str, WireLine] = {}
    shown_before_release: set[str] = set()
    for line in record.sent:
        if line.method == "terminal/release":
            released.setdefault(id_key(at(line.params, "terminalId")), line)
        elif line.kind in ("tool_call", "tool_call_update"):
            for content in listed(line.update, "content"):
                id = id_key(at(content, "terminalId"))
                if at(content, "type") != "terminal":
                    continue
                if id not in released:
                    shown_before_release.add(id)
                if record.is_replay(line):
                    continue
                if id not in released:
                    notes.add_pass(
                        "tool-call.terminal-before-release", "a terminal is shown before it is released", line
                    )
                elif id not in shown_before_release:
                    failure = f"{at(content, 'terminalId')} is shown only after its release"
                    notes.add_fail("tool-call.terminal-before-release", failure, released[id], line)


_SECRET: Final = re.compile(
    r"pass(word|phrase|code)|secret|token|api[-_ ]?key|credential|\bpin\b", re.IGNORECASE
)
_FLAT_FIELD_TYPES: Final = ("string", "number", "integer", "boolean", "array")


def check_requests(record: AgentRecord, notes: RuleNotes) -> None:
    """Check permission requests, file paths, terminals and elicitations."""
    for line in record.requests("session/request_permission"):
        ids = [at(one, "optionId") for one in listed(line.params, "options")]
        failure = "no options" if not ids else "two options with the same id"
        passed = bool(ids) and len(set(map(str, ids))) == len(ids)
        notes.judge("permission.option-ids", passed, "options with unique ids", failure, line)
    for line in record.requests("fs/read_text_file", "fs/write_text_file"):
        path = at(line.params, "path")
        notes.judge(
            "file.absolute-paths", is_absolute(path), "paths are absolute", f"the path is {path!r}", line
        )
    _check_terminal_requests(record, notes)
    _check_elicitations(record, notes)


def _check_terminal_requests(record: AgentRecord, notes: RuleNotes) -> None:
    for line in record.requests("terminal/create"):
        cwd = at(line.params, "cwd")
        if cwd is not None:
            notes.judge(
                "terminal.absolute-cwd", is_absolute(cwd), "`cwd` is absolute", f"`cwd` is {cwd!r}", line
            )
    released = {id_key(at(line.params, "terminalId")) for line in record.requests("terminal/release")}
    for call in record.agent_requests:
        if call.request.method != "terminal/create" or not call.answers:
            continue
        id = at((call.answers[0].message or {}).get("result"), "terminalId")
        turn = record.turn_at(call.request)
        if id is None or turn is None or turn.answer is None:
            continue
        failure = f"{id} is never released"
        reason = "every terminal is released"
        notes.judge("terminal.always-released", id_key(id) in released, reason, failure, call.request)


def _check_elicitations(record: AgentRecord, notes: RuleNotes) -> None:
    issued: set[str] = set()
    open_elicitations: dict[str, WireLine] = {}
    for line in record.sent:
        if line.method == "elicitation/complete":
            id = at(line.params, "elicitationId")
            failure = f"{id!r} was never created"
            reason = "only its own elicitations are completed"
            notes.judge("elicitation.own-completions", id_key(id) in issued, reason, failure, line)
            open_elicitations.pop(id_key(id), None)
        elif line.method == "elicitation/create" and line.is_request:
            _check_elicitation(line, notes)
            id = at(line.params, "elicitationId")
            if isinstance(id, str):
                failure = f"the elicitation id {id!r} is already in use"
                notes.judge(
                    "elicitation.unique-id", id_key(id) not in open_elicitations, "unique ids", failure, line
                )
                issued.add(id_key(id))
                open_elicitations[id_key(id)] = line


def _check_elicitation(line: WireLine, notes: RuleNotes) -> None:
    params: Any = line.params
    scopes = [name for name in ("sessionId", "requestId") if at(params, name) is not None]
    extra = at(params, "toolCallId") is not None and "sessionId" not in scopes
    failure = f"its scope is {' and '.join(scopes) or 'missing'}"
    notes.judge("elicitation.one-scope", len(scopes) == 1 and not extra, "one scope", failure, line)
    if at(params, "mode") == "url":
        _check_url(line, at(params, "url"), notes)
        return
    fields: Any = at(params, "requestedSchema", "properties")
    if not isinstance(fields, dict):
        return
    for name, field in cast(dict[str, Any], fields).items():
        kind = at(field, "type")
        failure = f"the field {name} has the type {kind!r}"
        notes.judge("elicitation.flat-schema", kind in _FLAT_FIELD_TYPES, "flat fields", failure, line)
        field_text = " ".join(
            str(word) for word in (name, at(field, "title"), at(field, "description")) if word
        )
        failure = f"the field {name} asks for a secret"
        reason = "no secrets are asked for"
        notes.judge("elicitation.no-secrets", not _SECRET.search(field_text), reason, failure, line)


def _check_url(line: WireLine, url: Any, notes: RuleNotes) -> None:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:
        notes.add_fail("elicitation.url", f"{url!r} is not a URL", line)
        return
    secret = parts.password or any(_SECRET.search(name) for name, _ in parse_qsl(parts.query))
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    valid = not secret and (parts.scheme == "https" or local)
    failure = "the URL contains a secret" if secret else f"the URL is {parts.scheme or 'none'}, not https"
    notes.judge("elicitation.url", valid, "an https URL without secrets", failure, line)
