"""What in a recording breaks the protocol, as far as looking on can tell. Rules that need somebody to be provoked are
for `accord check`.
"""

from typing import Any, cast

from accord.schema.base import Mismatch
from accord.schema.codec import read
from accord.schema.initialize import AgentCapabilities, ClientCapabilities
from accord.schema.methods import notification, request
from accord.schema.validation import violations
from accord.trace.trace_format import Side
from accord.trace.trace_steps import CallTracker, TraceFault, TraceStep, at, id_key, listed

_MOST = 5  # faults told of one message
_UNKNOWN_MEMBER = "unknown member"


class ViolationFinder:
    """Looks at the steps of one run in order, and notes in each what is wrong with it."""

    def __init__(self) -> None:
        self._offers: dict[Side, Any] = {"agent": None, "client": None}
        self._begun = False
        self._agreed = False
        self._answered: dict[Side, set[str]] = {"client": set(), "agent": set()}
        self._prompts: dict[str, TraceStep] = {}
        self._cancelled: set[str] = set()
        self._calls: dict[str, set[str]] = {}

    def look(self, step: TraceStep) -> TraceStep:
        """Judge the next step."""
        side = step.side
        if side is None or step.kind in ("cut", "closed", "exit", "lost", "stderr"):
            return step
        faults: list[TraceFault] = []
        if step.kind == "noise" or step.message is None:
            faults.append(self._noise(step, side))
        else:
            if step.message.get("jsonrpc") != "2.0":
                faults.append(TraceFault('no `jsonrpc: "2.0"`', _of(side, 7)))
            if step.kind in ("request", "notification"):
                faults += self._call(step, side)
            else:
                faults += self._answer(step, side)
        step.faults = faults[:_MOST]
        return step

    def finish(self, exchange: CallTracker) -> list[tuple[TraceStep, TraceFault]]:
        """What is still owed at the end of the run."""
        return [
            (
                step,
                TraceFault(
                    f"{step.method} was never answered",
                    _of("agent" if step.side == "client" else "client", 11),
                ),
            )
            for step in exchange.unanswered()
        ]

    def _noise(self, step: TraceStep, side: Side) -> TraceFault:
        data = step.entry.data
        if step.message is not None:
            return TraceFault("neither a call nor an answer", _of(side, 1))
        if data.lstrip()[:1] == b"[":
            return TraceFault("an array; messages are sent one by one", _of(side, 29))
        try:
            data.decode()
        except UnicodeDecodeError:
            return TraceFault("not UTF-8", _of(side, 5))
        return TraceFault("a line that is no message", _of(side, 1))

    def _call(self, step: TraceStep, side: Side) -> list[TraceFault]:
        other: Side = "agent" if side == "client" else "client"
        find = request if step.kind == "request" else notification
        entry = find(other, step.method)
        faults = self._conduct(step, side)
        if entry is None:
            if not step.method.startswith(("_", "$/")):
                faults.append(TraceFault(self._no_method(step, other), _of(side, 44)))
            return faults
        params = step.params
        faults += _walked(entry.params, {} if params is None else params, side)
        if self._agreed and not entry.offered(self._offers["agent"], self._offers["client"]):
            faults.append(
                TraceFault(
                    f"the {other} does not offer {' or '.join(entry.gates)}", 69 if side == "client" else 68
                )
            )
        return faults

    def _no_method(self, step: TraceStep, other: Side) -> str:
        swapped = notification if step.kind == "request" else request
        if swapped(other, step.method) is not None:
            return f"{step.method} is no {step.kind}"
        return f"{step.method} is no method that a{'n' if other == 'agent' else ''} {other} serves"

    def _answer(self, step: TraceStep, side: Side) -> list[TraceFault]:
        message = cast(dict[str, Any], step.message)
        answered = self._answered[side]
        key = id_key(step.id)
        if step.asked is None:
            if key in answered:
                return [TraceFault(f"a second answer to {step.id!r}", _of(side, 11))]
            if step.id is None and "error" in message:
                return []  # how JSON-RPC answers what it could not read
            return [TraceFault(f"an answer to {step.id!r}, which nobody asked", _of(side, 9))]
        answered.add(key)
        if "error" in message:
            error = message["error"]
            sound = isinstance(at(error, "code"), int) and isinstance(at(error, "message"), str)
            faults = [] if sound else [TraceFault("an error without a code and a message", _of(side, 27))]
            if "result" in message:
                faults.append(TraceFault("a result and an error", _of(side, 11)))
            return faults + self._settled(step, side)
        entry = request(side, step.method)
        faults = [] if entry is None else _walked(entry.result, step.result, side)
        self._learn(step)
        return faults + self._settled(step, side)

    def _learn(self, step: TraceStep) -> None:
        if step.method != "initialize" or step.asked is None or step.side != "agent":
            return
        self._agreed = True
        self._offers["client"] = _offer(ClientCapabilities, step.asked.params, "clientCapabilities")
        self._offers["agent"] = _offer(AgentCapabilities, step.result, "agentCapabilities")

    def _conduct(self, step: TraceStep, side: Side) -> list[TraceFault]:
        """The order of things within a session."""
        session, method, faults = step.session, step.method, list[TraceFault]()
        if side == "client" and method == "initialize":
            self._begun = True
        elif side == "client" and not self._begun and step.kind == "request":
            faults.append(TraceFault(f"{method} before initialize", 58))
        if method == "session/prompt":
            if session in self._prompts:
                faults.append(TraceFault("a prompt while the last one runs", 171))
            self._prompts[session] = step
            self._cancelled.discard(session)
        elif method == "session/cancel":
            if step.kind == "request":
                faults.append(TraceFault("a cancel that wants an answer", 160))
            if session in self._prompts:
                self._cancelled.add(session)
        elif method == "session/update":
            faults += self._update(step, session)
        return faults

    def _update(self, step: TraceStep, session: str) -> list[TraceFault]:
        known = self._calls.setdefault(session, set())
        call, kind = at(step.params, "update", "toolCallId"), at(step.params, "update", "sessionUpdate")
        if not isinstance(call, str):
            return []
        if kind == "tool_call":
            again = call in known
            known.add(call)
            return (
                [TraceFault(f"tool call {call} is announced again", 174)]
                if again and session in self._prompts
                else []
            )
        if kind == "tool_call_update" and call not in known:
            known.add(call)
            return [TraceFault(f"tool call {call} was never announced", 181)]
        return []

    def _settled(self, step: TraceStep, side: Side) -> list[TraceFault]:
        session = step.session
        if step.method == "session/prompt" and side == "agent":
            if self._prompts.get(session) is step.asked:
                self._prompts.pop(session, None)
            if session in self._cancelled:
                self._cancelled.discard(session)
                if step.kind == "error":
                    return [TraceFault("a cancelled turn ends with an error", 162)]
                reason = at(step.result, "stopReason")
                if reason != "cancelled":
                    return [TraceFault(f"a cancelled turn ends with {reason!r}", 161)]
        if step.method == "session/request_permission" and side == "client" and step.kind == "answer":
            return _outcome(step)
        return []


def _outcome(step: TraceStep) -> list[TraceFault]:
    ids = [at(option, "optionId") for option in listed(step.asked.params, "options")] if step.asked else []
    chosen = at(step.result, "outcome", "optionId")
    if at(step.result, "outcome", "outcome") == "selected" and chosen not in ids:
        return [TraceFault(f"{chosen!r} was not offered", 197)]
    return []


def _of(side: Side, agents: int) -> int:
    """Rules of both sides stand side by side: the client's follows the agent's."""
    return agents if side == "agent" else agents + 1


def _walked(cls: Any, value: Any, side: Side) -> list[TraceFault]:
    return [
        TraceFault(str(one), _of(side, 42) if _UNKNOWN_MEMBER in one.reason else None)
        for one in violations(cls, value)[:_MOST]
    ]


def _offer(cls: type[Any], members: Any, name: str) -> Any:
    try:
        return read(cls, at(members, name))
    except Mismatch:
        return None
