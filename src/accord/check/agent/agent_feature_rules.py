"""Passive rules for capabilities, modes, options, usage and unstable features."""

import re
from typing import Any, Final, NamedTuple, cast

from accord.check.agent.agent_message_rules import AgentRecord
from accord.check.agent.agent_turn_rules import is_absolute
from accord.check.checked_connection import WireLine, id_key
from accord.check.findings import Rule, RuleNotes
from accord.trace.trace_steps import at, listed


class ClientCapabilityRule(NamedTuple):
    """Methods or kinds of update that need a client capability, and the rule about it."""

    rule: Rule
    capability: str
    names: tuple[str, ...]


CAPABILITY_RULES: Final = (
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
_CLIENT_REQUESTS: Final = ("fs/", "terminal/", "elicitation/")


def check_capabilities(record: AgentRecord, notes: RuleNotes) -> None:
    """Check that the agent uses only what the client advertises."""
    if not record.has_begun:
        return
    if record.nothing_offered:
        for line in record.sent:
            if line.is_request and line.method.startswith(_CLIENT_REQUESTS):
                notes.add_fail(68, f"{line.method}, but the client sent no capabilities", [line.evidence])
        if record.turns:
            notes.add_pass(68, "a client without capabilities gets no requests")
    for entry in CAPABILITY_RULES:
        sent = [line for line in record.sent if (line.kind or line.method) in entry.names]
        if record.offers(entry.capability):
            if sent:
                notes.add_pass(
                    entry.rule, f"{sent[0].kind or sent[0].method} is sent to a client that supports it"
                )
        elif not record.nothing_offered or not entry.names[0].startswith(_CLIENT_REQUESTS):
            for line in sent:
                name = line.kind or line.method
                notes.add_fail(
                    entry.rule,
                    f"{name}, but the client does not advertise {entry.capability}",
                    [line.evidence],
                )
    _check_elicitation_modes(record, notes)
    _check_terminal_logins(record, notes)
    _check_boolean_options(record, notes)


def _check_elicitation_modes(record: AgentRecord, notes: RuleNotes) -> None:
    if record.nothing_offered:
        return
    for line in record.requests("elicitation/create"):
        mode = at(line.params, "mode")
        notes.judge(
            260,
            isinstance(mode, str) and record.offers(f"elicitation.{mode}"),
            f"uses the mode {mode}, which the client supports",
            f"uses the mode {mode!r}, which the client does not support",
            [line.evidence],
        )


def _check_terminal_logins(record: AgentRecord, notes: RuleNotes) -> None:
    methods = [
        one for one in listed(record.initialize_result, "authMethods") if at(one, "type") == "terminal"
    ]
    answers = [line for line, _ in record.results("initialize")]
    if record.offers("auth.terminal"):
        if methods:
            notes.add_pass(77, "terminal logins are offered to a client that supports them")
    elif methods:
        frames = [line.evidence for line in answers[:1]]
        notes.add_fail(77, "a terminal login, but the client does not support it", frames)


def _check_boolean_options(record: AgentRecord, notes: RuleNotes) -> None:
    for line, options in sent_options(record):
        if any(at(option, "type") == "boolean" for option in options):
            notes.judge(
                217,
                record.offers("session.configOptions.boolean"),
                "boolean options go to a client that supports them",
                "a boolean option, but the client does not support it",
                [line.evidence],
            )


def sent_options(record: AgentRecord) -> list[tuple[WireLine, list[Any]]]:
    """All lists of config options that the agent sent, in order."""
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


_TRACE: Final = {
    "traceparent": re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"),
    "tracestate": re.compile(r"[^=,\s]+=[^,]*(,[^=,\s]+=[^,]*)*"),
    "baggage": re.compile(r"[^=,\s]+=[^,]*(,.*)?", re.DOTALL),
}


def check_options(record: AgentRecord, notes: RuleNotes) -> None:
    """Check plans, modes, options, auth methods, usage and trace context."""
    _check_plans(record, notes)
    _check_modes(record, notes)
    _check_option_lists(record, notes)
    _check_auth_methods(record, notes)
    for line in record.updates:
        if line.kind == "usage_update" and isinstance(line.update.get("size"), int):
            size = line.update["size"]
            notes.judge(235, size > 0, "the size is positive", f"the size is {size}", [line.evidence])
    for line in record.sent:
        for name, value in _trace_members(line.message):
            sound = isinstance(value, str) and _TRACE[name].fullmatch(value) is not None
            bad = f"{name} is {value!r}, which is not a W3C trace context"
            notes.judge(48, sound, "valid W3C trace context", bad, [line.evidence])


def _check_plans(record: AgentRecord, notes: RuleNotes) -> None:
    """A plan must be complete: an unfinished entry must not vanish without new entries."""
    last: dict[str, tuple[WireLine, dict[str, Any]]] = {}
    for line in record.updates:
        if line.kind != "plan" or record.is_replay(line):
            continue
        entries = {str(at(one, "content")): at(one, "status") for one in listed(line.update, "entries")}
        before = last.get(line.session)
        last[line.session] = (line, entries)
        if before is None or not entries:
            continue
        lost = [text for text, status in before[1].items() if text not in entries and status != "completed"]
        partial = bool(lost) and all(text in before[1] for text in entries)
        bad = f"the entry {lost[0]!r} is missing" if lost else ""
        notes.judge(203, not partial, "plans are complete", bad, [before[0].evidence, line.evidence])


def _check_modes(record: AgentRecord, notes: RuleNotes) -> None:
    for line, result in record.results("session/new", "session/load", "session/resume", "session/fork"):
        modes = at(result, "modes")
        if isinstance(modes, dict):
            ids = [at(mode, "id") for mode in listed(modes, "availableModes")]
            current = at(modes, "currentModeId")
            bad = f"the current mode {current!r} is not among {ids}"
            notes.judge(206, current in ids, "the current mode is one of them", bad, [line.evidence])


def values_of(option: Any) -> list[Any]:
    """The values of a select option, flat or in groups."""
    found: list[Any] = []
    for one in listed(option, "options"):
        if "options" in one:
            found += [at(inner, "value") for inner in listed(one, "options")]
        else:
            found.append(at(one, "value"))
    return found


def _check_option_lists(record: AgentRecord, notes: RuleNotes) -> None:
    known: dict[str, set[str]] = {}
    for line, options in sent_options(record):
        for option in options:
            _check_option(line, option, notes)
        ids = {id_key(at(option, "id")) for option in options}
        session = line.session or "new"
        before = known.get(session) or known.get("new") or set()
        if line.kind == "config_option_update" and len(before) > 1:
            bad = f"{len(ids)} of {len(before)} options"
            notes.judge(216, not (len(ids) == 1 and ids < before), "the complete list", bad, [line.evidence])
        known[session] = ids


def _check_option(line: WireLine, option: Any, notes: RuleNotes) -> None:
    current = at(option, "currentValue")
    bad = f"{at(option, 'id')} has no current value"
    notes.judge(212, current is not None, "every option has a current value", bad, [line.evidence])
    if at(option, "type") != "select":
        return
    if current is not None:
        bad = f"{at(option, 'id')} is {current!r}, which is not among its values"
        notes.judge(
            213, current in values_of(option), "current values are offered ones", bad, [line.evidence]
        )
    shapes = {"options" in one for one in listed(option, "options") if isinstance(one, dict)}
    bad = f"the options of {at(option, 'id')} are flat and grouped"
    notes.judge(214, len(shapes) <= 1, "all flat or all grouped", bad, [line.evidence])


def _check_auth_methods(record: AgentRecord, notes: RuleNotes) -> None:
    for line, result in record.results("initialize"):
        ids = [at(one, "id") for one in listed(result, "authMethods")]
        if ids:
            whole = all(isinstance(id, str) and id for id in ids) and len(set(map(str, ids))) == len(ids)
            names = all(isinstance(at(one, "name"), str) for one in listed(result, "authMethods"))
            bad = "an auth method has no id, or the id of another"
            notes.judge(76, whole and names, "auth methods have unique ids", bad, [line.evidence])


def _trace_members(value: Any) -> list[tuple[str, Any]]:
    """The trace context members of all `_meta` objects."""
    found: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        meta = members.get("_meta")
        found += [(name, at(meta, name)) for name in _TRACE if at(meta, name) is not None]
        for inner in members.values():
            found += _trace_members(inner)
    elif isinstance(value, list):
        for inner in cast(list[Any], value):
            found += _trace_members(inner)
    return found


def check_unstable(record: AgentRecord, notes: RuleNotes) -> None:
    """Check compactions, archives, sub-agents, MCP over ACP and auth status."""
    _check_compactions(record, notes)
    _check_archives(record, notes)
    _check_subagents(record, notes)
    _check_mcp(record, notes)
    _check_auth_status(record, notes)


def _check_compactions(record: AgentRecord, notes: RuleNotes) -> None:
    ended: dict[str, WireLine] = {}
    for line in record.updates:
        if line.kind != "compaction_update" or record.is_replay(line):
            continue
        id, status = line.update.get("compactionId"), line.update.get("status")
        if status in ("completed", "failed", "cancelled"):
            bad = f"the compaction {id} had already ended"
            notes.judge(318, id_key(id) not in ended, "each ends once", bad, [line.evidence])
            ended[id_key(id)] = line
        elif status == "in_progress" and id_key(id) in ended:
            notes.add_fail(
                318,
                f"the compaction id {id} is reused",
                [ended[id_key(id)].evidence, line.evidence],
            )


def _check_archives(record: AgentRecord, notes: RuleNotes) -> None:
    sessions = at(record.initialize_result, "agentCapabilities", "sessionCapabilities")
    if not isinstance(at(sessions, "archive"), dict):
        return
    answers = [line.evidence for line, _ in record.results("initialize")]
    listing = isinstance(at(sessions, "list"), dict)
    notes.judge(
        331, listing, "it also lists sessions", "it archives sessions but does not list them", answers
    )
    for line, result in record.results("session/list"):
        for entry in listed(result, "sessions"):
            told = at(entry, "archived")
            bad = f"`archived` is {told!r} in an entry"
            notes.judge(338, isinstance(told, bool), "every entry has `archived`", bad, [line.evidence])


def _check_subagents(record: AgentRecord, notes: RuleNotes) -> None:
    opened = {id_key(at(result, "sessionId")) for _, result in record.results("session/new", "session/fork")}
    opened |= {
        id_key(one.request.session)
        for one in record.client_requests
        if one.request.method in ("session/load", "session/resume")
    }
    announced: set[str] = set()
    for line in record.updates:
        if line.kind == "subagent_update":
            announced.add(id_key(line.update.get("sessionId")))
            paths = [line.update.get("cwd"), *listed(line.update, "additionalDirectories")]
            for path in paths:
                if path is not None:
                    notes.judge(376, is_absolute(path), "absolute", f"the folder {path!r}", [line.evidence])
        elif id_key(line.session) not in opened and record.offers("subagents"):
            bad = f"an update of {line.session}, which was never announced"
            if record.turns:
                notes.judge(
                    375,
                    id_key(line.session) in announced,
                    "sub-agents are announced first",
                    bad,
                    [line.evidence],
                )


def _check_mcp(record: AgentRecord, notes: RuleNotes) -> None:
    declared = {
        id_key(at(server, "serverId"))
        for one in record.client_requests
        for server in listed(one.request.params, "mcpServers")
        if at(server, "type") == "acp"
    }
    active: dict[tuple[str, str], int] = {}
    ends = {one.request.number: one.answers[0].number for one in record.agent_requests if one.answers}
    for line in record.requests("mcp/message"):
        server, number = at(line.params, "serverId"), at(line.params, "requestId")
        options, known = (id_key(server), id_key(number)), id_key(server) in declared
        busy = active.get(options, 0) > line.number
        bad = f"{number!r} is in use there" if known else f"{server!r} was not declared"
        notes.judge(364, known and not busy, "declared servers, unused ids", bad, [line.evidence])
        active[options] = ends.get(line.number, len(record.lines) + 1)


def _check_auth_status(record: AgentRecord, notes: RuleNotes) -> None:
    offered = isinstance(at(record.initialize_result, "agentCapabilities", "auth", "status"), dict)
    begun = next((line.number for line, _ in record.results("initialize")), len(record.lines) + 1)
    last: Any = None
    for line in record.sent:
        if line.method != "auth/status_update":
            continue
        bad = (
            "the agent does not advertise `auth.status`" if not offered else "before the answer to initialize"
        )
        notes.judge(
            360, offered and line.number > begun, "advertised, and after initialize", bad, [line.evidence]
        )
        notes.judge(361, line.params != last, "only changes are sent", "nothing changed", [line.evidence])
        last = line.params
