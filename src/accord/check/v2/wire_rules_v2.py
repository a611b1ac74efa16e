"""The rules of version 2 for all messages of a connection: envelope, schema, and the order of updates."""

from typing import Any, Final

from accord.check.agent.agent_message_rules import AgentRecord
from accord.check.agent.agent_under_test import AgentUnderTest
from accord.check.checked_connection import has_capability
from accord.check.client.client_rules import ClientRecord
from accord.check.client.client_under_test import ClientUnderTest
from accord.check.findings import SCHEMA, RuleId, RuleNotes
from accord.check.v2.agent_v2 import is_state, is_user_message
from accord.check.wire_rules import ConnectionRecord, check_record
from accord.schema.validation import violations
from accord.trace.message_judge_v2 import (
    KNOWN_VALUES,
    MESSAGE_KINDS,
    STOP_REASONS,
    find_method,
    is_absolute,
    terminal_problem,
    violated_rule,
)
from accord.trace.trace_format import Side
from accord.trace.trace_steps import at, listed
from accord.trace.wire_line import WireLine, pair_calls
from accord.wire.envelope import id_key

_PASSED: Final[dict[str, tuple[RuleId, ...]]] = {
    **dict.fromkeys(MESSAGE_KINDS, ("v2-update.message-id",)),
    "tool_call_update": ("v2-update.tool-call-id",),
    "tool_call_content_chunk": ("v2-update.tool-call-id",),
    "plan_update": ("v2-update.plan-id",),
    "session/request_permission": ("v2-permission.members",),
    "session/prompt=": ("v2-prompt.message-id",),
    "session/new=": ("v2-session.new",),
    "initialize=": ("v2-initialize.agent-capability-objects",),
    "initialize": ("v2-initialize.client-capability-objects",),
}
"""The rules that a valid message of a kind keeps."""


async def check_agent_v2(agent: AgentUnderTest, notes: RuleNotes) -> None:
    """Check all passive rules on a closed connection with an agent."""
    record = AgentRecord(agent)
    await check_record(
        record,
        notes,
        [check_envelopes, check_schema, _check_initialize, _check_prompts, _check_states, _check_updates],
    )


async def check_client_v2(client: ClientUnderTest, notes: RuleNotes) -> None:
    """Check all passive rules on a closed connection with a client."""
    record = ClientRecord(client)
    if at(record.initialize_result, "protocolVersion") == 1:
        return  # it goes on in version 1
    await check_record(record, notes, [check_envelopes, check_schema, _check_client_calls])


# -- both sides


def check_envelopes(record: ConnectionRecord, notes: RuleNotes) -> None:
    """Check the envelope, the ids and the methods of every message of the side under test."""
    side = record.side
    for line in record.sent:
        if line.message is None:
            if not line.skip_reason:
                notes.add_fail(f"v2-framing.{side}-only-messages", "a line is not a message", line)
            continue
        rule, valid = f"v2-framing.{side}-only-messages", line.message.get("jsonrpc") == "2.0"
        notes.judge(rule, valid, "every line is a message", 'no `jsonrpc: "2.0"`', line)
        if line.is_answer and "error" in line.message:
            code, text = at(line.message, "error", "code"), at(line.message, "error", "message")
            valid = isinstance(code, int) and not isinstance(code, bool) and isinstance(text, str) and text
            rule, failure = f"v2-framing.{side}-error-members", "an error without a code and a message"
            notes.judge(rule, bool(valid), "errors have a code and a message", failure, line)
        if line.method and line.method != "session/cancel":  # another rule is about its form
            other: Side = "client" if side == "agent" else "agent"
            known = find_method(other, line) is not None or line.method.startswith(("_", "$/"))
            rule, failure = f"v2-framing.{side}-known-methods", f"{line.method} is not in version 2"
            notes.judge(rule, known, "its methods are in the protocol", failure, line)
    _check_answers(record, notes)


def _check_answers(record: ConnectionRecord, notes: RuleNotes) -> None:
    side = record.side
    asked = {id_key(line.id) for line in record.lines if line.sender != side and line.is_request}
    batched = {id_key(one.get("id")) for line in record.lines if line.sender != side for one in line.batch}
    for line in record.sent:
        if line.is_answer and line.id is not None and id_key(line.id) not in asked | batched:
            failure = f"an answer to the id {line.id!r}, which no request has"
            notes.add_fail(f"v2-framing.{side}-returns-id", failure, line)
    for call in pair_calls(record.lines, "client" if side == "agent" else "agent"):
        answers = call.answers if call.request.id is not None else []
        both = any("result" in (one.message or {}) and "error" in (one.message or {}) for one in answers)
        if len(answers) > 1 or both:
            failure = "an answer with a result and an error" if both else f"{len(answers)} answers"
            notes.add_fail(f"v2-framing.{side}-one-answer", failure, call.request, *answers)
        elif answers:
            notes.add_pass(f"v2-framing.{side}-one-answer", "every request has one answer")


