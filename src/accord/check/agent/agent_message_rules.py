"""The record of a connection with an agent, and the rules for its envelopes and the schema."""

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from accord.check import wire_rules
from accord.check.checked_connection import WireLine
from accord.check.findings import SCHEMA, RuleId, RuleNotes
from accord.check.wire_rules import (
    MAX_VIOLATIONS,
    ConnectionRecord,
    SentMessage,
    ViolationRule,
    find_violated_rule,
    sent_messages,
)
from accord.schema.former_members import former_member
from accord.schema.validation import UNKNOWN_MEMBER, Violation, violations
from accord.wire.envelope import Message

if TYPE_CHECKING:
    from accord.check.agent.agent_under_test import AgentUnderTest


class TurnSpan(NamedTuple):
    """A turn as line numbers: of its prompt and of its answer."""

    session: str
    begin: int
    end: int
    answer: WireLine | None
    cancelled: bool


class AgentRecord(ConnectionRecord):
    """The record of one connection with an agent."""

    def __init__(self, agent: "AgentUnderTest") -> None:
        super().__init__(agent, agent.client_capabilities, agent.initialize_result)
        self.initialized: bool = bool(agent.initialize_result)
        self.lines_at_close: int = len(agent.lines) if agent.lines_at_close is None else agent.lines_at_close
        """Later lines were sent after the checker closed the connection."""

    @cached_property
    def updates(self) -> list[WireLine]:
        """The session updates."""
        return [line for line in self.sent if line.update]

    def requests(self, *methods: str) -> list[WireLine]:
        """The agent's requests of these methods."""
        return [call.request for call in self.agent_requests if call.request.method in methods]

    @property
    def no_client_capabilities(self) -> bool:
        """Whether the client sent no capabilities."""
        return not isinstance(self.client_capabilities, dict)

    @cached_property
    def turns(self) -> list[TurnSpan]:
        """The turns, in order."""
        found: list[TurnSpan] = []
        for call in self.client_requests:
            request = call.request
            if request.method != "session/prompt":
                continue
            answer = call.answers[0] if call.answers else None
            if answer is not None and answer.number > self.lines_at_close:
                answer = None
            end = answer.number if answer else len(self.lines) + 1
            cancelled = any(
                line.sender == "client"
                and line.method == "session/cancel"
                and line.session == request.session
                for line in self.lines[request.number : end - 1]
            )
            found.append(TurnSpan(request.session, request.number, end, answer, cancelled))
        return found

    def turn_at(self, line: WireLine) -> TurnSpan | None:
        """The turn during which a line of its session was sent."""
        return next(
            (
                turn
                for turn in self.turns
                if turn.session == line.session and turn.begin < line.number < turn.end
            ),
            None,
        )

    @cached_property
    def _replays(self) -> list[tuple[str, int, int]]:
        return [
            (
                call.request.session,
                call.request.number,
                call.answers[0].number if call.answers else len(self.lines) + 1,
            )
            for call in self.client_requests
            if call.request.method == "session/load"
        ]

    def is_replay(self, line: WireLine) -> bool:
        """Whether the line belongs to the replay of a loaded session."""
        return any(
            session == line.session and begin < line.number < end for session, begin, end in self._replays
        )


def check_messages(record: AgentRecord, notes: RuleNotes) -> None:
    """Check the envelopes, multi-line text and non-ASCII text."""
    wire_rules.check_envelopes(record, notes, wire_rules.AGENT_ENVELOPE_RULES)
    messages = [line for line in record.sent if line.message is not None]
    multi_line = next((line for line in messages if b"\\n" in line.data), None)
    if multi_line is not None:
        notes.add_pass(3, "multi-line text was sent in one line", [multi_line.evidence])
    non_ascii = next((line for line in messages if not line.data.isascii() or b"\\u" in line.data), None)
    if non_ascii is not None:
        notes.add_pass(5, "non-ASCII text was sent as UTF-8 or escaped", [non_ascii.evidence])


_CHUNKS: Final = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_TOOL_CALLS: Final = ("tool_call", "tool_call_update")


