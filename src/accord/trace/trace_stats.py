"""Totals of a recording: messages and bytes by method, response times, turns."""

from typing import Any, Final

from msgspec import Struct, field

from accord.trace.step_summary import clean, cut, duration, size
from accord.trace.trace_format import TraceStart
from accord.trace.trace_steps import TraceStep, at

_CHUNKS: Final = ("agent_message_chunk", "agent_thought_chunk")


class MethodCount(Struct):
    """One method in one direction: requests or notifications, and the responses to them."""

    method: str
    sender: str
    messages: int = 0
    bytes: int = 0
    errors: int = 0
    unanswered: int = 0
    took: list[float] = field(default_factory=list[float])


class TurnStats(Struct):
    """One turn. `first` is the time to its first update, `gap` the longest silence, in seconds."""

    session: str
    began: float
    run: int = 1
    took: float | None = None
    first: float | None = None
    gap: float = 0.0
    updates: int = 0
    chunks: int = 0
    characters: int = 0
    streamed: float = 0.0
    """From the first chunk of text to the last."""
    ended: str = ""

    @property
    def rate(self) -> float | None:
        """Chunks of text per second."""
        return (self.chunks - 1) / self.streamed if self.chunks > 1 and self.streamed > 0 else None


class _OpenTurn(Struct):
    turn: TurnStats
    last: float
    first_chunk: float | None = None