def check_schema(record: ConnectionRecord, notes: RuleNotes) -> None:
    """Check every message of the side under test against the schema."""
    other: Side = "client" if record.side == "agent" else "agent"
    for line in record.sent:
        if line.method and (entry := find_method(other, line)) is not None:
            params: Any = {} if line.params is None else line.params
            _judge_schema(record, notes, line, line.kind or line.method, entry.params, params)
    for call in pair_calls(record.lines, other):
        entry = find_method(record.side, call.request)
        for answer in call.answers:
            message = answer.message or {}
            if entry is not None and "result" in message:
                kind = f"{call.request.method}="
                _judge_schema(record, notes, answer, kind, entry.result, message["result"])


def _judge_schema(
    record: ConnectionRecord, notes: RuleNotes, line: WireLine, kind: str, cls: Any, value: Any
) -> None:
    broken: set[RuleId] = set()
    if kind == "initialize=" and at(value, "protocolVersion") != 2:
        return  # a result of another version
    for violation in violations(cls, value)[:100]:
        rule = violated_rule(record.side, kind, violation) or SCHEMA
        broken.add(rule)
        notes.add_fail(rule, f"{kind.rstrip('=')}: {violation}", line, from_schema=True)
    for rule in (SCHEMA, f"v2-framing.{record.side}-custom-members", *_PASSED.get(kind, ())):
        if rule not in broken:
            notes.add_pass(rule, "matches the schema", *(() if rule == SCHEMA else (line,)))


# -- agents


def _check_initialize(record: AgentRecord, notes: RuleNotes) -> None:
    methods = listed(record.initialize_result, "authMethods")
    if at(record.initialize_result, "protocolVersion") != 2:
        return
    if not methods:
        notes.add_not_applicable("v2-auth.method-members", "it has no auth methods")
        return
    ids = [at(one, "methodId") for one in methods]
    kinds = [at(one, "type") for one in methods]
    known = all(isinstance(one, str) and (one in ("agent", "terminal") or one[:1] == "_") for one in kinds)
    passed = len(set(map(str, ids))) == len(ids) and known
    failure = f"auth methods with the ids {ids} and the types {kinds}"
    notes.judge("v2-auth.method-members", passed, "ids are unique, types are known", failure)
    if not has_capability(record.client_capabilities, "auth.terminal"):
        rule, failure = "v2-auth.terminal-needs-capability", "a terminal login for a client without terminals"
        notes.judge(rule, "terminal" not in kinds, "no terminal login without the capability", failure)


def _check_prompts(record: AgentRecord, notes: RuleNotes) -> None:
    """Check the ids of user messages against the results of the prompts."""
    ids: dict[str, WireLine] = {}
    for call in record.client_requests:
        if call.request.method != "session/prompt" or not call.answers:
            continue
        answer, request = call.answers[0], call.request
        message_id = at(answer.message, "result", "messageId")
        later = record.lines[request.number :]
        if not isinstance(message_id, str):
            continue
        rule, failure = "v2-prompt.distinct-ids", f"two prompts got the id {message_id!r}"
        key = f"{request.session}\n{message_id}"
        notes.judge(rule, key not in ids, "prompts have different ids", failure, request, answer)
        ids[key] = answer
        end = next((line.number for line in later if _ends_work(line, request.session)), None)
        if end is None:
            continue  # the case ended before the work
        shown = next((line for line in later if is_user_message(line, message_id)), None)
        passed = shown is not None and (shown.number <= end or end < answer.number)
        rule, reason = "v2-prompt.user-message", "the user message is reported"
        failure = f"no user message with the id {message_id!r} before the end of the work"
        notes.judge(rule, passed, reason, failure, request, answer)


def _ends_work(line: WireLine, session: str) -> bool:
    return line.session == session and is_state(line, "idle") and line.update.get("stopReason") is not None


def _check_states(record: AgentRecord, notes: RuleNotes) -> None:
    """Check the order of states, and the list of background work."""
    running: dict[str, bool] = {}
    lists_background: set[str] = set()
    announced: set[tuple[str, str]] = set()
    for line in record.updates:
        session, update = line.session, line.update
        for member in ("toolCallId", "terminalId"):
            if isinstance(update.get(member), str):
                announced.add((session, update[member]))
        if line.kind != "state_update":
            continue
        state, reason = update.get("state"), update.get("stopReason")
        if state in ("running", "requires_action"):
            running[session] = True
        elif state == "idle" and (reason is not None or running.get(session)):
            was_running = running.pop(session, False)
            failure = "an idle with a stop reason without `running` before it"
            notes.judge("v2-prompt.running", was_running, "running comes before idle", failure, line)
            notes.add_pass("v2-prompt.idle", "idle comes after running", line)
            known = isinstance(reason, str) and (reason in STOP_REASONS or reason.startswith("_"))
            failure = f"the stop reason is {reason!r}"
            notes.judge("v2-prompt.stop-reason", known, "the stop reason is known", failure, line)
        _check_background(line, lists_background, announced, notes)


