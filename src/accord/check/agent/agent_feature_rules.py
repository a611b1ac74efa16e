"""Passive rules for capabilities, modes, options, usage and unstable features."""

import re
from typing import Any, Final, NamedTuple, cast

from accord.check.agent.agent_message_rules import AgentRecord
from accord.check.agent.agent_turn_rules import is_absolute
from accord.check.checked_connection import WireLine, key
from accord.check.findings import Rule, RuleNotes
from accord.trace.trace_steps import at, listed

# MERGED check.agent.watch.gates: Gates: what an agent may send only to a client that advertised it.


class ClientCapabilityRule(NamedTuple):
    """Methods or kinds of update behind one capability of the client, and the rule that says so."""

    rule: Rule
    capability: str
    names: tuple[str, ...]


GATES: Final = (
    ClientCapabilityRule(236, "fs.readTextFile", ("fs/read_text_file",)),
    ClientCapabilityRule(237, "fs.writeTextFile", ("fs/write_text_file",)),
    ClientCapabilityRule(
        247,
        "terminal",
        (
            *("terminal/create", "terminal/output", "terminal/wait_for_exit"),
            *("terminal/kill", "terminal/release"),
        ),
    ),
    ClientCapabilityRule(284, "plan", ("plan_update", "plan_removed")),
    ClientCapabilityRule(
        291, "session.compaction", ("compaction_update", "compaction_summary_chunk", "compaction_chunk")
    ),
    ClientCapabilityRule(312, "session.notices", ("notice",)),
    ClientCapabilityRule(374, "subagents", ("subagent_update", "session_message", "session_message_chunk")),
)
_ASKED_FOR: Final = ("fs/", "terminal/", "elicitation/")


def check_capabilities(record: AgentRecord, ledger: RuleNotes) -> None:
    """Hold what was sent against what the client said it can do."""
    if not record.began:
        return
    if record.nothing_offered:
        for line in record.sent:
            if line.is_request and line.method.startswith(_ASKED_FOR):
                ledger.broken(68, f"{line.method}, and the client told of no capability", [line.shown])
        if record.turns:
            ledger.kept(68, "a client without capabilities is asked for nothing")
    for gate in GATES:
        sent = [line for line in record.sent if (line.kind or line.method) in gate.names]
        if record.offers(gate.capability):
            if sent:
                ledger.kept(
                    gate.rule, f"{sent[0].kind or sent[0].method} is sent where the client has the gate"
                )
        elif not record.nothing_offered or not gate.names[0].startswith(_ASKED_FOR):
            for line in sent:
                name = line.kind or line.method
                ledger.broken(
                    gate.rule, f"{name}, and the client does not offer {gate.capability}", [line.shown]
                )
    _elicitations(record, ledger)
    _terminal_logins(record, ledger)
    _booleans(record, ledger)


def _elicitations(record: AgentRecord, ledger: RuleNotes) -> None:
    if record.nothing_offered:
        return
    for line in record.requests("elicitation/create"):
        mode = at(line.params, "mode")
        ledger.judge(
            260,
            isinstance(mode, str) and record.offers(f"elicitation.{mode}"),
            f"asks by {mode}, which the client has",
            f"asks by {mode!r}, which the client does not have",
            [line.shown],
        )


def _terminal_logins(record: AgentRecord, ledger: RuleNotes) -> None:
    methods = [one for one in listed(record.initialized, "authMethods") if at(one, "type") == "terminal"]
    answers = [line for line, _ in record.results("initialize")]
    if record.offers("auth.terminal"):
        if methods:
            ledger.kept(77, "terminal logins are offered to a client that has terminals for it")
    elif methods:
        shown = [line.shown for line in answers[:1]]
        ledger.broken(77, "a terminal login, and the client cannot do that", shown)


def _booleans(record: AgentRecord, ledger: RuleNotes) -> None:
    for line, options in options_told(record):
        if any(at(option, "type") == "boolean" for option in options):
            ledger.judge(
                217,
                record.offers("session.configOptions.boolean"),
                "boolean options go to a client that knows them",
                "a boolean option, and the client does not know such",
                [line.shown],
            )


def options_told(record: AgentRecord) -> list[tuple[WireLine, list[Any]]]:
    """Every list of config options that the agent sent, in order."""
    told = [
        (line, listed(result, "configOptions"))
        for line, result in record.results(
            *("session/new", "session/load", "session/resume", "session/fork", "session/set_config_option")
        )
        if at(result, "configOptions") is not None
    ]
    told += [
        (line, listed(line.update, "configOptions"))
        for line in record.updates
        if line.kind == "config_option_update"
    ]
    return sorted(told, key=lambda pair: pair[0].number)


