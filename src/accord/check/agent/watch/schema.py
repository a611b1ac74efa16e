"""The strict walk over everything the agent sends."""

import re
from typing import Any, Final, cast

from accord.check.agent.watch.record import AgentRecord
from accord.check.ledger import Ledger, Rule
from accord.check.lines import Line, Message
from accord.check.verdict import SCHEMA
from accord.check.watch.messages import MOST_TOLD, Door, Sent, sent
from accord.schema.walk import Violation, violations

_CHUNKS: Final = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_CALLS: Final = ("tool_call", "tool_call_update")


_SETTINGS: Final = (
    *("session/new=", "session/load=", "session/resume=", "session/fork=", "session/set_config_option="),
    "config_option_update",
)
DOORS: Final = (
    Door(_CHUNKS, r"^\$\.update\.content|^\$\.update: content is missing", 146),
    Door(_CALLS, r"^\$\.update\.(toolCallId|title)\b|: (toolCallId|title) is missing", 173),
    Door(_CALLS, r"^\$\.update\.kind\b", 175),
    Door(_CALLS, r"^\$\.update\.status\b", 176),
    Door(_CALLS, r"^\$\.update\.content\b", 177),
    Door(("plan", "plan_update"), r"entries", 205),
    Door(("available_commands_update",), r"availableCommands", 227),
    Door(("usage_update",), r"^\$\.update\.cost", 320),
    Door(("usage_update",), r"", 233),
    Door(("notice",), r"", 287),
    Door(("session/request_permission",), r"^\$\.toolCall\.kind\b", 175),
    Door(("session/request_permission",), r"^\$\.toolCall\.status\b", 176),
    Door(("session/request_permission",), r"^\$\.toolCall\.content\b", 177),
    Door(("session/request_permission",), r"^\$\.options\[", 194),
    Door(("session/request_permission",), r"", 193),
    Door(("elicitation/create",), r"requestedSchema", 264),
    Door(("elicitation/create",), r"^\$\.mode|^\$\.message|(mode|message) is missing", 262),
    Door(("elicitation/create",), r"^\$: .*(sessionId|requestId)", 263),
    Door(("initialize=",), r"authMethods", 76),
    Door(("session/prompt=",), r"^\$\.usage", 310),
    Door(("session/prompt=",), r"", 142),
    Door(("session/list=",), r"^\$\.sessions\[", 120),
    Door(("session/list=",), r"sessions", 117),
    Door(("session/load=",), r"^\$: expected object", 106),
    Door(
        (
            *("authenticate=", "logout=", "session/close=", "session/delete=", "session/set_mode="),
            *("session/archive=", "session/unarchive=", "providers/set=", "providers/disable="),
        ),
        r"^\$: expected object",
        34,
    ),
    Door(("session/set_config_option=",), r"configOptions is missing|^\$: expected object", 215),
    Door(_SETTINGS, r"currentValue", 212),
    Door(_SETTINGS, r"configOptions\[\d+\]\.options", 214),
    Door(("auth/status=", "auth/status_update"), r"", 359),
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


def look(record: AgentRecord, ledger: Ledger) -> None:
    """Walk over every message of the agent."""
    for one in sent(record):
        _judge(one, ledger)


def _judge(one: Sent, ledger: Ledger) -> None:
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


def _envelope(line: Line, found: list[Violation], ledger: Ledger) -> None:
    if not any(_is_envelope(line, violation) for violation in found):
        ledger.kept(145, "updates have a session and an update with its kind", [line.shown])


def _is_envelope(line: Line, violation: Violation) -> bool:
    return violation.path in ("$", "$.sessionId", "$.update", "$.update.sessionUpdate") and not line.kind


def _rule(line: Line, where: str, violation: Violation) -> Rule:
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
