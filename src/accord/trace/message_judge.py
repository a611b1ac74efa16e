"""Judges the messages of one connection, in order: envelope, ids, schema, and the order of a session.

`accord trace` shows what is broken. `accord check` also needs what was kept, and tests the rules that need a
reaction.
"""

import re
from typing import Any, Final, NamedTuple, cast

from accord.schema.base import Mismatch
from accord.schema.codec import NotJson, is_utf8, parse_json, read
from accord.schema.former_members import former_member
from accord.schema.initialize import AgentCapabilities, ClientCapabilities
from accord.schema.methods import notification, request
from accord.schema.validation import UNKNOWN_MEMBER, Violation, violations
from accord.trace.trace_format import Side
from accord.trace.trace_steps import at, listed
from accord.trace.wire_line import CallRecord, WireLine
from accord.wire.envelope import Message, id_key

MAX_VIOLATIONS: Final = 100
"""The number of schema violations that are judged per message."""


class Judgment(NamedTuple):
    """A rule that a message keeps or breaks. `rule` is a slug; None: only the schema says so."""

    rule: str | None
    passed: bool
    reason: str
    lines: tuple[WireLine, ...] = ()
    from_schema: bool = False
    """Whether schema validation found it."""


class _ViolationRule(NamedTuple):
    """Maps schema violations to the rule they break.

    A message kind is a kind of session update, a method, or `method=` for the result of a method.
    """

    message_kinds: tuple[str, ...]
    pattern: str
    """A regular expression for the text of the violation."""
    rule: str


_CHUNKS: Final = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_TOOL_CALLS: Final = ("tool_call", "tool_call_update")
_OPENING_METHODS: Final = ("session/new", "session/load", "session/resume", "session/fork")
_OPTION_MESSAGES: Final = (
    *(f"{method}=" for method in _OPENING_METHODS),
    "session/set_config_option=",
    "config_option_update",
)
_AGENT_EMPTY_RESULTS: Final = (
    *("authenticate=", "logout=", "session/close=", "session/delete=", "session/set_mode="),
    *("session/archive=", "session/unarchive=", "providers/set=", "providers/disable="),
)
_CLIENT_EMPTY_RESULTS: Final = ("fs/write_text_file=", "terminal/kill=", "terminal/release=")
_PERMISSION: Final = ("session/request_permission",)
_ELICITATION: Final = ("elicitation/create",)

_UNKNOWN_MEMBER_RULES: Final = (
    _ViolationRule(
        ("session_info_update",),
        r"^\$\.update\.(sessionId|cwd|additionalDirectories)\b",
        "session-info.members",
    ),
    _ViolationRule(_ELICITATION, r"^\$\.(sessionId|requestId|toolCallId)\b", "elicitation.one-scope"),
    _ViolationRule(
        _OPTION_MESSAGES,
        r"configOptions\[\d+\]\.options\[\d+\](\.(value|group|options): unknown member|: \w+ is missing)",
        "option.flat-or-grouped",
    ),
    _ViolationRule(
        ("initialize",), r"^\$\.capabilities: unknown member", "initialize.client-capabilities-member"
    ),
)
"""Rules that also say which members a message must not have."""

