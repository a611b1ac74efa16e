"""Rules for capabilities, modes, options, usage and unstable features of an agent."""

import re
from typing import Any, Final, NamedTuple, cast

from accord.check.agent.agent_message_rules import AgentRecord
from accord.check.agent.agent_turn_rules import is_absolute
from accord.check.findings import RuleId, RuleNotes
from accord.trace.trace_steps import at, listed
from accord.trace.wire_line import WireLine
from accord.wire.envelope import id_key


class ClientCapabilityRule(NamedTuple):
    """Methods or kinds of update that need a client capability, and the rule about it."""

    rule: RuleId
    capability: str
    names: tuple[str, ...]


CAPABILITY_RULES: Final = (
    ClientCapabilityRule("file.read-needs-capability", "fs.readTextFile", ("fs/read_text_file",)),
    ClientCapabilityRule("file.write-needs-capability", "fs.writeTextFile", ("fs/write_text_file",)),
    ClientCapabilityRule(
        "terminal.needs-capability",
        "terminal",
        (
            *("terminal/create", "terminal/output", "terminal/wait_for_exit"),
            *("terminal/kill", "terminal/release"),
        ),
    ),
    ClientCapabilityRule("plan.update-needs-capability", "plan", ("plan_update", "plan_removed")),
    ClientCapabilityRule(
        "compaction.needs-capability",
        "session.compaction",
        ("compaction_update", "compaction_summary_chunk", "compaction_chunk"),
    ),
    ClientCapabilityRule("notice.needs-capability", "session.notices", ("notice",)),
    ClientCapabilityRule(
        "subagent.needs-capability",
        "subagents",
        ("subagent_update", "session_message", "session_message_chunk"),
    ),
)
_CLIENT_METHOD_PREFIXES: Final = ("fs/", "terminal/", "elicitation/")


def check_capabilities(record: AgentRecord, notes: RuleNotes) -> None:
    """Check that the agent uses only what the client advertises."""
    if not record.initialized:
        return
    if record.no_client_capabilities:
        for line in record.sent:
            if line.is_request and line.method.startswith(_CLIENT_METHOD_PREFIXES):
                failure = f"{line.method}, but the client sent no capabilities"
                notes.add_fail("initialize.missing-client-capability", failure, line)
        if record.turns:
            notes.add_pass(
                "initialize.missing-client-capability", "a client without capabilities gets no requests"
            )
    for entry in CAPABILITY_RULES:
        sent = [line for line in record.sent if (line.kind or line.method) in entry.names]
        if record.client_advertises(entry.capability):
            if sent:
                notes.add_pass(
                    entry.rule, f"{sent[0].kind or sent[0].method} is sent to a client that supports it"
                )
        elif not record.no_client_capabilities or not entry.names[0].startswith(_CLIENT_METHOD_PREFIXES):
            for line in sent:
                name = line.kind or line.method
                notes.add_fail(
                    entry.rule, f"{name}, but the client does not advertise {entry.capability}", line
                )
    _check_elicitation_modes(record, notes)
    _check_terminal_logins(record, notes)
    _check_boolean_options(record, notes)


def _check_elicitation_modes(record: AgentRecord, notes: RuleNotes) -> None:
    if record.no_client_capabilities:
        return
    for line in record.requests("elicitation/create"):
        mode = at(line.params, "mode")
        failure = f"uses the mode {mode!r}, which the client does not support"
        reason = f"uses the mode {mode}, which the client supports"
        passed = isinstance(mode, str) and record.client_advertises(f"elicitation.{mode}")
        notes.judge("elicitation.mode-needs-capability", passed, reason, failure, line)


def _check_terminal_logins(record: AgentRecord, notes: RuleNotes) -> None:
    methods = [
        one for one in listed(record.initialize_result, "authMethods") if at(one, "type") == "terminal"
    ]
    answers = [line for line, _ in record.results("initialize")]
    if record.client_advertises("auth.terminal"):
        if methods:
            reason = "terminal logins are offered to a client that supports them"
            notes.add_pass("auth.terminal-method-needs-capability", reason)
    elif methods:
        frames = answers[:1]
        failure = "a terminal login, but the client does not support it"
        notes.add_fail("auth.terminal-method-needs-capability", failure, *frames)


