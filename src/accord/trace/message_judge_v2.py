"""Judges the messages of one connection in version 2, in order. Imported on first use."""

import base64
import binascii
import re
from functools import cache
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final, cast

from accord.schema.methods import Method
from accord.schema.validation import UNKNOWN_MEMBER, Violation, violations
from accord.trace.message_judge import MAX_VIOLATIONS, Judgment
from accord.trace.trace_format import Side
from accord.trace.trace_steps import at, listed
from accord.trace.wire_line import WireLine
from accord.wire.envelope import Message, id_key

_MESSAGES: Final = ("user_message", "agent_message", "agent_thought")
MESSAGE_KINDS: Final = (*_MESSAGES, *(f"{kind}_chunk" for kind in _MESSAGES))
_SCHEMA_RULES: Final[tuple[tuple[tuple[str, ...], str, str], ...]] = (
    (MESSAGE_KINDS, r"messageId", "v2-update.message-id"),
    (("tool_call_update", "tool_call_content_chunk"), r"toolCallId", "v2-update.tool-call-id"),
    (("plan_update", "plan_removed"), r"planId", "v2-update.plan-id"),
    (("terminal_update", "terminal_output_chunk"), r"", "v2-update.terminal"),
    (("state_update",), r"stopReason", "v2-prompt.stop-reason"),
    (("session/request_permission",), r"", "v2-permission.members"),
    (("session/prompt=",), r"", "v2-prompt.message-id"),
    (("session/new=",), r"sessionId", "v2-session.new"),
    (("session/list=",), r"", "v2-session.list"),
    (("session/close=",), r"", "v2-session.close"),
    (("session/delete=",), r"", "v2-session.delete"),
    (("session/set_config_option=",), r"", "v2-session.option-set"),
    (("auth/login=",), r"", "v2-auth.login"),
    (("auth/logout=",), r"", "v2-auth.logout"),
    (("session/new", "session/resume", "session/list"), r"cwd", "v2-session.absolute-folder"),
    (("initialize=",), r"protocolVersion", "v2-initialize.version"),
    (("initialize=",), r"\binfo", "v2-initialize.agent-info"),
    (("initialize=",), r"capabilities", "v2-initialize.agent-capability-objects"),
    (("initialize=",), r"authMethods", "v2-auth.method-members"),
    (("initialize",), r"\binfo", "v2-initialize.client-info"),
    (("initialize",), r"capabilities", "v2-initialize.client-capability-objects"),
    (("session/request_permission=",), r"", "v2-permission.offered-option"),
)
"""Which rule a violation of the schema breaks: kinds of messages, a pattern for its text, and the rule.

A kind is a kind of update, a method, or `method=` for the result of a method.
"""
KNOWN_VALUES: Final[dict[str, dict[str, frozenset[str]]]] = {
    "state_update": {"state": frozenset(("running", "idle", "requires_action", "unknown"))},
    "tool_call_update": {
        "status": frozenset(("pending", "in_progress", "paused", "completed", "failed", "cancelled")),
        "kind": frozenset(
            "read edit delete move search execute think fetch switch_mode other".split()  # noqa: SIM905
        ),
    },
    "compaction_update": {"status": frozenset(("in_progress", "completed", "failed", "cancelled"))},
    "notice": {"severity": frozenset(("info", "warning", "error"))},
}
"""The values of the protocol; a program's own ones start with `_`."""
STOP_REASONS: Final = frozenset(
    ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")
)
V1_INITIALIZE_MEMBERS: Final = frozenset(("clientInfo", "clientCapabilities"))
"""What version 1 has in the params of `initialize`."""