# MERGED check.agent.watch.settings: Plans, modes, config options, usage: what each update and result must carry.

_TRACE: Final = {
    "traceparent": re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"),
    "tracestate": re.compile(r"[^=,\s]+=[^,]*(,[^=,\s]+=[^,]*)*"),
    "baggage": re.compile(r"[^=,\s]+=[^,]*(,.*)?", re.DOTALL),
}


def check_options(record: AgentRecord, ledger: RuleNotes) -> None:
    """Judge the settings and plans."""
    _plans(record, ledger)
    _modes(record, ledger)
    _options(record, ledger)
    _login(record, ledger)
    for line in record.updates:
        if line.kind == "usage_update" and isinstance(line.update.get("size"), int):
            size = line.update["size"]
            ledger.judge(235, size > 0, "with a meaningful size", f"the size is {size}", [line.shown])
    for line in record.sent:
        for name, value in _traces(line.message):
            sound = isinstance(value, str) and _TRACE[name].fullmatch(value) is not None
            bad = f"{name} is {value!r}, which is no W3C trace context"
            ledger.judge(48, sound, "trace context as the W3C has it", bad, [line.shown])


def _plans(record: AgentRecord, ledger: RuleNotes) -> None:
    """An unfinished entry does not vanish while nothing new comes: that would be a change sent as if it were all."""
    last: dict[str, tuple[WireLine, dict[str, Any]]] = {}
    for line in record.updates:
        if line.kind != "plan" or record.replayed(line):
            continue
        entries = {str(at(one, "content")): at(one, "status") for one in listed(line.update, "entries")}
        before = last.get(line.session)
        last[line.session] = (line, entries)
        if before is None or not entries:
            continue
        lost = [text for text, status in before[1].items() if text not in entries and status != "completed"]
        partial = bool(lost) and all(text in before[1] for text in entries)
        bad = f"the entry {lost[0]!r} is gone" if lost else ""
        ledger.judge(203, not partial, "plans are sent whole", bad, [before[0].shown, line.shown])


def _modes(record: AgentRecord, ledger: RuleNotes) -> None:
    for line, result in record.results("session/new", "session/load", "session/resume", "session/fork"):
        modes = at(result, "modes")
        if isinstance(modes, dict):
            ids = [at(mode, "id") for mode in listed(modes, "availableModes")]
            current = at(modes, "currentModeId")
            bad = f"the current mode {current!r} is not among {ids}"
            ledger.judge(206, current in ids, "the current mode is one of them", bad, [line.shown])


def values_of(option: Any) -> list[Any]:
    """The values of a select, flat or in groups."""
    found: list[Any] = []
    for one in listed(option, "options"):
        if "options" in one:
            found += [at(inner, "value") for inner in listed(one, "options")]
        else:
            found.append(at(one, "value"))
    return found


def _options(record: AgentRecord, ledger: RuleNotes) -> None:
    known: dict[str, set[str]] = {}
    for line, options in options_told(record):
        for option in options:
            _option(line, option, ledger)
        ids = {key(at(option, "id")) for option in options}
        session = line.session or "new"
        before = known.get(session) or known.get("new") or set()
        if line.kind == "config_option_update" and len(before) > 1:
            bad = f"{len(ids)} of {len(before)} options"
            ledger.judge(216, not (len(ids) == 1 and ids < before), "the complete list", bad, [line.shown])
        known[session] = ids


def _option(line: WireLine, option: Any, ledger: RuleNotes) -> None:
    current = at(option, "currentValue")
    bad = f"{at(option, 'id')} has no current value"
    ledger.judge(212, current is not None, "every option has a current value", bad, [line.shown])
    if at(option, "type") != "select":
        return
    if current is not None:
        bad = f"{at(option, 'id')} is {current!r}, which is not among its values"
        ledger.judge(213, current in values_of(option), "current values are offered ones", bad, [line.shown])
    shapes = {"options" in one for one in listed(option, "options") if isinstance(one, dict)}
    bad = f"the options of {at(option, 'id')} are flat and grouped"
    ledger.judge(214, len(shapes) <= 1, "all flat or all grouped", bad, [line.shown])


def _login(record: AgentRecord, ledger: RuleNotes) -> None:
    for line, result in record.results("initialize"):
        ids = [at(one, "id") for one in listed(result, "authMethods")]
        if ids:
            whole = all(isinstance(id, str) and id for id in ids) and len(set(map(str, ids))) == len(ids)
            names = all(isinstance(at(one, "name"), str) for one in listed(result, "authMethods"))
            bad = "two auth methods have one id, or one lacks it"
            ledger.judge(76, whole and names, "auth methods have ids of their own", bad, [line.shown])