def _check_background(
    line: WireLine, lists_background: set[str], announced: set[tuple[str, str]], notes: RuleNotes
) -> None:
    rule, session = "v2-update.background", line.session
    if line.update.get("background") is None:
        if session in lists_background:
            notes.add_fail(rule, "a state update without the list that earlier ones have", line)
        return
    lists_background.add(session)
    unknown = [
        id
        for one in listed(line.update, "background")
        if isinstance(id := at(one, "terminalId") or at(one, "toolCallId"), str)
        and (session, id) not in announced
    ]
    notes.judge(rule, not unknown, "listed work was announced", f"{unknown} was not announced", line)


def _check_updates(record: AgentRecord, notes: RuleNotes) -> None:
    sessions = _known_sessions(record)
    titled: set[tuple[str, Any]] = set()
    for line in record.updates:
        update, kind = line.update, line.kind
        failure = f"an update of {line.session!r}, which is no session of this connection"
        notes.judge("v2-update.session", line.session in sessions, "of known sessions", failure, line)
        for member, values in KNOWN_VALUES.get(kind, {}).items():
            value = update.get(member)
            if isinstance(value, str):
                rule, failure = "v2-update.known-values", f"{member} is {value!r}"
                known = value in values or value.startswith("_")
                notes.judge(rule, known, "values are of the protocol", failure, line)
        if kind == "tool_call_update" and (key := (line.session, update.get("toolCallId"))) not in titled:
            titled.add(key)
            has_title = isinstance(update.get("title"), str) and bool(update["title"])
            failure = "a tool call begins without a title"
            notes.judge("v2-update.tool-call-title", has_title, "tool calls have titles", failure, line)
        if kind in ("terminal_update", "terminal_output_chunk"):
            problem = terminal_problem(update)
            notes.judge("v2-update.terminal", not problem, "terminals are well-formed", problem, line)
    for line in record.requests("session/request_permission"):
        ids = [at(option, "optionId") for option in listed(line.params, "options")]
        if len(set(map(str, ids))) != len(ids):
            notes.add_fail("v2-permission.members", f"options with the ids {ids}", line)
    for line in record.requests("elicitation/create"):
        offered = has_capability(record.client_capabilities, f"elicitation.{at(line.params, 'mode')}")
        rule, failure = "v2-permission.forms-need-capability", "the client does not advertise it"
        notes.judge(rule, offered, "only what the client advertises", failure, line)


def _known_sessions(record: AgentRecord) -> set[str]:
    """All sessions that were opened or named on this connection, at any time."""
    opened = {at(result, "sessionId") for _, result in record.results("session/new", "session/fork")}
    resumed = {
        call.request.session for call in record.client_requests if call.request.method == "session/resume"
    }
    return {session for session in opened | resumed if isinstance(session, str)}


# -- clients


def _check_client_calls(record: ClientRecord, notes: RuleNotes) -> None:
    """Check the first call, folders, sign-in, and the answers to permission requests."""
    if record.calls:
        first = record.calls[0]
        passed = first.method == "initialize" and at(first.params, "protocolVersion") == 2
        failure = f"the first call is {first.method} with the version {at(first.params, 'protocolVersion')!r}"
        notes.judge("v2-initialize.first", passed, "initialize comes first", failure, first)
    for line in record.calls:
        if line.method != "initialize":
            continue
        info = at(line.params, "info")
        named = all(isinstance(at(info, name), str) and at(info, name) for name in ("name", "version"))
        rule, failure = "v2-initialize.client-info", "no `info` with a name and a version"
        notes.judge(rule, named, "it has a name and a version", failure, line)
    methods = [at(one, "methodId") for one in listed(record.initialize_result, "authMethods")]
    login = next((line for line in record.calls if line.method == "auth/login"), None)
    passed = login is None or at(login.params, "methodId") in methods
    shown = [login] if login is not None else []
    failure = "auth/login with a method that was not offered"
    notes.judge("v2-auth.only-offered", passed, "only offered methods", failure, *shown)
    for line in record.calls:
        cwd = at(line.params, "cwd")
        if isinstance(cwd, str):
            rule, failure = "v2-session.absolute-folder", f"the folder {cwd!r} is relative"
            notes.judge(rule, is_absolute(cwd), "folders are absolute", failure, line)
    for call in record.agent_requests:
        for answer in call.answers if call.request.method == "session/request_permission" else ():
            outcome = at(answer.message, "result", "outcome")
            if at(outcome, "outcome") == "selected":
                offered = [at(option, "optionId") for option in listed(call.request.params, "options")]
                chosen = at(outcome, "optionId")
                rule, failure = "v2-permission.offered-option", f"the option {chosen!r} was not offered"
                notes.judge(rule, chosen in offered, "offered options", failure, call.request, answer)
            elif at(outcome, "outcome") == "cancelled":
                notes.add_pass("v2-permission.offered-option", "it selects no option", answer)
