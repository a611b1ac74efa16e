"""What the frames of one run mean together: calls paired with their answers, sessions found, times taken."""

from typing import Any, Literal, cast

from msgspec import Struct, field

from accord.schema.codec import NotJson, parse_json
from accord.trace.trace_format import Side, TraceEntry

StepKind = Literal[
    "request", "notification", "answer", "error", "noise", "cut", "stderr", "closed", "exit", "lost"
]


class TraceFault(Struct, frozen=True):
    """Something that the protocol does not allow; `rule` is its number in `accord.schema.conformance_rules`, if it has one."""

    text: str
    rule: int | None = None

    def __str__(self) -> str:
        return self.text if self.rule is None else f"{self.text} (rule {self.rule})"


class TraceStep(Struct, eq=False):
    """One entry of a run, understood. `method` is of an answer the one it answers, `asked` that call."""

    number: int
    entry: TraceEntry
    kind: StepKind
    message: dict[str, Any] | None = None
    method: str = ""
    id: Any = None
    session: str = ""
    asked: "TraceStep | None" = None
    answer: "TraceStep | None" = None
    faults: list[TraceFault] = field(default_factory=list[TraceFault])

    @property
    def side(self) -> Side | None:
        """Who sent it, if it crossed."""
        return self.entry.sender if self.entry.sender in ("client", "agent") else None

    @property
    def took(self) -> float | None:
        """Seconds from the call to this answer."""
        return None if self.asked is None else self.entry.at - self.asked.entry.at

    @property
    def params(self) -> Any:
        """The parameters of a call."""
        return self.message.get("params") if self.message else None

    @property
    def result(self) -> Any:
        """The result of an answer."""
        return self.message.get("result") if self.message else None


class CallTracker:
    """Takes the entries of one run in order."""

    def __init__(self) -> None:
        self.count = 0
        self._open: dict[Side, dict[str, TraceStep]] = {"client": {}, "agent": {}}

    def take(self, entry: TraceEntry) -> TraceStep:
        """The next entry, understood."""
        self.count += 1
        if entry.kind != "frame":
            return TraceStep(self.count, entry, entry.kind)
        try:
            value = parse_json(entry.data)
        except NotJson:
            value = None
        if not isinstance(value, dict):
            return TraceStep(self.count, entry, "noise")
        return self._message(TraceStep(self.count, entry, "noise", cast(dict[str, Any], value)))

    def unanswered(self) -> list[TraceStep]:
        """The calls that have no answer yet, in their order."""
        waiting = [*self._open["client"].values(), *self._open["agent"].values()]
        return sorted(waiting, key=lambda step: step.number)

    def _message(self, step: TraceStep) -> TraceStep:
        message, side = step.message, step.side
        assert message is not None
        assert side is not None
        method = message.get("method")
        step.id = message.get("id")
        if isinstance(method, str):
            step.kind = "request" if "id" in message else "notification"
            step.method = method
            step.session = _session(message.get("params"))
            if step.kind == "request":
                self._open[side][id_key(step.id)] = step
        elif "result" in message or "error" in message:
            step.kind = "error" if "error" in message else "answer"
            asked = self._open["agent" if side == "client" else "client"].pop(id_key(step.id), None)
            if asked is not None:
                step.asked, asked.answer = asked, step
                step.method = asked.method
                step.session = asked.session or _session(message.get("result"))
                if not asked.session:
                    asked.session = step.session
        return step


def id_key(id: Any) -> str:
    """A request id as a key: 1 and "1" are two."""
    return repr(id)


def at(value: Any, *path: str) -> Any:
    """The member at this path of parsed JSON; None where there is none."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = cast(dict[str, Any], value).get(name)
    return value


def listed(value: Any, *path: str) -> list[Any]:
    """The array at this path of parsed JSON; none of its items where there is none."""
    found = at(value, *path)
    return cast(list[Any], found) if isinstance(found, list) else []


def _session(members: Any) -> str:
    found = at(members, "sessionId")
    return found if isinstance(found, str) else ""
