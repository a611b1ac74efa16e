"""Passive rules for turns, tool calls and requests to the client."""

import re
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final, cast
from urllib.parse import parse_qsl, urlsplit

from accord.check.agent.agent_message_rules import AgentRecord, TurnSpan
from accord.check.checked_connection import WireLine, key
from accord.check.findings import RuleNotes
from accord.trace.trace_steps import at, listed

# MERGED check.agent.watch.turns: Turns: what comes before their answer and what must not come after, message ids, replays.

_OF_A_TURN: Final = (
    *("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "plan_update"),
)
_CHUNKS: Final = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")


def check_turns(record: AgentRecord, ledger: RuleNotes) -> None:
    """Judge the order of things in turns."""
    _late(record, ledger)
    _message_ids(record, ledger)
    _replays(record, ledger)
    _resumes(record, ledger)


def _late(record: AgentRecord, ledger: RuleNotes) -> None:
    """Updates of a turn come before its answer."""
    for line in record.updates:
        if line.kind not in _OF_A_TURN or record.replayed(line) or record.turn_at(line) is not None:
            continue
        over = [turn for turn in record.turns if turn.session == line.session and turn.end < line.number]
        if over and over[-1].answer is not None:
            last = over[-1]
            shown = [over[-1].answer.shown, line.shown]
            ledger.broken(164 if last.cancelled else 144, f"{line.kind} after the answer of its turn", shown)
    for turn in record.turns:
        if turn.answer is not None and "result" in (turn.answer.message or {}):
            ledger.kept(164 if turn.cancelled else 144, "nothing of a turn comes after its answer")


def _message_ids(record: AgentRecord, ledger: RuleNotes) -> None:
    """One id belongs to one message: of one kind, in one turn."""
    owners: dict[tuple[str, str], tuple[str, int, WireLine]] = {}
    chunks: dict[tuple[str, int, str], list[str]] = {}
    for line in record.updates:
        id = line.update.get("messageId")
        if line.kind not in _CHUNKS or not isinstance(id, str) or record.replayed(line):
            continue
        turn = record.turn_at(line)
        begin = turn.begin if turn else 0
        known = owners.setdefault((line.session, id), (line.kind, begin, line))
        if known[:2] != (line.kind, begin):
            shown = [known[2].shown, line.shown]
            ledger.broken(147, f"the message id {id} is used for two messages", shown)
        else:
            ledger.kept(147, "message ids belong to one message each")
        chunks.setdefault((line.session, begin, line.kind), []).append(id)
    for (_, _, kind), ids in chunks.items():
        if len(ids) > 3 and len(set(ids)) == len(ids):
            ledger.broken(147, f"every {kind} of a turn has a message id of its own")


def _replays(record: AgentRecord, ledger: RuleNotes) -> None:
    for exchange in record.asked:
        if exchange.request.method != "session/load" or not exchange.answers:
            continue
        answer = exchange.answers[0]
        if "result" not in (answer.message or {}):
            continue
        session = exchange.request.session
        until = next(
            (turn.begin for turn in record.turns if turn.begin > answer.number), len(record.lines) + 1
        )
        late = [
            line
            for line in record.updates
            if line.session == session and line.kind in _CHUNKS and answer.number < line.number < until
        ]
        early = any(
            line.session == session and exchange.request.number < line.number < answer.number
            for line in record.updates
            if line.kind in _CHUNKS
        )
        if late:
            ledger.broken(105, "the replay goes on after the answer", [answer.shown, late[0].shown])
        elif early:
            ledger.kept(105, "the answer comes after the replay", [answer.shown])


def _resumes(record: AgentRecord, ledger: RuleNotes) -> None:
    for exchange in record.asked:
        if exchange.request.method != "session/resume" or not exchange.answers:
            continue
        begin, end = exchange.request.number, exchange.answers[0].number
        if "result" not in (exchange.answers[0].message or {}):
            continue
        told = [line for line in record.updates if line.kind in _CHUNKS and begin < line.number < end]
        ledger.judge(
            110,
            not told,
            "no history before the answer",
            f"{len(told)} message chunks before the answer",
            [exchange.request.shown, *(line.shown for line in told[:2])],
        )


# MERGED check.agent.watch.toolcalls: Tool calls: announced before they change, ids not used again, absolute paths, begun, ended; terminals shown in time.


def is_absolute(path: Any) -> bool:
    """Whether a path is absolute, on whichever system."""
    return isinstance(path, str) and (
        PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()
    )


def check_tool_calls(record: AgentRecord, ledger: RuleNotes) -> None:
    """Judge the tool calls."""
    _Calls(record, ledger).look()
    for line in record.updates:
        if line.kind in ("tool_call", "tool_call_update"):
            _places(line, ledger)
    _terminals(record, ledger)


class _Call:
    def __init__(self, line: WireLine, turn: TurnSpan | None) -> None:
        self.line = line
        self.turn = turn
        self.ran = False
        self.status: Any = None


class _Calls:
    """The tool calls of a conversation by session and id."""

    def __init__(self, record: AgentRecord, ledger: RuleNotes) -> None:
        self.record = record
        self.ledger = ledger
        self.known: dict[tuple[str, str], _Call] = {}

    def look(self) -> None:
        for line in self.record.sent:
            if line.kind in ("tool_call", "tool_call_update"):
                self._update(line)
            elif line.method == "session/request_permission":
                self._asked(line)
        for call in self.known.values():
            self._over(call)

    def _update(self, line: WireLine) -> None:
        id, record = line.update.get("toolCallId"), self.record
        if not isinstance(id, str):
            return
        if record.replayed(line):
            self.known.setdefault((line.session, id), _Call(line, None))
            return
        call = self.known.get((line.session, id))
        turn = record.turn_at(line)
        if line.kind == "tool_call":
            if call is not None and call.turn is not None:
                other = "another turn" if call.turn != turn else "the same turn"
                shown = [call.line.shown, line.shown]
                self.ledger.broken(174, f"the tool call id {id} was used before, in {other}", shown)
            else:
                self.ledger.kept(174, "tool call ids are not used again")
            call = self.known[line.session, id] = _Call(line, turn)
        elif call is None:
            self.ledger.broken(181, f"a change of {id}, which was never announced", [line.shown])
            call = self.known[line.session, id] = _Call(line, turn)
        else:
            self.ledger.kept(181, "changes are of tool calls that were announced")
        status = line.update.get("status")
        if status is not None:
            call.status = status
            call.ran = call.ran or status == "in_progress"

    def _asked(self, line: WireLine) -> None:
        id = at(line.params, "toolCall", "toolCallId")
        if isinstance(id, str) and (line.session, id) not in self.known:
            # It may be the request itself that brings the call into being, when it says what the call is.
            if isinstance(at(line.params, "toolCall", "title"), str):
                self.known[line.session, id] = _Call(line, None)
            else:
                self.ledger.broken(181, f"permission for {id}, which was never announced", [line.shown])

    def _over(self, call: _Call) -> None:
        turn = call.turn
        if turn is None or turn.answer is None or turn.cancelled:
            return
        if at((turn.answer.message or {}).get("result"), "stopReason") != "end_turn":
            return
        shown = [call.line.shown, turn.answer.shown]
        done = call.status in ("completed", "failed")
        self.ledger.judge(
            183, done, "ended calls say so", f"a call is still {call.status!r} when its turn ends", shown
        )
        if call.status == "completed":
            self.ledger.judge(
                182, call.ran, "calls that run say so", "a call is completed and never was in progress", shown
            )


def _places(line: WireLine, ledger: RuleNotes) -> None:
    diffs = [one for one in listed(line.update, "content") if at(one, "type") == "diff"]
    places = listed(line.update, "locations")
    for place in [*diffs, *places]:
        path = at(place, "path")
        if isinstance(path, str):
            ledger.judge(178, is_absolute(path), "paths are absolute", f"the path {path!r}", [line.shown])
    for place in places:
        number = at(place, "line")
        if isinstance(number, int):
            ledger.judge(180, number >= 1, "lines count from 1", f"line {number}", [line.shown])


def _terminals(record: AgentRecord, ledger: RuleNotes) -> None:
    """A terminal is shown before it is released; one that was may be named again afterwards."""
    released: dict[str, WireLine] = {}
    shown: set[str] = set()
    for line in record.sent:
        if line.method == "terminal/release":
            released.setdefault(key(at(line.params, "terminalId")), line)
        elif line.kind in ("tool_call", "tool_call_update"):
            for one in listed(line.update, "content"):
                id = key(at(one, "terminalId"))
                if at(one, "type") != "terminal":
                    continue
                if id not in released:
                    shown.add(id)
                if record.replayed(line):
                    continue
                if id not in released:
                    ledger.kept(190, "a terminal is shown before it is released", [line.shown])
                elif id not in shown:
                    bad = f"{at(one, 'terminalId')} is shown only after its release"
                    ledger.broken(190, bad, [released[id].shown, line.shown])


# MERGED check.agent.watch.asking: What the agent asks the client for: permissions, files, terminals, elicitations.

_SECRET: Final = re.compile(
    r"pass(word|phrase|code)|secret|token|api[-_ ]?key|credential|\bpin\b", re.IGNORECASE
)
_FLAT: Final = ("string", "number", "integer", "boolean", "array")


def check_requests(record: AgentRecord, ledger: RuleNotes) -> None:
    """Judge what is asked."""
    for line in record.requests("session/request_permission"):
        ids = [at(one, "optionId") for one in listed(line.params, "options")]
        ledger.judge(
            195, bool(ids) and len(set(map(str, ids))) == len(ids), "options with ids of their own",
            "no option" if not ids else "two options have one id", [line.shown],
        )  # fmt: skip
    for line in record.requests("fs/read_text_file", "fs/write_text_file"):
        path = at(line.params, "path")
        ledger.judge(238, is_absolute(path), "paths are absolute", f"the path {path!r}", [line.shown])
    _asking_terminals(record, ledger)
    _elicitations(record, ledger)


def _asking_terminals(record: AgentRecord, ledger: RuleNotes) -> None:
    for line in record.requests("terminal/create"):
        cwd = at(line.params, "cwd")
        if cwd is not None:
            ledger.judge(258, is_absolute(cwd), "`cwd` is absolute", f"`cwd` is {cwd!r}", [line.shown])
    released = {key(at(line.params, "terminalId")) for line in record.requests("terminal/release")}
    for exchange in record.asked_by_agent:
        if exchange.request.method != "terminal/create" or not exchange.answers:
            continue
        id = at((exchange.answers[0].message or {}).get("result"), "terminalId")
        turn = record.turn_at(exchange.request)
        if id is None or turn is None or turn.answer is None:
            continue
        ledger.judge(
            257,
            key(id) in released,
            "every terminal is released",
            f"{id} is never released",
            [exchange.request.shown],
        )


def _elicitations(record: AgentRecord, ledger: RuleNotes) -> None:
    issued: set[str] = set()
    waiting: dict[str, WireLine] = {}
    for line in record.sent:
        if line.method == "elicitation/complete":
            id = at(line.params, "elicitationId")
            ledger.judge(
                269,
                key(id) in issued,
                "only what it began is completed",
                f"{id!r} was never begun",
                [line.shown],
            )
            waiting.pop(key(id), None)
        elif line.method == "elicitation/create" and line.is_request:
            _elicitation(line, ledger)
            id = at(line.params, "elicitationId")
            if isinstance(id, str):
                bad = f"the elicitation id {id!r} is in use already"
                ledger.judge(267, key(id) not in waiting, "ids of their own", bad, [line.shown])
                issued.add(key(id))
                waiting[key(id)] = line


def _elicitation(line: WireLine, ledger: RuleNotes) -> None:
    params: Any = line.params
    scopes = [name for name in ("sessionId", "requestId") if at(params, name) is not None]
    extra = at(params, "toolCallId") is not None and "sessionId" not in scopes
    bad = f"its scope is {' and '.join(scopes) or 'missing'}"
    ledger.judge(263, len(scopes) == 1 and not extra, "one scope", bad, [line.shown])
    if at(params, "mode") == "url":
        _url(line, at(params, "url"), ledger)
        return
    fields: Any = at(params, "requestedSchema", "properties")
    if not isinstance(fields, dict):
        return
    for name, field in cast(dict[str, Any], fields).items():
        kind = at(field, "type")
        bad = f"the field {name} is {kind!r}"
        ledger.judge(264, kind in _FLAT, "flat fields", bad, [line.shown])
        words = " ".join(str(word) for word in (name, at(field, "title"), at(field, "description")) if word)
        ledger.judge(
            265,
            not _SECRET.search(words),
            "no secret is asked for",
            f"the field {name} is a secret",
            [line.shown],
        )


def _url(line: WireLine, url: Any, ledger: RuleNotes) -> None:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:
        ledger.broken(268, f"{url!r} is no URL", [line.shown])
        return
    secret = parts.password or any(_SECRET.search(name) for name, _ in parse_qsl(parts.query))
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    sound = not secret and (parts.scheme == "https" or local)
    bad = "the URL carries a secret" if secret else f"the URL is {parts.scheme or 'none'}, not https"
    ledger.judge(268, sound, "an https URL without secrets", bad, [line.shown])