_OPTION_MESSAGES: Final = (
    *("session/new=", "session/load=", "session/resume=", "session/fork=", "session/set_config_option="),
    "config_option_update",
)
VIOLATION_RULES: Final = (
    ViolationRule(_CHUNKS, r"^\$\.update\.content|^\$\.update: content is missing", 146),
    ViolationRule(_TOOL_CALLS, r"^\$\.update\.(toolCallId|title)\b|: (toolCallId|title) is missing", 173),
    ViolationRule(_TOOL_CALLS, r"^\$\.update\.kind\b", 175),
    ViolationRule(_TOOL_CALLS, r"^\$\.update\.status\b", 176),
    ViolationRule(_TOOL_CALLS, r"^\$\.update\.content\b", 177),
    ViolationRule(("plan", "plan_update"), r"entries", 205),
    ViolationRule(("available_commands_update",), r"availableCommands", 227),
    ViolationRule(("usage_update",), r"^\$\.update\.cost", 320),
    ViolationRule(("usage_update",), r"", 233),
    ViolationRule(("notice",), r"", 287),
    ViolationRule(("session/request_permission",), r"^\$\.toolCall\.kind\b", 175),
    ViolationRule(("session/request_permission",), r"^\$\.toolCall\.status\b", 176),
    ViolationRule(("session/request_permission",), r"^\$\.toolCall\.content\b", 177),
    ViolationRule(("session/request_permission",), r"^\$\.options\[", 194),
    ViolationRule(("session/request_permission",), r"", 193),
    ViolationRule(("elicitation/create",), r"requestedSchema", 264),
    ViolationRule(("elicitation/create",), r"^\$\.mode|^\$\.message|(mode|message) is missing", 262),
    ViolationRule(("elicitation/create",), r"^\$: .*(sessionId|requestId)", 263),
    ViolationRule(("initialize=",), r"authMethods", 76),
    ViolationRule(("session/prompt=",), r"^\$\.usage", 310),
    ViolationRule(("session/prompt=",), r"", 142),
    ViolationRule(("session/list=",), r"^\$\.sessions\[", 120),
    ViolationRule(("session/list=",), r"sessions", 117),
    ViolationRule(("session/load=",), r"^\$: expected object", 106),
    ViolationRule(
        (
            *("authenticate=", "logout=", "session/close=", "session/delete=", "session/set_mode="),
            *("session/archive=", "session/unarchive=", "providers/set=", "providers/disable="),
        ),
        r"^\$: expected object",
        34,
    ),
    ViolationRule(("session/set_config_option=",), r"configOptions is missing|^\$: expected object", 215),
    ViolationRule(_OPTION_MESSAGES, r"currentValue", 212),
    ViolationRule(_OPTION_MESSAGES, r"configOptions\[\d+\]\.options", 214),
    ViolationRule(("auth/status=", "auth/status_update"), r"", 359),
)
_PASSED_BY_MESSAGE: Final[dict[str, tuple[RuleId, ...]]] = {
    **dict.fromkeys(_CHUNKS, (146,)),
    "tool_call": (173,),
    "plan": (205,),
    "available_commands_update": (227,),
    "notice": (287,),
    "usage_update": (233,),
    "session/request_permission": (193, 194),
    "elicitation/create": (262,),
    "session/prompt=": (142,),
    "session/load=": (106,),
    "auth/status=": (359,),
    "authenticate=": (34,),
    "logout=": (34,),
    "session/close=": (34,),
    "session/delete=": (34,),
    "session/set_mode=": (34,),
}
"""The rules that a valid message of this kind passes."""
_PASSED_BY_MEMBER: Final[dict[str, dict[str, RuleId]]] = {
    "tool_call": {"kind": 175, "status": 176, "content": 177},
    "tool_call_update": {"kind": 175, "status": 176, "content": 177},
    "usage_update": {"cost": 320},
    "elicitation/create": {"requestedSchema": 264},
    "session/prompt=": {"usage": 310},
}
"""The rules that a valid member passes."""
_MIXED_OPTIONS: Final = re.compile(
    r"configOptions\[\d+\]\.options\[\d+\](\.(value|group|options): unknown member|: \w+ is missing)"
)
_SCOPES: Final = re.compile(r"^\$\.(sessionId|requestId|toolCallId)\b")
_INFO_MEMBERS: Final = re.compile(r"^\$\.update\.(sessionId|cwd|additionalDirectories)\b")


def check_schema(record: AgentRecord, notes: RuleNotes) -> None:
    """Validate every message of the agent against the schema."""
    for message in sent_messages(record):
        _judge_message(message, notes)


def _judge_message(message: SentMessage, notes: RuleNotes) -> None:
    line, message_kind = message.line, message.message_kind
    found = violations(message.type, message.value)[:MAX_VIOLATIONS]
    broken_rules: set[RuleId] = set()
    for violation in found:
        if former := former_member(message.type, message.value, violation):
            reason = f"{violation.path} was official in releases {former.releases} of the TypeScript SDK"
            notes.add_pass(42, reason, [line.evidence])
            continue
        rule = _broken_rule(line, message_kind, violation)
        broken_rules.add(rule)
        notes.add_fail(rule, f"{message_kind.rstrip('=')}: {violation}", [line.evidence], from_schema=True)
    if line.method == "session/update":
        _check_update_envelope(line, found, notes)
    if 42 not in broken_rules:
        notes.add_pass(42, "no message has custom members")
    if SCHEMA not in broken_rules:
        notes.add_pass(SCHEMA, "every message matches")
    value: Any = message.value
    members = line.update or (cast(Message, value) if isinstance(value, dict) else {})
    tested_rules: list[RuleId] = [
        *_PASSED_BY_MESSAGE.get(message_kind, ()),
        *(rule for member, rule in _PASSED_BY_MEMBER.get(message_kind, {}).items() if member in members),
    ]
    for rule in tested_rules:
        if rule not in broken_rules:
            notes.add_pass(rule, "matches the schema", [line.evidence])
    if message_kind == "session_info_update" and 232 not in broken_rules:
        notes.add_pass(232, "it has only changed members", [line.evidence])


def _check_update_envelope(line: WireLine, found: list[Violation], notes: RuleNotes) -> None:
    if not any(_is_envelope_violation(line, violation) for violation in found):
        notes.add_pass(145, "updates have a session and a kind", [line.evidence])


def _is_envelope_violation(line: WireLine, violation: Violation) -> bool:
    return violation.path in ("$", "$.sessionId", "$.update", "$.update.sessionUpdate") and not line.kind


def _broken_rule(line: WireLine, message_kind: str, violation: Violation) -> RuleId:
    """The most specific rule that a violation breaks."""
    text = str(violation)
    if message_kind == "session_info_update" and _INFO_MEMBERS.match(text):
        return 232
    if message_kind == "elicitation/create" and _SCOPES.match(text):
        return 263
    if message_kind in _OPTION_MESSAGES and _MIXED_OPTIONS.search(text):
        return 214
    if violation.reason == UNKNOWN_MEMBER:
        return 42
    if line.method == "session/update" and (
        not line.kind or violation.path in ("$", "$.sessionId") or "sessionUpdate" in violation.path
    ):
        return 145
    return find_violated_rule(VIOLATION_RULES, message_kind, text)
