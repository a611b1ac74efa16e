"""Protocol violations that a recording alone can show.

`accord check` tests the rules that need a reaction.
"""

from typing import Any, Final, cast

from accord.schema.base import Mismatch
from accord.schema.codec import read
from accord.schema.former_members import former_member
from accord.schema.initialize import AgentCapabilities, ClientCapabilities
from accord.schema.methods import notification, request
from accord.schema.validation import UNKNOWN_MEMBER, violations
from accord.trace.trace_format import Side
from accord.trace.trace_steps import CallTracker, TraceFault, TraceStep, at, listed
from accord.wire.envelope import id_key

_MAX_FAULTS: Final = 5
"""Faults reported per message."""


class ViolationFinder:
    """Checks the steps of one run, in order, and adds the faults to each."""

    def __init__(self) -> None:
        self._capabilities: dict[Side, Any] = {"agent": None, "client": None}
        self._initialize_sent = False
        self._initialized = False
        self._answered_ids: dict[Side, set[str]] = {"client": set(), "agent": set()}
        self._running_prompts: dict[str, TraceStep] = {}
        self._cancelled_sessions: set[str] = set()
        self._announced_calls: dict[str, set[str]] = {}

    def check(self, step: TraceStep) -> TraceStep:
        """Check the next step and return it."""
        side = step.side
        if side is None or step.kind in ("cut", "closed", "exit", "lost", "stderr"):
            return step
        faults: list[TraceFault] = []
        if step.kind == "noise" or step.message is None:
            faults.append(self._check_noise(step, side))
        else:
            if step.message.get("jsonrpc") != "2.0":
                faults.append(TraceFault('no `jsonrpc: "2.0"`', _rule_number(side, 7)))
            if step.kind in ("request", "notification"):
                faults += self._check_call(step, side)
            else:
                faults += self._check_answer(step, side)
        step.faults = faults[:_MAX_FAULTS]
        return step

    def finish(self, tracker: CallTracker) -> list[tuple[TraceStep, TraceFault]]:
        """Return the requests without a response at the end of the run."""
        return [
            (
                step,
                TraceFault(
                    f"{step.method} was never answered",
                    _rule_number("agent" if step.side == "client" else "client", 11),
                ),
            )
            for step in tracker.unanswered()
        ]

    def _check_noise(self, step: TraceStep, side: Side) -> TraceFault:
        data = step.entry.data
        if step.message is not None:
            return TraceFault("neither a request nor a response", _rule_number(side, 1))
        if data.lstrip()[:1] == b"[":
            return TraceFault("an array; messages must be sent one by one", _rule_number(side, 29))
        try:
            data.decode()
        except UnicodeDecodeError:
            return TraceFault("not UTF-8", _rule_number(side, 5))
        return TraceFault("a line that is not a message", _rule_number(side, 1))

    def _check_call(self, step: TraceStep, side: Side) -> list[TraceFault]:
        other: Side = "agent" if side == "client" else "client"
        find = request if step.kind == "request" else notification
        entry = find(other, step.method)
        faults = self._check_order(step, side)
        if entry is None:
            if not step.method.startswith(("_", "$/")):
                faults.append(TraceFault(self._explain_unknown_method(step, other), _rule_number(side, 44)))
            return faults
        params = step.params
        faults += _schema_faults(entry.params, {} if params is None else params, side)
        if self._initialized and not entry.offered(self._capabilities["agent"], self._capabilities["client"]):
            faults.append(
                TraceFault(
                    f"the {other} does not offer {' or '.join(entry.gates)}", 69 if side == "client" else 68
                )
            )
        return faults

    def _explain_unknown_method(self, step: TraceStep, other: Side) -> str:
        swapped = notification if step.kind == "request" else request
        if swapped(other, step.method) is not None:
            return f"{step.method} is not a {step.kind}"
        return f"{step.method} is not a method of {'an agent' if other == 'agent' else 'a client'}"

    def _check_answer(self, step: TraceStep, side: Side) -> list[TraceFault]:
        message = cast(dict[str, Any], step.message)
        answered = self._answered_ids[side]
        key = id_key(step.id)
        if step.request is None:
            if key in answered:
                return [TraceFault(f"a second response to {step.id!r}", _rule_number(side, 11))]
            if step.id is None and "error" in message:
                return []  # the JSON-RPC response to an unreadable message
            return [TraceFault(f"a response to {step.id!r}, which was not requested", _rule_number(side, 9))]
        answered.add(key)
        if "error" in message:
            error = message["error"]
            valid = isinstance(at(error, "code"), int) and isinstance(at(error, "message"), str)
            faults = (
                [] if valid else [TraceFault("an error without a code and a message", _rule_number(side, 27))]
            )
            if "result" in message:
                faults.append(TraceFault("a result and an error", _rule_number(side, 11)))
            return faults + self._check_outcome(step, side)
        entry = request(side, step.method)
        faults = [] if entry is None else _schema_faults(entry.result, step.result, side)
        self._store_capabilities(step)
        return faults + self._check_outcome(step, side)

    def _store_capabilities(self, step: TraceStep) -> None:
        if step.method != "initialize" or step.request is None or step.side != "agent":
            return
        self._initialized = True
        self._capabilities["client"] = _read_capabilities(
            ClientCapabilities, step.request.params, "clientCapabilities"
        )
        self._capabilities["agent"] = _read_capabilities(AgentCapabilities, step.result, "agentCapabilities")

    def _check_order(self, step: TraceStep, side: Side) -> list[TraceFault]:
        """Check the order of messages within a session."""
        session, method, faults = step.session, step.method, list[TraceFault]()
        if side == "client" and method == "initialize":
            self._initialize_sent = True
        elif side == "client" and not self._initialize_sent and step.kind == "request":
            faults.append(TraceFault(f"{method} before initialize", 58))
        if method == "session/prompt":
            if session in self._running_prompts:
                faults.append(TraceFault("a prompt while a turn is running", 171))
            self._running_prompts[session] = step
            self._cancelled_sessions.discard(session)
        elif method == "session/cancel":
            if step.kind == "request":
                faults.append(TraceFault("session/cancel sent as a request", 160))
            if session in self._running_prompts:
                self._cancelled_sessions.add(session)
        elif method == "session/update":
            faults += self._check_tool_call(step, session)
        return faults

    def _check_tool_call(self, step: TraceStep, session: str) -> list[TraceFault]:
        announced = self._announced_calls.setdefault(session, set())
        call_id, kind = at(step.params, "update", "toolCallId"), at(step.params, "update", "sessionUpdate")
        if not isinstance(call_id, str):
            return []
        if kind == "tool_call":
            announced_before = call_id in announced
            announced.add(call_id)
            return (
                [TraceFault(f"tool call {call_id} is announced again", 174)]
                if announced_before and session in self._running_prompts
                else []
            )
        if kind == "tool_call_update" and call_id not in announced:
            announced.add(call_id)
            return [TraceFault(f"tool call {call_id} was never announced", 181)]
        return []

    def _check_outcome(self, step: TraceStep, side: Side) -> list[TraceFault]:
        session = step.session
        if step.method == "session/prompt" and side == "agent":
            if self._running_prompts.get(session) is step.request:
                self._running_prompts.pop(session, None)
            if session in self._cancelled_sessions:
                self._cancelled_sessions.discard(session)
                if step.kind == "error":
                    return [TraceFault("a canceled turn ends with an error", 162)]
                reason = at(step.result, "stopReason")
                if reason != "cancelled":
                    return [TraceFault(f"a canceled turn ends with {reason!r}", 161)]
        if step.method == "session/request_permission" and side == "client" and step.kind == "answer":
            return _check_chosen_option(step)
        return []


def _check_chosen_option(step: TraceStep) -> list[TraceFault]:
    offered_ids = (
        [at(option, "optionId") for option in listed(step.request.params, "options")] if step.request else []
    )
    chosen = at(step.result, "outcome", "optionId")
    if at(step.result, "outcome", "outcome") == "selected" and chosen not in offered_ids:
        return [TraceFault(f"{chosen!r} was not offered", 197)]
    return []


def _rule_number(side: Side, agent_rule: int) -> int:
    """Return the rule number for a side: a client's rule follows the agent's."""
    return agent_rule if side == "agent" else agent_rule + 1


def _schema_faults(cls: Any, value: Any, side: Side) -> list[TraceFault]:
    return [
        TraceFault(str(violation), _rule_number(side, 42) if violation.reason == UNKNOWN_MEMBER else None)
        for violation in violations(cls, value)
        if former_member(cls, value, violation) is None
    ][:_MAX_FAULTS]


def _read_capabilities(cls: type[Any], members: Any, name: str) -> Any:
    try:
        return read(cls, at(members, name))
    except Mismatch:
        return None