def _check_boolean_options(record: AgentRecord, notes: RuleNotes) -> None:
    for line, options in sent_option_lists(record):
        if any(at(option, "type") == "boolean" for option in options):
            failure = "a boolean option, but the client does not support it"
            reason = "boolean options go to a client that supports them"
            passed = record.client_advertises("session.configOptions.boolean")
            notes.judge("option.boolean-needs-capability", passed, reason, failure, line)


def sent_option_lists(record: AgentRecord) -> list[tuple[WireLine, list[Any]]]:
    """All lists of config options that the agent sent, in order."""
    option_lists = [
        (line, listed(result, "configOptions"))
        for line, result in record.results(
            *("session/new", "session/load", "session/resume", "session/fork", "session/set_config_option")
        )
        if at(result, "configOptions") is not None
    ]
    option_lists += [
        (line, listed(line.update, "configOptions"))
        for line in record.updates
        if line.kind == "config_option_update"
    ]
    return sorted(option_lists, key=lambda entry: entry[0].number)


_TRACE_PATTERNS: Final = {
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
            notes.judge("usage.size", size > 0, "the size is positive", f"the size is {size}", line)
    for line in record.sent:
        for name, value in _trace_members(line.message):
            valid = isinstance(value, str) and _TRACE_PATTERNS[name].fullmatch(value) is not None
            failure = f"{name} is {value!r}, which is not a W3C trace context"
            notes.judge("extension.trace-context", valid, "valid W3C trace context", failure, line)


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
        missing = [
            text for text, status in before[1].items() if text not in entries and status != "completed"
        ]
        partial = bool(missing) and all(text in before[1] for text in entries)
        failure = f"the entry {missing[0]!r} is missing" if missing else ""
        notes.judge("plan.complete", not partial, "plans are complete", failure, before[0], line)


def _check_modes(record: AgentRecord, notes: RuleNotes) -> None:
    for line, result in record.results("session/new", "session/load", "session/resume", "session/fork"):
        modes = at(result, "modes")
        if isinstance(modes, dict):
            ids = [at(mode, "id") for mode in listed(modes, "availableModes")]
            current = at(modes, "currentModeId")
            failure = f"the current mode {current!r} is not among {ids}"
            notes.judge(
                "mode.current-is-available", current in ids, "the current mode is one of them", failure, line
            )


def option_values(option: Any) -> list[Any]:
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
    for line, options in sent_option_lists(record):
        for option in options:
            _check_option(line, option, notes)
        ids = {id_key(at(option, "id")) for option in options}
        session = line.session or "new"
        before = known.get(session) or known.get("new") or set()
        if line.kind == "config_option_update" and len(before) > 1:
            failure = f"{len(ids)} of {len(before)} options"
            reason = "the complete list"
            notes.judge("option.update-has-all", not (len(ids) == 1 and ids < before), reason, failure, line)
        known[session] = ids


def _check_option(line: WireLine, option: Any, notes: RuleNotes) -> None:
    current = at(option, "currentValue")
    failure = f"{at(option, 'id')} has no current value"
    notes.judge(
        "option.current-value", current is not None, "every option has a current value", failure, line
    )
    if at(option, "type") != "select":
        return
    if current is not None:
        failure = f"{at(option, 'id')} is {current!r}, which is not among its values"
        reason = "current values are among the options"
        notes.judge("option.current-value-listed", current in option_values(option), reason, failure, line)
    shapes = {"options" in one for one in listed(option, "options") if isinstance(one, dict)}
    failure = f"the options of {at(option, 'id')} are flat and grouped"
    notes.judge("option.flat-or-grouped", len(shapes) <= 1, "all flat or all grouped", failure, line)


def _check_auth_methods(record: AgentRecord, notes: RuleNotes) -> None:
    for line, result in record.results("initialize"):
        ids = [at(one, "id") for one in listed(result, "authMethods")]
        if ids:
            unique = all(isinstance(id, str) and id for id in ids) and len(set(map(str, ids))) == len(ids)
            names = all(isinstance(at(one, "name"), str) for one in listed(result, "authMethods"))
            failure = "an auth method has no id, or the id of another"
            notes.judge("auth.method-ids", unique and names, "auth methods have unique ids", failure, line)


def _trace_members(value: Any) -> list[tuple[str, Any]]:
    """The trace context members of all `_meta` objects."""
    found: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        meta = members.get("_meta")
        found += [(name, at(meta, name)) for name in _TRACE_PATTERNS if at(meta, name) is not None]
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
            failure = f"the compaction {id} had already ended"
            notes.judge(
                "compaction.ends-once", id_key(id) not in ended, "each compaction ends once", failure, line
            )
            ended[id_key(id)] = line
        elif status == "in_progress" and id_key(id) in ended:
            notes.add_fail(
                "compaction.ends-once", f"the compaction id {id} is reused", ended[id_key(id)], line
            )


def _check_archives(record: AgentRecord, notes: RuleNotes) -> None:
    sessions = at(record.initialize_result, "agentCapabilities", "sessionCapabilities")
    if not isinstance(at(sessions, "archive"), dict):
        return
    answers = [line for line, _ in record.results("initialize")]
    listing = isinstance(at(sessions, "list"), dict)
    failure = "it archives sessions but does not list them"
    notes.judge("archive.needs-list", listing, "it also lists sessions", failure, *answers)
    for line, result in record.results("session/list"):
        for entry in listed(result, "sessions"):
            archived = at(entry, "archived")
            failure = f"`archived` is {archived!r} in an entry"
            reason = "every entry has `archived`"
            notes.judge("archive.member-in-list", isinstance(archived, bool), reason, failure, line)


def _check_subagents(record: AgentRecord, notes: RuleNotes) -> None:
    opened = {id_key(at(result, "sessionId")) for _, result in record.results("session/new", "session/fork")}
    opened |= {
        id_key(call.request.session)
        for call in record.client_requests
        if call.request.method in ("session/load", "session/resume")
    }
    announced: set[str] = set()
    for line in record.updates:
        if line.kind == "subagent_update":
            announced.add(id_key(line.update.get("sessionId")))
            paths = [line.update.get("cwd"), *listed(line.update, "additionalDirectories")]
            for path in paths:
                if path is not None:
                    failure = f"the folder {path!r} is relative"
                    notes.judge("subagent.absolute-paths", is_absolute(path), "absolute", failure, line)
        elif id_key(line.session) not in opened and record.client_advertises("subagents"):
            failure = f"an update of {line.session}, which was never announced"
            if record.turns:
                reason = "sub-agents are announced first"
                notes.judge("subagent.announced", id_key(line.session) in announced, reason, failure, line)


def _check_mcp(record: AgentRecord, notes: RuleNotes) -> None:
    declared = {
        id_key(at(server, "serverId"))
        for call in record.client_requests
        for server in listed(call.request.params, "mcpServers")
        if at(server, "type") == "acp"
    }
    active: dict[tuple[str, str], int] = {}
    ends = {call.request.number: call.answers[0].number for call in record.agent_requests if call.answers}
    for line in record.requests("mcp/message"):
        server, number = at(line.params, "serverId"), at(line.params, "requestId")
        call_key, known = (id_key(server), id_key(number)), id_key(server) in declared
        in_use = active.get(call_key, 0) > line.number
        failure = (
            f"the request id {number!r} is in use" if known else f"the server {server!r} was not declared"
        )
        notes.judge(
            "mcp.declared-server", known and not in_use, "declared servers, unused ids", failure, line
        )
        active[call_key] = ends.get(line.number, len(record.lines) + 1)


def _check_auth_status(record: AgentRecord, notes: RuleNotes) -> None:
    advertised = isinstance(at(record.initialize_result, "agentCapabilities", "auth", "status"), dict)
    initialize_number = next((line.number for line, _ in record.results("initialize")), len(record.lines) + 1)
    last: Any = None
    for line in record.sent:
        if line.method != "auth/status_update":
            continue
        failure = (
            "the agent does not advertise `auth.status`"
            if not advertised
            else "before the answer to initialize"
        )
        reason = "advertised, and after initialize"
        passed = advertised and line.number > initialize_number
        notes.judge("auth-status.update-advertised", passed, reason, failure, line)
        reason = "only changes are sent"
        notes.judge("auth-status.update-only-changes", line.params != last, reason, "nothing changed", line)
        last = line.params
