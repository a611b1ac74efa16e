"""Totals of a recording: messages and bytes by method, response times, turns."""

from typing import Any, Final

from msgspec import Struct, field

from accord.text_width import count_text, cut_to_width
from accord.trace.step_summary import escape_controls, format_duration, format_size
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
    durations: list[float] = field(default_factory=list[float])


class TurnStats(Struct):
    """One turn. Times are in seconds; `first_update` is the time from the prompt to the first update."""

    session: str
    began: float
    run: int = 1
    duration: float | None = None
    first_update: float | None = None
    longest_gap: float = 0.0
    updates: int = 0
    chunks: int = 0
    characters: int = 0
    streaming_seconds: float = 0.0
    """From the first chunk of text to the last."""
    outcome: str = ""
    """The stop reason or the error code; empty if the turn has not ended."""

    @property
    def rate(self) -> float | None:
        """Chunks of text per second."""
        return (
            (self.chunks - 1) / self.streaming_seconds
            if self.chunks > 1 and self.streaming_seconds > 0
            else None
        )


class _OpenTurn(Struct):
    turn: TurnStats
    request: TraceStep
    last_update: float
    first_chunk: float | None = None
    inserted: bool = False
    """Whether its prompt was answered without a stop reason, as in version 2."""


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
        self._open_turns: dict[tuple[int, str], list[_OpenTurn]] = {}
        self._run_seconds: dict[int, float] = {}

    def add(self, number: int, step: TraceStep | TraceStart) -> None:
        """Count the next step of a run."""
        if isinstance(step, TraceStart):
            self.runs = max(self.runs, number)
            return
        entry = step.entry
        self.runs = max(self.runs, number)
        self._run_seconds[number] = max(self._run_seconds.get(number, 0.0), entry.at)
        self.seconds = sum(self._run_seconds.values())
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
                self._count_call(number, step)
            case "answer" | "error":
                self._count_answer(number, step)
            case _:
                pass

    def finish(self) -> None:
        """Sort the turns after the last step. Turns without an end stay open."""
        self.turns.sort(key=lambda turn: (turn.run, turn.began))

    def _count_call(self, number: int, step: TraceStep) -> None:
        method_count = self._method_count(step.method, step.entry.sender or "")
        method_count.messages += 1
        method_count.bytes += step.entry.size
        if step.kind == "request":
            method_count.unanswered += 1
        if step.method == "session/prompt" and step.kind == "request":
            turn = TurnStats(step.session, step.entry.at, number)
            self.turns.append(turn)
            open_turns = self._open_turns.setdefault((number, step.session), [])
            open_turns.append(_OpenTurn(turn, step, step.entry.at))
        elif step.method == "session/update":
            self._count_update(number, step)

    def _count_answer(self, number: int, step: TraceStep) -> None:
        if step.request is None or step.duration is None:
            return
        method_count = self._method_count(step.method, step.request.entry.sender or "")
        method_count.messages += 1
        method_count.bytes += step.entry.size
        method_count.durations.append(step.duration)
        method_count.unanswered -= 1
        method_count.errors += step.kind == "error"
        if step.method != "session/prompt":
            return
        for turn in self._open_turns.get((number, step.session), [])[:]:
            if turn.request is not step.request:
                continue
            if step.kind == "error":
                self._end_turn(number, turn, step, f"error {at(step.message, 'error', 'code')}")
            elif (reason := at(step.result, "stopReason")) is not None or turn.inserted:
                self._end_turn(number, turn, step, str(reason))
            else:
                turn.inserted = True

    def _end_turn(self, number: int, turn: _OpenTurn, step: TraceStep, outcome: str) -> None:
        self._open_turns[number, step.session].remove(turn)
        now, stats = step.entry.at, turn.turn
        stats.duration = now - stats.began
        stats.longest_gap = max(stats.longest_gap, now - turn.last_update)
        stats.outcome = outcome

    def _count_update(self, number: int, step: TraceStep) -> None:
        update = at(step.params, "update")
        kind = at(update, "sessionUpdate")
        self.updates[str(kind)] = self.updates.get(str(kind), 0) + 1
        open_turns = self._open_turns.get((number, step.session), [])
        if open_turns:
            self._count_turn_update(open_turns[0], step.entry.at, update)
        if kind == "state_update" and at(update, "state") == "idle":
            for turn in [one for one in open_turns if one.inserted]:
                self._end_turn(number, turn, step, str(at(update, "stopReason") or "idle"))

    def _count_turn_update(self, open_turn: _OpenTurn, now: float, update: Any) -> None:
        turn = open_turn.turn
        turn.updates += 1
        if turn.first_update is None:
            turn.first_update = now - turn.began
        turn.longest_gap = max(turn.longest_gap, now - open_turn.last_update)
        open_turn.last_update = now
        if at(update, "sessionUpdate") in _CHUNKS:
            text = at(update, "content", "text")
            turn.chunks += 1
            turn.characters += len(text) if isinstance(text, str) else 0
            if open_turn.first_chunk is None:
                open_turn.first_chunk = now
            turn.streaming_seconds = now - open_turn.first_chunk

    def _method_count(self, method: str, sender: str) -> MethodCount:
        return self.methods.setdefault((method, sender), MethodCount(method, sender))

    def as_json(self) -> dict[str, Any]:
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
                    "method": count.method,
                    "from": count.sender,
                    "messages": count.messages,
                    "bytes": count.bytes,
                    "errors": count.errors,
                    "unanswered": count.unanswered,
                    "answers": _percentiles(count.durations),
                }
                for count in self.methods.values()
            ],
            "turns": [
                {
                    "run": turn.run,
                    "session": turn.session,
                    "began": turn.began,
                    "seconds": turn.duration,
                    "first_update": turn.first_update,
                    "longest_gap": turn.longest_gap,
                    "updates": turn.updates,
                    "chunks": turn.chunks,
                    "characters": turn.characters,
                    "chunks_per_second": turn.rate,
                    "ended": turn.outcome or None,
                }
                for turn in self.turns
            ],
        }

    def lines(self) -> list[str]:
        """Return everything as lines of text."""
        sessions = len(self.sessions)
        lines = [
            f"{count_text(self.runs, 'run')}, {count_text(sessions, 'session')}, "
            f"{format_duration(self.seconds)}",
            *(
                f"  {side:<7} {count:>7} messages {format_size(total):>9}"
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
        for count in sorted(self.methods.values(), key=lambda count: -count.bytes):
            percentiles = _percentiles(count.durations)
            times = " ".join(
                f"{format_duration(percentiles[name]) if percentiles else '':>8}"
                for name in ("p50", "p95", "max")
            )
            lines.append(
                f"{cut_to_width(escape_controls(count.method), 34):<34} {count.sender:<6} "
                f"{count.messages:>6} "
                f"{format_size(count.bytes):>9} {times}  "
                f"{count.errors or '':>6} {count.unanswered or '':>10}".rstrip()
            )
        if self.updates:
            lines += ["", "updates"]
            lines += [
                f"  {cut_to_width(escape_controls(kind), 40):<40} {count:>7}"
                for kind, count in sorted(self.updates.items(), key=lambda pair: -pair[1])
            ]
        if self.turns:
            lines += [
                "",
                f"{'turn':>4}  {'session':<8} {'took':>9} {'first':>9} {'gap':>9} {'updates':>7} "
                f"{'chunks':>7} {'per s':>7}  ended",
            ]
        for number, turn in enumerate(self.turns, 1):
            duration, first_update = (
                format_duration(value) if value is not None else "-"
                for value in (turn.duration, turn.first_update)
            )
            rate = f"{turn.rate:.1f}" if turn.rate is not None else "-"
            lines.append(
                f"{number:>4}  {escape_controls(turn.session)[-8:]:<8} {duration:>9} {first_update:>9} "
                f"{format_duration(turn.longest_gap):>9} {turn.updates:>7} {turn.chunks:>7} {rate:>7}  "
                f"{escape_controls(turn.outcome) or 'not ended'}"
            )
        return lines


def _percentiles(durations: list[float]) -> dict[str, float]:
    if not durations:
        return {}
    ordered = sorted(durations)
    last = len(ordered) - 1
    return {"p50": ordered[last // 2], "p95": ordered[round(last * 0.95)], "max": ordered[-1]}
