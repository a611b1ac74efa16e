"""Passive rules for every message of an agent: envelope and schema; and the record that rules query."""

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from accord.check import wire_rules
from accord.check.checked_connection import Message, WireLine
from accord.check.findings import SCHEMA, Rule, RuleNotes
from accord.check.wire_rules import MAX_VIOLATIONS, ConnectionRecord, RuleLocation, SentMessage, sent_messages
from accord.schema.validation import Violation, violations

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
        self.has_begun: bool = bool(agent.initialize_result)
        self.lines_at_close: int = len(agent.lines) if agent.lines_at_close is None else agent.lines_at_close
        """Later lines were sent after the checker closed the connection."""

    @cached_property
    def updates(self) -> list[WireLine]:
        """The session updates."""
        return [line for line in self.sent if line.update]

    def requests(self, *methods: str) -> list[WireLine]:
        """The agent's requests of these methods."""
        return [one.request for one in self.agent_requests if one.request.method in methods]

    @property
    def nothing_offered(self) -> bool:
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
                one.request.session,
                one.request.number,
                one.answers[0].number if one.answers else len(self.lines) + 1,
            )
            for one in self.client_requests
            if one.request.method == "session/load"
        ]

    def is_replay(self, line: WireLine) -> bool:
        """Whether the line belongs to the replay of a loaded session."""
        return any(
            session == line.session and begin < line.number < end for session, begin, end in self._replays
        )


def check_messages(record: AgentRecord, notes: RuleNotes) -> None:
    """Check the envelopes, multi-line text and non-ASCII text."""
    wire_rules.check_envelopes(record, notes, wire_rules.AGENT_ENVELOPE_RULES)
    sound = [line for line in record.sent if line.message is not None]
    multi_line = next((line for line in sound if b"\\n" in line.data), None)
    if multi_line is not None:
        notes.add_pass(3, "multi-line text was sent in one line", [multi_line.evidence])
    non_ascii = next((line for line in sound if not line.data.isascii() or b"\\u" in line.data), None)
    if non_ascii is not None:
        notes.add_pass(5, "non-ASCII text was sent as UTF-8 or escaped", [non_ascii.evidence])


_CHUNKS: Final = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_CALLS: Final = ("tool_call", "tool_call_update")