class MessageJudgeV2:
    """Judges the lines of one connection that speaks version 2, in order. Returns only broken rules."""

    def __init__(self) -> None:
        self._judgments: list[Judgment] = []
        self._calls: dict[Side, dict[str, WireLine]] = {"client": {}, "agent": {}}
        self._answered: dict[Side, set[str]] = {"client": set(), "agent": set()}
        self._at_work: set[str] = set()
        """The sessions that run, or wait for the user."""

    def judge(self, line: WireLine) -> list[Judgment]:
        """Judge the next line."""
        self._judgments = []
        if line.message is not None:
            self._judge_message(line, line.message)
        elif not line.skip_reason and line.data.strip():
            self._fail(f"v2-framing.{line.sender}-only-messages", "a line is not a message", line)
        return self._judgments

    def _fail(self, rule: str | None, reason: str, *lines: WireLine, from_schema: bool = False) -> None:
        self._judgments.append(Judgment(rule, False, reason, lines, from_schema))

    def _judge_message(self, line: WireLine, message: Message) -> None:
        side = line.sender
        if message.get("jsonrpc") != "2.0":
            self._fail(f"v2-framing.{side}-only-messages", 'no `jsonrpc: "2.0"`', line)
        if line.method:
            self._judge_call(line)
        elif line.is_answer:
            self._judge_answer(line, message)
        else:
            self._fail(f"v2-framing.{side}-only-messages", "neither a call nor an answer", line)

    def _judge_call(self, line: WireLine) -> None:
        side, receiver = line.sender, _other(line.sender)
        if line.is_request:
            self._calls[side][id_key(line.id)] = line
        entry = find_method(receiver, line)
        if entry is None:
            if not line.method.startswith(("_", "$/", "proxy/")):
                kind = "request" if line.is_request else "notification"
                failure = f"{line.method} is not a {kind} of version 2"
                self._fail(f"v2-framing.{side}-known-methods", failure, line)
            return
        params: Any = {} if line.params is None else line.params
        if line.method == "initialize" and isinstance(params, dict):
            # A client that also speaks version 1 may send the members of both.
            members = cast(dict[str, Any], params)
            params = {name: members[name] for name in members if name not in V1_INITIALIZE_MEMBERS}
        self._judge_schema(line, line.kind or line.method, entry.params, params)
        if line.method == "session/update":
            self._judge_update(line)

    def _judge_answer(self, line: WireLine, message: Message) -> None:
        side, key = line.sender, id_key(line.id)
        if "error" in message:
            code, text = at(message, "error", "code"), at(message, "error", "message")
            if not (isinstance(code, int) and not isinstance(code, bool) and isinstance(text, str) and text):
                failure = "an error without a code and a message"
                self._fail(f"v2-framing.{side}-error-members", failure, line)
        asked = self._calls[_other(side)].pop(key, None)
        if asked is None:
            if key in self._answered[side]:
                self._fail(f"v2-framing.{side}-one-answer", "a second answer to one request", line)
            elif line.id is not None:
                failure = f"an answer to the id {line.id!r}, which no request has"
                self._fail(f"v2-framing.{side}-returns-id", failure, line)
            return
        self._answered[side].add(key)
        if "result" not in message:
            return
        if "error" in message:
            self._fail(f"v2-framing.{side}-one-answer", "an answer with a result and an error", line)
        entry = find_method(side, asked)
        if entry is not None:
            self._judge_schema(line, f"{asked.method}=", entry.result, message["result"])
        if asked.method == "session/request_permission":
            self._judge_permission(asked, line, at(message, "result", "outcome"))

    def _judge_schema(self, line: WireLine, kind: str, cls: Any, value: Any) -> None:
        for violation in violations(cls, value)[:MAX_VIOLATIONS]:
            rule = violated_rule(line.sender, kind, violation)
            self._fail(rule, f"{kind.rstrip('=')}: {violation}", line, from_schema=True)

    def _judge_permission(self, asked: WireLine, line: WireLine, outcome: Any) -> None:
        chosen = at(outcome, "optionId")
        offered = [at(option, "optionId") for option in listed(asked.params, "options")]
        if at(outcome, "outcome") == "selected" and chosen not in offered:
            failure = f"the option {chosen!r} was not offered"
            self._fail("v2-permission.offered-option", failure, asked, line)

    def _judge_update(self, line: WireLine) -> None:
        update = line.update
        for member, values in KNOWN_VALUES.get(line.kind, {}).items():
            value = update.get(member)
            if isinstance(value, str) and value not in values and not value.startswith("_"):
                self._fail("v2-update.known-values", f"{member} is {value!r}", line)
        if line.kind in ("terminal_update", "terminal_output_chunk") and (
            problem := terminal_problem(update)
        ):
            self._fail("v2-update.terminal", problem, line)
        if line.kind != "state_update":
            return
        state, reason = update.get("state"), update.get("stopReason")
        if state != "idle":
            self._at_work.add(line.session)
            return
        if reason is not None and line.session not in self._at_work:
            failure = "an idle with a stop reason without `running` before it"
            self._fail("v2-prompt.running", failure, line)
        if isinstance(reason, str) and reason not in STOP_REASONS and not reason.startswith("_"):
            self._fail("v2-prompt.stop-reason", f"the stop reason is {reason!r}", line)
        self._at_work.discard(line.session)


def _other(side: Side) -> Side:
    return "client" if side == "agent" else "agent"


@cache
def _methods() -> dict[tuple[str, str], list[Method]]:
    """The methods of version 2 by name and kind."""
    from accord.schema.v2.methods import METHODS

    found: dict[tuple[str, str], list[Method]] = {}
    for method in METHODS:
        found.setdefault((method.name, method.kind), []).append(method)
    return found


def find_method(receiver: Side, line: WireLine) -> Method | None:
    """The method that a call names, if its receiver serves it."""
    kind = "request" if line.is_request else "notification"
    return next(
        (one for one in _methods().get((line.method, kind), []) if one.served_by in (receiver, "both")), None
    )


def violated_rule(side: Side, kind: str, violation: Violation) -> str | None:
    """The rule that a violation of the schema breaks; None: only the schema."""
    if violation.reason == UNKNOWN_MEMBER:
        own = {"session/prompt=": "v2-prompt.message-id"}
        return own.get(kind, f"v2-framing.{side}-custom-members")
    text = str(violation)
    rules = (rule for kinds, form, rule in _SCHEMA_RULES if kind in kinds and re.search(form, text))
    return next(rules, None)


def terminal_problem(update: Message) -> str:
    """What is wrong with an update of a terminal; "" if nothing is."""
    cwd = update.get("cwd")
    if isinstance(cwd, str) and not is_absolute(cwd):
        return f"the folder of a terminal is {cwd!r}"
    for data in (update.get("data"), at(update.get("output"), "data")):
        if isinstance(data, str):
            try:
                base64.b64decode(data, validate=True)
            except (binascii.Error, ValueError):
                return f"output that is not base64: {data[:40]!r}"
    return ""


def is_absolute(path: str) -> bool:
    """Whether a path is absolute, on any system."""
    return PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()