_VIOLATION_RULES: Final = (
    _ViolationRule(_CHUNKS, r"^\$\.update\.content|^\$\.update: content is missing", "prompt.chunk-content"),
    _ViolationRule(
        _TOOL_CALLS, r"^\$\.update\.(toolCallId|title)\b|: (toolCallId|title) is missing", "tool-call.members"
    ),
    _ViolationRule(_TOOL_CALLS, r"^\$\.update\.kind\b", "tool-call.kind"),
    _ViolationRule(_TOOL_CALLS, r"^\$\.update\.status\b", "tool-call.status"),
    _ViolationRule(_TOOL_CALLS, r"^\$\.update\.content\b", "tool-call.content"),
    _ViolationRule(("plan", "plan_update"), r"entries", "plan.entry-members"),
    _ViolationRule(("available_commands_update",), r"availableCommands", "command.members"),
    _ViolationRule(("usage_update",), r"^\$\.update\.cost", "usage.cost"),
    _ViolationRule(("usage_update",), r"", "usage.members"),
    _ViolationRule(("notice",), r"", "notice.members"),
    _ViolationRule(_PERMISSION, r"^\$\.toolCall\.kind\b", "tool-call.kind"),
    _ViolationRule(_PERMISSION, r"^\$\.toolCall\.status\b", "tool-call.status"),
    _ViolationRule(_PERMISSION, r"^\$\.toolCall\.content\b", "tool-call.content"),
    _ViolationRule(_PERMISSION, r"^\$\.options\[", "permission.option-members"),
    _ViolationRule(_PERMISSION, r"", "permission.request-members"),
    _ViolationRule(_ELICITATION, r"requestedSchema", "elicitation.flat-schema"),
    _ViolationRule(_ELICITATION, r"^\$\.mode|^\$\.message|(mode|message) is missing", "elicitation.members"),
    _ViolationRule(_ELICITATION, r"^\$: .*(sessionId|requestId)", "elicitation.one-scope"),
    _ViolationRule(("initialize=",), r"authMethods", "auth.method-ids"),
    _ViolationRule(("session/prompt=",), r"^\$\.usage", "usage.prompt-result"),
    _ViolationRule(("session/prompt=",), r"", "prompt.stop-reason"),
    _ViolationRule(("session/list=",), r"^\$\.sessions\[", "session.list-entry-members"),
    _ViolationRule(("session/list=",), r"sessions", "session.list-first-page"),
    _ViolationRule(("session/load=",), r"^\$: expected object", "session.load-result-object"),
    _ViolationRule(_AGENT_EMPTY_RESULTS, r"^\$: expected object", "framing.agent-empty-results"),
    _ViolationRule(
        ("session/set_config_option=",),
        r"configOptions is missing|^\$: expected object",
        "option.set-returns-all",
    ),
    _ViolationRule(_OPTION_MESSAGES, r"currentValue", "option.current-value"),
    _ViolationRule(_OPTION_MESSAGES, r"configOptions\[\d+\]\.options", "option.flat-or-grouped"),
    _ViolationRule(("auth/status=", "auth/status_update"), r"", "auth-status.members"),
    _ViolationRule(("initialize",), r"protocolVersion", "initialize.version-sent"),
    _ViolationRule(("initialize",), r"clientInfo", "initialize.client-info"),
    _ViolationRule(
        _OPENING_METHODS, r"mcpServers\[\d+\].*headers|mcpServers\[\d+\].*url", "session.http-mcp-members"
    ),
    _ViolationRule(_OPENING_METHODS, r"mcpServers\[", "session.stdio-mcp-members"),
    _ViolationRule(("session/new",), r"cwd|mcpServers", "session.new-members"),
    _ViolationRule(("session/set_config_option",), r"", "option.boolean-value"),
    _ViolationRule(("session/request_permission=",), r"", "permission.offered-option"),
    _ViolationRule(_CLIENT_EMPTY_RESULTS, r"^\$: expected object", "framing.client-empty-results"),
    _ViolationRule(("fs/read_text_file=",), r"", "file.read-result"),
    _ViolationRule(("terminal/output=",), r"", "terminal.output-members"),
    _ViolationRule(("terminal/wait_for_exit=",), r"", "terminal.exit-status"),
    _ViolationRule(("elicitation/create=",), r"", "elicitation.action"),
    _ViolationRule(("mcp/message=",), r"", "mcp.result-or-error"),
)