class TraceStats:
    """Counts the steps of a recording, in order."""

    def __init__(self) -> None:
        self.methods: dict[tuple[str, str], MethodCount] = {}
        self.turns: list[TurnStats] = []
        self.updates: dict[str, int] = {}
        self.sides: dict[str, tuple[int, int]] = {}
        self.runs: int = 0
        self.seconds: float = 0.0
        self.noise: int = 0
        self.faults: int = 0
        self.sessions: set[str] = set()
        self._open: dict[tuple[int, str], _OpenTurn] = {}
        self._spans: dict[int, float] = {}

    def add(self, number: int, step: TraceStep | TraceStart) -> None:
        """Count the next step of a run."""
        if isinstance(step, TraceStart):
            self.runs = max(self.runs, number)
            return
        entry = step.entry
        self.runs = max(self.runs, number)
        self._spans[number] = max(self._spans.get(number, 0.0), entry.at)
        self.seconds = sum(self._spans.values())
        self.faults += len(step.faults)
        if step.session:
            self.sessions.add(step.session)
        if entry.sender is not None and entry.kind in ("frame", "cut", "stderr"):
            count, total = self.sides.get(entry.sender, (0, 0))
            self.sides[entry.sender] = (count + 1, total + entry.size)
        match step.kind:
            case "noise":
                self.noise += 1
            case "request" | "notification":
                self._call(number, step)
            case "answer" | "error":
                self._answer(number, step)
            case _:
                pass

    def finish(self) -> None:
        """Sort the turns after the last step. Turns without an end stay open."""
        self.turns.sort(key=lambda turn: (turn.run, turn.began))

    def _call(self, number: int, step: TraceStep) -> None:
        counted = self._method(step.method, step.entry.sender or "")
        counted.messages += 1
        counted.bytes += step.entry.size
        if step.kind == "request":
            counted.unanswered += 1
        if step.method == "session/prompt" and step.kind == "request":
            turn = TurnStats(step.session, step.entry.at, number)
            self.turns.append(turn)
            self._open[number, step.session] = _OpenTurn(turn, step.entry.at)
        elif step.method == "session/update":
            self._update(number, step)

    def _answer(self, number: int, step: TraceStep) -> None:
        if step.request is None or step.took is None:
            return
        counted = self._method(step.method, step.request.entry.sender or "")
        counted.messages += 1
        counted.bytes += step.entry.size
        counted.took.append(step.took)
        counted.unanswered -= 1
        counted.errors += step.kind == "error"
        opened = self._open.get((number, step.session))
        if step.method == "session/prompt" and opened is not None:
            del self._open[number, step.session]
            turn = opened.turn
            turn.took = step.took
            turn.gap = max(turn.gap, step.entry.at - opened.last)
            turn.ended = (
                f"error {at(step.message, 'error', 'code')}"
                if step.kind == "error"
                else str(at(step.result, "stopReason"))
            )

    def _update(self, number: int, step: TraceStep) -> None:
        kind = at(step.params, "update", "sessionUpdate")
        self.updates[str(kind)] = self.updates.get(str(kind), 0) + 1
        opened = self._open.get((number, step.session))
        if opened is None:
            return
        now, turn = step.entry.at, opened.turn
        turn.updates += 1
        if turn.first is None:
            turn.first = now - turn.began
        turn.gap = max(turn.gap, now - opened.last)
        opened.last = now
        if kind in _CHUNKS:
            text = at(step.params, "update", "content", "text")
            turn.chunks += 1
            turn.characters += len(text) if isinstance(text, str) else 0
            if opened.first_chunk is None:
                opened.first_chunk = now
            turn.streamed = now - opened.first_chunk

    def _method(self, method: str, sender: str) -> MethodCount:
        return self.methods.setdefault((method, sender), MethodCount(method, sender))

    def as_object(self) -> dict[str, Any]:
        """Return everything as JSON values, in seconds and bytes."""
        return {
            "runs": self.runs,
            "seconds": round(self.seconds, 6),
            "sessions": len(self.sessions),
            "sides": {
                side: {"messages": count, "bytes": total} for side, (count, total) in self.sides.items()
            },
            "noise": self.noise,
            "faults": self.faults,
            "updates": self.updates,
            "methods": [
                {
                    "method": one.method,
                    "from": one.sender,
                    "messages": one.messages,
                    "bytes": one.bytes,
                    "errors": one.errors,
                    "unanswered": one.unanswered,
                    "answers": _spread(one.took),
                }
                for one in self.methods.values()
            ],
            "turns": [
                {
                    "run": turn.run,
                    "session": turn.session,
                    "began": turn.began,
                    "seconds": turn.took,
                    "first_update": turn.first,
                    "longest_gap": turn.gap,
                    "updates": turn.updates,
                    "chunks": turn.chunks,
                    "characters": turn.characters,
                    "chunks_per_second": turn.rate,
                    "ended": turn.ended or None,
                }
                for turn in self.turns
            ],
        }

    def lines(self) -> list[str]:
        """Return everything as lines of text."""
        sessions = len(self.sessions)
        lines = [
            f"{self.runs} run{'s' if self.runs != 1 else ''}, "
            f"{sessions} session{'s' if sessions != 1 else ''}, {duration(self.seconds)}",
            *(
                f"  {side:<7} {count:>7} messages {size(total):>9}"
                for side, (count, total) in sorted(self.sides.items())
            ),
        ]
        if self.noise or self.faults:
            lines.append(
                f"  {self.noise} lines are not messages, {self.faults} faults (accord trace show --faults)"
            )
        lines += [
            "",
            f"{'method':<34} {'from':<6} {'msgs':>6} {'bytes':>9} {'p50':>8} {'p95':>8} {'max':>8}"
            "  errors unanswered",
        ]
        for one in sorted(self.methods.values(), key=lambda one: -one.bytes):
            spread = _spread(one.took)
            times = " ".join(
                f"{duration(spread[name]) if spread else '':>8}" for name in ("p50", "p95", "max")
            )
            lines.append(
                f"{cut(clean(one.method), 34):<34} {one.sender:<6} {one.messages:>6} {size(one.bytes):>9} "
                f"{times}  {one.errors or '':>6} {one.unanswered or '':>10}".rstrip()
            )
        if self.updates:
            lines += ["", "updates"]
            lines += [
                f"  {cut(clean(kind), 40):<40} {count:>7}"
                for kind, count in sorted(self.updates.items(), key=lambda pair: -pair[1])
            ]
        if self.turns:
            lines += [
                "",
                f"{'turn':>4}  {'session':<8} {'took':>9} {'first':>9} {'gap':>9} {'updates':>7} "
                f"{'chunks':>7} {'per s':>7}  ended",
            ]
        for number, turn in enumerate(self.turns, 1):
            took, first = (duration(value) if value is not None else "-" for value in (turn.took, turn.first))
            rate = f"{turn.rate:.1f}" if turn.rate is not None else "-"
            lines.append(
                f"{number:>4}  {clean(turn.session)[-8:]:<8} {took:>9} {first:>9} {duration(turn.gap):>9} "
                f"{turn.updates:>7} {turn.chunks:>7} {rate:>7}  {clean(turn.ended) or 'not ended'}"
            )
        return lines


def _spread(took: list[float]) -> dict[str, float]:
    if not took:
        return {}
    ordered = sorted(took)
    last = len(ordered) - 1
    return {"p50": ordered[last // 2], "p95": ordered[round(last * 0.95)], "max": ordered[-1]}
