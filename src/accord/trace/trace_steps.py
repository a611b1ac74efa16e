"""Turns the entries of a run into steps: pairs requests with responses, finds sessions and measures times."""

from typing import Any, Literal, cast

from msgspec import Struct, field

from accord.schema.conformance_rules import RULES, RULES_V2
from accord.trace.trace_format import Side, TraceEntry
from accord.wire.envelope import id_key

StepKind = Literal[
    "request", "notification", "answer", "error", "noise", "cut", "stderr", "closed", "exit", "lost"
]


class TraceFault(Struct, frozen=True):
    """A violation of the protocol. `slug` names its conformance rule, if it has one."""

    text: str
    slug: str | None = None

    @property
    def rule(self) -> int | None:
        """The number of the rule."""
        if self.slug is None:
            return None
        return (RULES_V2 if self.slug.startswith("v2-") else RULES).by_slug[self.slug].id

    def __str__(self) -> str:
        return self.text if self.slug is None else f"{self.text} (rule {self.slug}, {self.rule})"

    def as_json(self) -> dict[str, Any]:
        """The fault as JSON values."""
        return {"rule": self.rule, "slug": self.slug, "text": self.text}


class TraceStep(Struct, eq=False):
    """One parsed entry of a run. A response has the `method` of its request; `request` is that step."""

    number: int
    entry: TraceEntry
    kind: StepKind
    message: dict[str, Any] | None = None
    method: str = ""
    id: Any = None
    session: str = ""
    request: "TraceStep | None" = None
    answer: "TraceStep | None" = None
    faults: list[TraceFault] = field(default_factory=list[TraceFault])

    @property
    def side(self) -> Side | None:
        """The side that sent it; None for other entries."""
        return self.entry.sender if self.entry.sender in ("client", "agent") else None

    @property
    def duration(self) -> float | None:
        """Seconds from the request to this response."""
        return None if self.request is None else self.entry.at - self.request.entry.at

    @property
    def params(self) -> Any:
        """The parameters of a request or notification."""
        return self.message.get("params") if self.message else None

    @property
    def result(self) -> Any:
        """The result of a response."""
        return self.message.get("result") if self.message else None


class CallTracker:
    """Turns the entries of one run, in order, into steps."""

    def __init__(self) -> None:
        self.count: int = 0
        self._open_calls: dict[Side, dict[str, TraceStep]] = {"client": {}, "agent": {}}

    def add(self, entry: TraceEntry) -> TraceStep:
        """Parse the next entry."""
        self.count += 1
        if entry.kind != "frame":
            return TraceStep(self.count, entry, entry.kind)
        step = TraceStep(self.count, entry, "noise", entry.message)
        return step if step.message is None else self._classify_message(step)

    def unanswered(self) -> list[TraceStep]:
        """Return the requests without a response, in their order."""
        open_calls = [*self._open_calls["client"].values(), *self._open_calls["agent"].values()]
        return sorted(open_calls, key=lambda step: step.number)

    def _classify_message(self, step: TraceStep) -> TraceStep:
        message, side = step.message, step.side
        assert message is not None
        assert side is not None
        method = message.get("method")
        step.id = message.get("id")
        if isinstance(method, str):
            step.kind = "request" if "id" in message else "notification"
            step.method = method
            step.session = _read_session_id(message.get("params"))
            if step.kind == "request":
                self._open_calls[side][id_key(step.id)] = step
        elif "result" in message or "error" in message:
            step.kind = "error" if "error" in message else "answer"
            request = self._open_calls["agent" if side == "client" else "client"].pop(id_key(step.id), None)
            if request is not None:
                step.request, request.answer = request, step
                step.method = request.method
                step.session = request.session or _read_session_id(message.get("result"))
                if not request.session:
                    request.session = step.session
        return step


def at(value: Any, *path: str) -> Any:
    """Return the member at a path of parsed JSON, or None."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = cast(dict[str, Any], value).get(name)
    return value


def listed(value: Any, *path: str) -> list[Any]:
    """Return the array at a path of parsed JSON, or an empty list."""
    member = at(value, *path)
    return cast(list[Any], member) if isinstance(member, list) else []


def _read_session_id(members: Any) -> str:
    member = at(members, "sessionId")
    return member if isinstance(member, str) else ""