_PASSED_BY_MESSAGE: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(_CHUNKS, ("prompt.chunk-content",)),
    **dict.fromkeys(_AGENT_EMPTY_RESULTS[:5], ("framing.agent-empty-results",)),
    **dict.fromkeys(_CLIENT_EMPTY_RESULTS, ("framing.client-empty-results",)),
    "tool_call": ("tool-call.members",),
    "plan": ("plan.entry-members",),
    "available_commands_update": ("command.members",),
    "notice": ("notice.members",),
    "usage_update": ("usage.members",),
    "session/request_permission": ("permission.request-members", "permission.option-members"),
    "elicitation/create": ("elicitation.members",),
    "session/prompt=": ("prompt.stop-reason",),
    "session/load=": ("session.load-result-object",),
    "auth/status=": ("auth-status.members",),
    "initialize": ("initialize.version-sent",),
    "session/new": ("session.new-members",),
    "fs/read_text_file=": ("file.read-result",),
    "elicitation/create=": ("elicitation.action",),
    "session/set_config_option": ("option.boolean-value",),
}
"""The rules that a valid message of this kind passes."""
_TOOL_CALL_MEMBERS: Final = {
    "kind": "tool-call.kind",
    "status": "tool-call.status",
    "content": "tool-call.content",
}
_PASSED_BY_MEMBER: Final[dict[str, dict[str, str]]] = {
    "tool_call": _TOOL_CALL_MEMBERS,
    "tool_call_update": _TOOL_CALL_MEMBERS,
    "usage_update": {"cost": "usage.cost"},
    "elicitation/create": {"requestedSchema": "elicitation.flat-schema"},
    "session/prompt=": {"usage": "usage.prompt-result"},
}
"""The rules that a valid member passes."""
_PASSED_BY_ABSENCE: Final = {
    "session_info_update": ("session-info.members", "it has only changed members"),
    "initialize": ("initialize.client-capabilities-member", "capabilities are where they belong"),
}
"""The rules that a message without certain members passes, with the reasons."""


class JudgedToolCall:
    """A tool call: the line that announced it, its turn, and its status."""

    def __init__(self, line: WireLine, prompt: WireLine | None) -> None:
        self.line = line
        self.prompt = prompt
        """The prompt of its turn; None for a replayed call or one outside of a turn."""
        self.was_in_progress = False
        self.status: Any = None


class _Turn:
    def __init__(self, prompt: WireLine) -> None:
        self.prompt = prompt
        self.cancelled = False


