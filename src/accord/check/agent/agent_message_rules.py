"""Passive rules for every message of an agent: schema, envelope, the finished recording."""

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from accord.check import wire_rules
from accord.check.checked_connection import Message, WireLine
from accord.check.findings import SCHEMA, Rule, RuleNotes
from accord.check.wire_rules import MOST_TOLD, ConnectionRecord, RuleLocation, SentMessage, sent
from accord.schema.validation import Violation, violations

if TYPE_CHECKING:
    from accord.check.agent.agent_under_test import AgentUnderTest


# MERGED check.agent.watch.record: A conversation with an agent that is over, with what the watches ask of it.


class TurnSpan(NamedTuple):
    """A prompt and its answer, by their place among the lines."""

    session: str
    begin: int
    end: int
    answer: WireLine | None
    cancelled: bool


class AgentRecord(ConnectionRecord):
    """One conversation, as the client had it."""

    def __init__(self, talk: "AgentUnderTest") -> None:
        super().__init__(talk, talk.offered, talk.initialized)
        self.began = bool(talk.initialized)
        self.left = len(talk.lines) if talk.left is None else talk.left
        """What comes after that many lines, nobody can act on any more."""

    @cached_property
    def updates(self) -> list[WireLine]:
        """The session updates."""
        return [line for line in self.sent if line.update]

    def requests(self, *methods: str) -> list[WireLine]:
        """The agent's requests of these methods."""
        return [one.request for one in self.asked_by_agent if one.request.method in methods]

    @property
    def nothing_offered(self) -> bool:
        """Whether the client said nothing of its capabilities."""
        return not isinstance(self.offered, dict)

    @cached_property
    def turns(self) -> list[TurnSpan]:
        """The turns, in order."""
        found: list[TurnSpan] = []
        for exchange in self.asked:
            request = exchange.request
            if request.method != "session/prompt":
                continue
            answer = exchange.answers[0] if exchange.answers else None
            if answer is not None and answer.number > self.left:
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
        """The turn that a line of its session falls into."""
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
            for one in self.asked
            if one.request.method == "session/load"
        ]

    def replayed(self, line: WireLine) -> bool:
        """Whether the line belongs to the replay of a loaded session."""
        return any(
            session == line.session and begin < line.number < end for session, begin, end in self._replays
        )


# MERGED check.agent.watch.lines: The agent's lines: the envelopes, and what only some lines can show.


def check_messages(record: AgentRecord, ledger: RuleNotes) -> None:
    """Judge them."""
    wire_rules.look(record, ledger, wire_rules.OF_AGENTS)
    sound = [line for line in record.sent if line.message is not None]
    several = next((line for line in sound if b"\\n" in line.data), None)
    if several is not None:
        ledger.kept(3, "text of several lines came in one line", [several.shown])
    strange = next((line for line in sound if not line.data.isascii() or b"\\u" in line.data), None)
    if strange is not None:
        ledger.kept(5, "what is not ASCII came as UTF-8 or escaped", [strange.shown])


# MERGED check.agent.watch.schema: The strict walk over everything the agent sends.

_CHUNKS: Final = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_CALLS: Final = ("tool_call", "tool_call_update")


_SETTINGS: Final = (
    *("session/new=", "session/load=", "session/resume=", "session/fork=", "session/set_config_option="),
    "config_option_update",
)
DOORS: Final = (
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
_SHOWN_BY: Final[dict[str, tuple[Rule, ...]]] = {
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
"""The rules that a sound message of this kind shows to be kept."""
_MEMBERS: Final[dict[str, dict[str, Rule]]] = {
    "tool_call": {"kind": 175, "status": 176, "content": 177},
    "tool_call_update": {"kind": 175, "status": 176, "content": 177},
    "usage_update": {"cost": 320},
    "elicitation/create": {"requestedSchema": 264},
    "session/prompt=": {"usage": 310},
}
"""The rules that a sound member shows to be kept."""
_MIXED: Final = re.compile(
    r"configOptions\[\d+\]\.options\[\d+\](\.(value|group|options): unknown member|: \w+ is missing)"
)
_SCOPES: Final = re.compile(r"^\$\.(sessionId|requestId|toolCallId)\b")
_INFO_MEMBERS: Final = re.compile(r"^\$\.update\.(sessionId|cwd|additionalDirectories)\b")


def check_schema(record: AgentRecord, ledger: RuleNotes) -> None:
    """Walk over every message of the agent."""
    for one in sent(record):
        _judge(one, ledger)


def _judge(one: SentMessage, ledger: RuleNotes) -> None:
    line, where = one.line, one.where
    found = violations(one.type, one.value)[:MOST_TOLD]
    blamed: set[Rule] = set()
    for violation in found:
        rule = _rule(line, where, violation)
        blamed.add(rule)
        ledger.broken(rule, f"{where.rstrip('=')}: {violation}", [line.shown], walked=True)
    if line.method == "session/update":
        _envelope(line, found, ledger)
    if 42 not in blamed:
        ledger.kept(42, "no message has members of its own")
    if SCHEMA not in blamed:
        ledger.kept(SCHEMA, "every message fits")
    value: Any = one.value
    members = line.update or (cast(Message, value) if isinstance(value, dict) else {})
    shown: list[Rule] = [
        *_SHOWN_BY.get(where, ()),
        *(r for m, r in _MEMBERS.get(where, {}).items() if m in members),
    ]
    for rule in shown:
        if rule not in blamed:
            ledger.kept(rule, "as the schema has it", [line.shown])
    if where == "session_info_update" and 232 not in blamed:
        ledger.kept(232, "it carries what changed and nothing else", [line.shown])


def _envelope(line: WireLine, found: list[Violation], ledger: RuleNotes) -> None:
    if not any(_is_envelope(line, violation) for violation in found):
        ledger.kept(145, "updates have a session and an update with its kind", [line.shown])


def _is_envelope(line: WireLine, violation: Violation) -> bool:
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
    doors: list[Rule] = [door.rule for door in DOORS if door.takes(where, text)]
    return doors[0] if doors else SCHEMA