def _traces(value: Any) -> list[tuple[str, Any]]:
    """Trace context in any `_meta`."""
    found: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        meta = members.get("_meta")
        found += [(name, at(meta, name)) for name in _TRACE if at(meta, name) is not None]
        for inner in members.values():
            found += _traces(inner)
    elif isinstance(value, list):
        for inner in cast(list[Any], value):
            found += _traces(inner)
    return found


# MERGED check.agent.watch.unstable: What the newer parts of the protocol let one see: compactions, archives, sub-agents, MCP over ACP, auth status.


def check_unstable(record: AgentRecord, ledger: RuleNotes) -> None:
    """Judge them."""
    _compactions(record, ledger)
    _archives(record, ledger)
    _children(record, ledger)
    _mcp(record, ledger)
    _auth(record, ledger)


def _compactions(record: AgentRecord, ledger: RuleNotes) -> None:
    ended: dict[str, WireLine] = {}
    for line in record.updates:
        if line.kind != "compaction_update" or record.replayed(line):
            continue
        id, status = line.update.get("compactionId"), line.update.get("status")
        if status in ("completed", "failed", "cancelled"):
            bad = f"the compaction {id} has ended before"
            ledger.judge(318, key(id) not in ended, "one end each", bad, [line.shown])
            ended[key(id)] = line
        elif status == "in_progress" and key(id) in ended:
            ledger.broken(
                318, f"the id of the compaction {id} is used again", [ended[key(id)].shown, line.shown]
            )


def _archives(record: AgentRecord, ledger: RuleNotes) -> None:
    sessions = at(record.initialized, "agentCapabilities", "sessionCapabilities")
    if not isinstance(at(sessions, "archive"), dict):
        return
    answers = [line.shown for line, _ in record.results("initialize")]
    listing = isinstance(at(sessions, "list"), dict)
    ledger.judge(
        331, listing, "it lists sessions too", "it archives sessions and does not list them", answers
    )
    for line, result in record.results("session/list"):
        for entry in listed(result, "sessions"):
            told = at(entry, "archived")
            bad = f"`archived` is {told!r} in an entry"
            ledger.judge(338, isinstance(told, bool), "every entry says whether", bad, [line.shown])


def _children(record: AgentRecord, ledger: RuleNotes) -> None:
    opened = {key(at(result, "sessionId")) for _, result in record.results("session/new", "session/fork")}
    opened |= {
        key(one.request.session)
        for one in record.asked
        if one.request.method in ("session/load", "session/resume")
    }
    announced: set[str] = set()
    for line in record.updates:
        if line.kind == "subagent_update":
            announced.add(key(line.update.get("sessionId")))
            paths = [line.update.get("cwd"), *listed(line.update, "additionalDirectories")]
            for path in paths:
                if path is not None:
                    ledger.judge(376, is_absolute(path), "absolute", f"the folder {path!r}", [line.shown])
        elif key(line.session) not in opened and record.offers("subagents"):
            bad = f"an update of {line.session}, which was never announced"
            if record.turns:
                ledger.judge(
                    375, key(line.session) in announced, "children are announced first", bad, [line.shown]
                )


def _mcp(record: AgentRecord, ledger: RuleNotes) -> None:
    declared = {
        key(at(server, "serverId"))
        for one in record.asked
        for server in listed(one.request.params, "mcpServers")
        if at(server, "type") == "acp"
    }
    active: dict[tuple[str, str], int] = {}
    ends = {one.request.number: one.answers[0].number for one in record.asked_by_agent if one.answers}
    for line in record.requests("mcp/message"):
        server, number = at(line.params, "serverId"), at(line.params, "requestId")
        place, known = (key(server), key(number)), key(server) in declared
        busy = active.get(place, 0) > line.number
        bad = f"{number!r} is in use there" if known else f"{server!r} was not declared"
        ledger.judge(364, known and not busy, "declared servers, fresh ids", bad, [line.shown])
        active[place] = ends.get(line.number, len(record.lines) + 1)


def _auth(record: AgentRecord, ledger: RuleNotes) -> None:
    offered = isinstance(at(record.initialized, "agentCapabilities", "auth", "status"), dict)
    begun = next((line.number for line, _ in record.results("initialize")), len(record.lines) + 1)
    last: Any = None
    for line in record.sent:
        if line.method != "auth/status_update":
            continue
        bad = "the agent does not offer `auth.status`" if not offered else "before the answer to initialize"
        ledger.judge(360, offered and line.number > begun, "offered, and in time", bad, [line.shown])
        ledger.judge(361, line.params != last, "only changes are told", "nothing changed", [line.shown])
        last = line.params