class MessageJudge:
    """Judges the lines of one connection, in order.

    `sides` are the sides whose messages are judged; the others only give the context. `passes`: also return
    the rules that are kept.
    """

    def __init__(self, *sides: Side, passes: bool = False) -> None:
        self.tool_calls: dict[tuple[str, str], JudgedToolCall] = {}
        """The tool calls by session and id."""
        self._sides = sides
        self._passes = passes
        self._judgments: list[Judgment] = []
        self._line: WireLine | None = None
        self._calls: dict[Side, dict[str, CallRecord]] = {"client": {}, "agent": {}}
        self._batch_ids: dict[Side, set[str]] = {"client": set(), "agent": set()}
        self._client_called = False
        self._capabilities: tuple[Any, Any] | None = None
        self._turns: dict[str, list[_Turn]] = {}
        self._loading_sessions: set[str] = set()

    def judge(self, line: WireLine) -> list[Judgment]:
        """Judge the next line."""
        self._judgments, self._line = [], line
        if line.message is not None:
            self._judge_message(line, line.message)
        elif not line.skip_reason and line.data.strip():
            self._batch_ids[line.sender].update(id_key(item["id"]) for item in line.batch if "id" in item)
            self._judge_other_line(line)
        return self._judgments

    def _note(
        self, rule: str | None, passed: bool, pass_reason: str, fail_reason: str, *lines: WireLine
    ) -> None:
        if passed:
            self._pass(rule, pass_reason, *lines)
        else:
            self._fail(rule, fail_reason, *lines)

    def _pass(self, rule: str | None, reason: str, *lines: WireLine) -> None:
        if self._passes and self._judged:
            self._judgments.append(Judgment(rule, True, reason, lines))

    def _fail(self, rule: str | None, reason: str, *lines: WireLine, from_schema: bool = False) -> None:
        if self._judged:
            self._judgments.append(Judgment(rule, False, reason, lines, from_schema))

    @property
    def _judged(self) -> bool:
        return self._line is not None and self._line.sender in self._sides

    # -- envelope and ids

    def _judge_other_line(self, line: WireLine) -> None:
        """Judge a line that is not a JSON object."""
        side = line.sender
        if not is_utf8(line.data):
            self._fail(f"framing.{side}-utf8", "a line is not UTF-8", line)
        elif self._answers_a_batch(line):
            self._pass(f"framing.{side}-no-batch", "an array only answers a batch", line)
        elif line.data.lstrip()[:1] == b"[" and _is_json(line.data):
            self._fail(f"framing.{side}-no-batch", "an array of messages", line)
        else:
            self._fail(f"framing.{side}-only-messages", "a line is not a message", line)

    def _answers_a_batch(self, line: WireLine) -> bool:
        """Whether the line is an array of answers to requests of a batch, as JSON-RPC wants them."""
        batch_ids = self._batch_ids[_other(line.sender)]
        return bool(batch_ids and line.batch) and all(
            "method" not in item
            and ("result" in item) != ("error" in item)
            and (id_key(item.get("id")) in batch_ids or ("error" in item and item.get("id") is None))
            for item in line.batch
        )

    def _judge_message(self, line: WireLine, message: Message) -> None:
        side = line.sender
        for rule in ("only-messages", "no-batch"):
            self._pass(f"framing.{side}-{rule}", "in every line")
        if message.get("jsonrpc") == "2.0":
            self._pass(f"framing.{side}-jsonrpc-member", "in every line")
        else:
            self._fail(f"framing.{side}-jsonrpc-member", 'no `jsonrpc: "2.0"`', line)
        if line.method:
            self._judge_call(line)
        elif line.is_answer:
            self._judge_answer(line, message)
        elif "method" not in message:
            self._fail(None, "neither a call nor an answer", line)
        if "error" in message and "method" not in message:
            code, text = at(message, "error", "code"), at(message, "error", "message")
            valid = isinstance(code, int) and not isinstance(code, bool) and isinstance(text, str)
            failure = "an error without a code and a message"
            self._note(
                f"framing.{side}-error-members", valid, "errors have a code and a message", failure, line
            )

    def _judge_call(self, line: WireLine) -> None:
        side, method, receiver = line.sender, line.method, _other(line.sender)
        if line.is_request:
            self._calls[side][id_key(line.id)] = CallRecord(line, [])
        self._judge_order(line)
        entry = (request if line.is_request else notification)(receiver, method)
        if method == "session/cancel":
            is_notification = not line.is_request
            failure = "session/cancel is a request"
            self._note("cancel.notification", is_notification, "session/cancel has no id", failure, line)
        else:
            known = entry is not None or method.startswith(("_", "$/"))
            reason = "its methods are in the protocol, or start with `_`"
            failure = f"{method} is not a {'request' if line.is_request else 'notification'} of the protocol"
            self._note(f"extension.{side}-known-methods", known, reason, failure, line)
        if entry is None:
            return
        params: Any = {} if line.params is None else line.params
        self._judge_schema(line, line.kind or method, entry.params, params)
        if self._capabilities is not None and not entry.offered(*self._capabilities):
            failure = f"the {receiver} does not offer {' or '.join(entry.gates)}"
            self._fail(f"initialize.missing-{receiver}-capability", failure, line)

    def _judge_answer(self, line: WireLine, message: Message) -> None:
        side, asker, key = line.sender, _other(line.sender), id_key(line.id)
        call = self._calls[asker].get(key)
        if call is None:
            if line.id is not None and key not in self._batch_ids[asker]:
                failure = f"an answer to the id {line.id!r}, which no request has"
                self._fail(f"framing.{side}-returns-id", failure, line)
            elif line.id is None and side == "client" and at(message, "error", "code") not in _UNREADABLE:
                self._fail("framing.client-silent-on-notification", "an answer without an id", line)
            return
        call.answers.append(line)
        if "result" in message and "error" in message:
            self._fail(f"framing.{side}-one-answer", "an answer with a result and an error", line)
        if len(call.answers) > 1:
            failure = f"{len(call.answers)} answers to one request"
            self._fail(f"framing.{side}-one-answer", failure, call.request, *call.answers)
        else:
            self._pass(f"framing.{side}-one-answer", "every request has one answer")
            entry = request(side, call.request.method)
            if entry is not None and "result" in message:
                self._judge_schema(line, f"{call.request.method}=", entry.result, message["result"])
        self._judge_outcome(call.request, line, message)
        if not self._passes:  # a recording may be long: keep only that the id was answered
            self._calls[asker][key] = CallRecord(_ANSWERED, [_ANSWERED])

    # -- schema

    def _judge_schema(self, line: WireLine, message_kind: str, cls: Any, value: Any) -> None:
        if not self._judged:
            return
        found = violations(cls, value)[:MAX_VIOLATIONS]
        no_custom_members = f"extension.{line.sender}-no-custom-members"
        broken_rules: set[str | None] = set()
        for violation in found:
            if former := former_member(cls, value, violation):
                reason = f"{violation.path} was official in releases {former.releases} of the TypeScript SDK"
                self._pass(no_custom_members, reason, line)
                continue
            rule = _violated_rule(line, message_kind, violation)
            broken_rules.add(rule)
            self._fail(rule, f"{message_kind.rstrip('=')}: {violation}", line, from_schema=True)
        if not self._passes:
            return
        if line.method == "session/update" and not any(_is_update_envelope(line, one) for one in found):
            self._pass("prompt.update-members", "updates have a session and a kind", line)
        if no_custom_members not in broken_rules:
            self._pass(no_custom_members, "no message has custom members")
        if None not in broken_rules:
            self._pass(None, "every message matches")
        members = line.update or (cast(Message, value) if isinstance(value, dict) else {})
        by_member = _PASSED_BY_MEMBER.get(message_kind, {})
        kept_rules = [
            *_PASSED_BY_MESSAGE.get(message_kind, ()),
            *(rule for member, rule in by_member.items() if member in members),
        ]
        for rule in kept_rules:
            if rule not in broken_rules:
                self._pass(rule, "matches the schema", line)
        rule, reason = _PASSED_BY_ABSENCE.get(message_kind, (None, ""))
        if rule is not None and rule not in broken_rules:
            self._pass(rule, reason, line)

    # -- the order of a session

    def _judge_order(self, line: WireLine) -> None:
        method, session = line.method, line.session
        if line.sender == "agent":
            if line.kind in _TOOL_CALLS:
                self._judge_tool_call(line)
            elif method == "session/request_permission":
                self._judge_permission_request(line)
            return
        if not self._client_called:
            self._client_called = True
            failure = f"the first call is {method}"
            self._note(
                "initialize.first", method == "initialize", "initialize is the first call", failure, line
            )
        turns = self._turns.setdefault(session, [])
        if method == "session/prompt":
            if turns:
                self._fail("cancel.waits-before-next-prompt", "a prompt while a turn is running", line)
            turns.append(_Turn(line))
        elif method == "session/cancel":
            for turn in turns:
                turn.cancelled = True
        elif method == "session/load" and line.is_request:
            self._loading_sessions.add(session)

    def _judge_tool_call(self, line: WireLine) -> None:
        id = line.update.get("toolCallId")
        if not isinstance(id, str):
            return
        key = (line.session, id)
        if line.session in self._loading_sessions:
            self.tool_calls.setdefault(key, JudgedToolCall(line, None))
            return
        call = self.tool_calls.get(key)
        turns = self._turns.get(line.session)
        prompt = turns[0].prompt if turns else None
        if line.kind == "tool_call":
            if call is not None and call.prompt is not None:
                turn_name = "another turn" if call.prompt is not prompt else "the same turn"
                failure = f"the tool call id {id} was used before, in {turn_name}"
                self._fail("tool-call.unique-id", failure, call.line, line)
            else:
                self._pass("tool-call.unique-id", "tool call ids are not used again")
            call = self.tool_calls[key] = JudgedToolCall(line, prompt)
        elif call is None:
            self._fail("tool-call.announced", f"an update of {id}, which was never announced", line)
            call = self.tool_calls[key] = JudgedToolCall(line, prompt)
        else:
            self._pass("tool-call.announced", "updates are for announced tool calls")
        status = line.update.get("status")
        if status is not None:
            call.status = status
            call.was_in_progress = call.was_in_progress or status == "in_progress"

    def _judge_permission_request(self, line: WireLine) -> None:
        id = at(line.params, "toolCall", "toolCallId")
        if not isinstance(id, str) or (line.session, id) in self.tool_calls:
            return
        # A permission request with a title may itself announce the tool call.
        if isinstance(at(line.params, "toolCall", "title"), str):
            self.tool_calls[line.session, id] = JudgedToolCall(line, None)
        else:
            self._fail("tool-call.announced", f"permission for {id}, which was never announced", line)

    def _judge_outcome(self, asked: WireLine, line: WireLine, message: Message) -> None:
        """Judge what an answer says, and end what its request began."""
        match asked.method:
            case "initialize":
                client = _read_capabilities(ClientCapabilities, asked.params, "clientCapabilities")
                agent = _read_capabilities(AgentCapabilities, message.get("result"), "agentCapabilities")
                self._capabilities = (agent, client)
            case "session/load":
                self._loading_sessions.discard(asked.session)
            case "session/prompt":
                self._end_turn(asked, line, message)
            case "session/request_permission":
                outcome = at(message, "result", "outcome")
                if at(outcome, "outcome") == "selected":
                    chosen = at(outcome, "optionId")
                    offered = [at(option, "optionId") for option in listed(asked.params, "options")]
                    failure = f"the option {chosen!r} was not offered"
                    self._note(
                        "permission.offered-option",
                        chosen in offered,
                        "the option was offered",
                        failure,
                        asked,
                        line,
                    )
            case _:
                pass

    def _end_turn(self, prompt: WireLine, line: WireLine, message: Message) -> None:
        turns = self._turns.get(prompt.session, [])
        turn = next((turn for turn in turns if turn.prompt is prompt), None)
        if turn is None:
            return
        turns.remove(turn)
        if not turn.cancelled:
            return
        if "error" in message:
            self._fail("cancel.no-error", "a canceled turn ends with an error", line)
        elif (reason := at(message, "result", "stopReason")) != "cancelled":
            self._fail("cancel.stop-reason", f"a canceled turn ends with {reason!r}", line)