_SETTINGS: Final = (
    *("session/new=", "session/load=", "session/resume=", "session/fork=", "session/set_config_option="),
    "config_option_update",
)
RULE_LOCATIONS: Final = (
    RuleLocation(_CHUNKS, r"^\$\.update\.content|^\$\.update: content is missing", 146),
    RuleLocation(_CALLS, r"^\$\.update\.(toolCallId|title)\b|: (toolCallId|title) is missing", 173),
    RuleLocation(_CALLS, r"^\$\.update\.kind\b", 175),
    RuleLocation(_CALLS, r"^\$\.update\.status\b", 176),
    RuleLocation(_CALLS, r"^\$\.update\.content\b", 177),
    RuleLocation(("plan", "plan_update"), r"entries", 205),
    RuleLocation(("available_commands_update",), r"availableCommands", 227),
    RuleLocation(("usage_update",), r"^\$\.update\.cost", 320),
    RuleLocation(("usage_update",), r"", 233),
    RuleLocation(("notice",), r"", 287),
    RuleLocation(("session/request_permission",), r"^\$\.toolCall\.kind\b", 175),
    RuleLocation(("session/request_permission",), r"^\$\.toolCall\.status\b", 176),
    RuleLocation(("session/request_permission",), r"^\$\.toolCall\.content\b", 177),
    RuleLocation(("session/request_permission",), r"^\$\.options\[", 194),
    RuleLocation(("session/request_permission",), r"", 193),
    RuleLocation(("elicitation/create",), r"requestedSchema", 264),
    RuleLocation(("elicitation/create",), r"^\$\.mode|^\$\.message|(mode|message) is missing", 262),
    RuleLocation(("elicitation/create",), r"^\$: .*(sessionId|requestId)", 263),
    RuleLocation(("initialize=",), r"authMethods", 76),
    RuleLocation(("session/prompt=",), r"^\$\.usage", 310),
    RuleLocation(("session/prompt=",), r"", 142),
    RuleLocation(("session/list=",), r"^\$\.sessions\[", 120),
    RuleLocation(("session/list=",), r"sessions", 117),
    RuleLocation(("session/load=",), r"^\$: expected object", 106),
    RuleLocation(
        (
            *("authenticate=", "logout=", "session/close=", "session/delete=", "session/set_mode="),
            *("session/archive=", "session/unarchive=", "providers/set=", "providers/disable="),
        ),
        r"^\$: expected object",
        34,
    ),
    RuleLocation(("session/set_config_option=",), r"configOptions is missing|^\$: expected object", 215),
    RuleLocation(_SETTINGS, r"currentValue", 212),
    RuleLocation(_SETTINGS, r"configOptions\[\d+\]\.options", 214),
    RuleLocation(("auth/status=", "auth/status_update"), r"", 359),
)
_PASSED_BY_MESSAGE: Final[dict[str, tuple[Rule, ...]]] = {
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
_PASSED_BY_MEMBER: Final[dict[str, dict[str, Rule]]] = {
    "tool_call": {"kind": 175, "status": 176, "content": 177},
    "tool_call_update": {"kind": 175, "status": 176, "content": 177},
    "usage_update": {"cost": 320},
    "elicitation/create": {"requestedSchema": 264},
    "session/prompt=": {"usage": 310},
}
"""The rules that a valid member passes."""
_MIXED: Final = re.compile(
    r"configOptions\[\d+\]\.options\[\d+\](\.(value|group|options): unknown member|: \w+ is missing)"
)
_SCOPES: Final = re.compile(r"^\$\.(sessionId|requestId|toolCallId)\b")
_INFO_MEMBERS: Final = re.compile(r"^\$\.update\.(sessionId|cwd|additionalDirectories)\b")


def check_schema(record: AgentRecord, notes: RuleNotes) -> None:
    """Validate every message of the agent against the schema."""
    for one in sent_messages(record):
        _judge(one, notes)


def _judge(one: SentMessage, notes: RuleNotes) -> None:
    line, where = one.line, one.where
    found = violations(one.type, one.value)[:MAX_VIOLATIONS]
    violated: set[Rule] = set()
    for violation in found:
        rule = _rule(line, where, violation)
        violated.add(rule)
        notes.add_fail(rule, f"{where.rstrip('=')}: {violation}", [line.evidence], from_schema=True)
    if line.method == "session/update":
        _check_update_envelope(line, found, notes)
    if 42 not in violated:
        notes.add_pass(42, "no message has unknown members")
    if SCHEMA not in violated:
        notes.add_pass(SCHEMA, "every message matches")
    value: Any = one.value
    members = line.update or (cast(Message, value) if isinstance(value, dict) else {})
    frames: list[Rule] = [
        *_PASSED_BY_MESSAGE.get(where, ()),
        *(r for m, r in _PASSED_BY_MEMBER.get(where, {}).items() if m in members),
    ]
    for rule in frames:
        if rule not in violated:
            notes.add_pass(rule, "matches the schema", [line.evidence])
    if where == "session_info_update" and 232 not in violated:
        notes.add_pass(232, "it has only changed members", [line.evidence])


def _check_update_envelope(line: WireLine, found: list[Violation], notes: RuleNotes) -> None:
    if not any(_is_envelope_violation(line, violation) for violation in found):
        notes.add_pass(145, "updates have a session and a kind", [line.evidence])


def _is_envelope_violation(line: WireLine, violation: Violation) -> bool:
    return violation.path in ("$", "$.sessionId", "$.update", "$.update.sessionUpdate") and not line.kind


def _rule(line: WireLine, where: str, violation: Violation) -> Rule:
    text = str(violation)
    if where == "session_info_update" and _INFO_MEMBERS.match(text):
        return 232
    if where == "elicitation/create" and _SCOPES.match(text):
        return 263
    if where in _SETTINGS and _MIXED.search(text):
        return 214
    if violation.reason == "unknown member":
        return 42
    if line.method == "session/update" and (
        not line.kind or violation.path in ("$", "$.sessionId") or "sessionUpdate" in violation.path
    ):
        return 145
    rules: list[Rule] = [location.rule for location in RULE_LOCATIONS if location.matches(where, text)]
    return rules[0] if rules else SCHEMA