_UNREADABLE: Final = (-32700, -32600)
"""The codes of JSON-RPC for a message that cannot be read; their answer has no id."""


_ANSWERED: Final = WireLine("", 0, "client", b"", None)
"""Stands for the lines of an answered request."""


def _other(side: Side) -> Side:
    return "client" if side == "agent" else "agent"


def _is_json(data: bytes) -> bool:
    try:
        parse_json(data)
    except NotJson:
        return False
    return True


def _is_update_envelope(line: WireLine, violation: Violation) -> bool:
    return violation.path in ("$", "$.sessionId", "$.update", "$.update.sessionUpdate") and not line.kind


def _violated_rule(line: WireLine, message_kind: str, violation: Violation) -> str | None:
    """The most specific rule that a violation breaks; None: only the schema."""
    text = str(violation)
    rule = _find_violation_rule(_UNKNOWN_MEMBER_RULES, message_kind, text)
    if rule is not None:
        return rule
    if violation.reason == UNKNOWN_MEMBER:
        return f"extension.{line.sender}-no-custom-members"
    if line.method == "session/update" and (
        not line.kind or violation.path in ("$", "$.sessionId") or "sessionUpdate" in violation.path
    ):
        return "prompt.update-members"
    return _find_violation_rule(_VIOLATION_RULES, message_kind, text)


def _find_violation_rule(rules: tuple[_ViolationRule, ...], message_kind: str, text: str) -> str | None:
    for entry in rules:
        if message_kind in entry.message_kinds and re.search(entry.pattern, text):
            return entry.rule
    return None


def _read_capabilities(cls: type[Any], members: Any, name: str) -> Any:
    try:
        return read(cls, at(members, name))
    except Mismatch:
        return None
