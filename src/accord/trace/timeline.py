"""A recording as lines for people: who said what, when, how long it took, and what broke the protocol."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from accord.trace.exchange import Exchange, Fault, Step
from accord.trace.filters import Filters, began_at
from accord.trace.judge import Judge
from accord.trace.lines import Damaged, Entry, Start
from accord.trace.summary import clean, clean_lines, cut, duration, size, summary

_MOST_NAMES: Final = 50
_ARROWS: Final = {"client": "→", "agent": "←", "stderr": "·"}
_COLOURS: Final = {
    "client": "36",
    "agent": "32",
    "stderr": "2",
    "fault": "33",
    "error": "31",
    "head": "1",
    "dim": "2",
}


class Look(Struct, frozen=True):
    """How a timeline is drawn."""

    width: int = 0
    """Characters of a line; 0 does not cut."""
    colours: bool = False
    full: bool = False
    """Every message whole, below its line."""
    plain: bool = False
    """Nothing but ASCII."""

    def paint(self, text: str, colour: str) -> str:
        """The text in a colour, where colours are wanted."""
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.colours and text else text


class _Run:
    def __init__(self, number: int, start: Start | None) -> None:
        self.number = number
        self.start = start
        self.exchange = Exchange()
        self.judge = Judge()


class Timeline:
    """Reads a recording, one finding after the other, and tells what becomes of each."""

    def __init__(self, filters: Filters = Filters(), *, run: int | None = None) -> None:  # noqa: B008 - it is frozen
        self.filters = filters
        self.faults = 0
        self.damaged: list[Damaged] = []
        self._wanted = run
        self._runs: dict[str, _Run] = {}
        self._taken = self._shown = 0
        self._methods: dict[str, None] = {}
        self._sessions: dict[str, None] = {}

    def steps(self, found: Iterable[Start | Entry | Damaged]) -> Iterator[tuple[int, Start | Step]]:
        """The number of a run, with its beginning or with a step of it that is wanted."""
        for one in found:
            if isinstance(one, Damaged):
                self.damaged.append(one)
                continue
            run = self._runs.get(one.run)
            if run is None:
                run = self._runs[one.run] = _Run(len(self._runs) + 1, one if isinstance(one, Start) else None)
            if self._wanted is not None and run.number != self._wanted:
                continue
            if isinstance(one, Start):
                run.start = one
                yield run.number, one
                continue
            step = run.judge.look(run.exchange.take(one))
            self.faults += len(step.faults)
            self._taken += 1
            for known, name in ((self._methods, step.method), (self._sessions, step.session)):
                if name and len(known) < _MOST_NAMES:
                    known[name] = None
            if self.filters.wants(step, run.start):
                self._shown += 1
                yield run.number, step

    def owed(self) -> list[tuple[int, Step, Fault]]:
        """What was never answered, with the number of its run."""
        found: list[tuple[int, Step, Fault]] = []
        for run in self._runs.values():
            for step, fault in run.judge.finish(run.exchange):
                step.faults.append(fault)
                if self.filters.wants(step, run.start):
                    found.append((run.number, step, fault))
        self.faults += len(found)
        return found

    def remarks(self) -> list[str]:
        """What is to be said about the file itself."""
        remarks: list[str] = []
        cut_off = sum(not one.whole for one in self.damaged)
        odd = len(self.damaged) - cut_off
        if cut_off:
            remarks.append("the recording was cut off in the middle of its last line")
        if odd:
            remarks.append(
                f"{odd} line{'s' if odd > 1 else ''} of the file could not be read: {self.damaged[0].reason}"
            )
        if self._wanted is not None and all(run.number != self._wanted for run in self._runs.values()):
            remarks.append(f"there is no run {self._wanted}; the file has {len(self._runs)}")
        elif self._taken and not self._shown:
            remarks.append(self._nothing())
        return remarks

    def _nothing(self) -> str:
        """Why nothing is shown, and what could be."""
        filters, sentence = self.filters, f"nothing of {self._taken} messages is what you look for"
        if filters.only_faults and not self.faults:
            return f"{sentence}: none breaks a rule"
        for asked, known, what in (
            (filters.methods, self._methods, "methods"),
            (filters.sessions, self._sessions, "sessions"),
        ):
            if asked and not any(filters.names(name, what) for name in known):
                there = ", ".join(cut(clean(name), 60) for name in known)
                return (
                    f"{sentence}: there is no {clean(' or '.join(asked))}; the {what} are {there or 'none'}"
                )
        return sentence


def start_line(number: int, start: Start, look: Look) -> str:
    """The line above a run."""
    began = began_at(start)
    when = f"{began:%Y-%m-%d %H:%M:%S}" if began else start.started
    words = [f"run {number}", when, clean(" ".join(start.command) or start.by)]
    if not start.redacted:
        words.append("secrets are in it")
    line = (" - " if look.plain else " · ").join(word for word in words if word)
    return look.paint(_fit(line, look), "head")


def step_lines(step: Step, look: Look) -> list[str]:
    """One step, and below it what is wrong with it."""
    entry = step.entry
    arrow = _ARROWS.get(entry.sender or "", "×") if entry.kind in ("frame", "cut", "stderr") else "×"
    if look.plain:
        arrow = {"→": "->", "←": "<-", "·": "| ", "×": "x "}[arrow]
    took = "" if step.took is None else duration(step.took)
    shown = size(entry.size) if entry.kind in ("frame", "cut", "stderr") else ""
    session = f"[{clean(step.session)[-6:]}] " if step.session else ""
    head = f"{entry.at:>10.3f}  {arrow}  {cut(_name(step), 34):<34} {took:>9} {shown:>8}  "
    # Most of a long message is never shown: only what can be is cleaned.
    said = summary(step)[: look.width or 2000]
    line = _fit(head + session + clean(said), look).rstrip()
    colour = "error" if step.kind in ("error", "exit", "lost") else entry.sender or "dim"
    if look.colours and len(line) > len(head):
        line = look.paint(line[: len(head)], colour) + line[len(head) :]
    lines = [_ascii(line) if look.plain else line]
    if look.full and step.message is not None:
        body = json.dumps(step.message, indent=2, ensure_ascii=look.plain)
        lines += [f"{'':>14} {part}" for part in clean_lines(body).split("\n")]
    return lines + [fault_line(fault, look) for fault in step.faults]


def fault_line(fault: Fault, look: Look, where: str = "") -> str:
    """What is wrong, on a line of its own."""
    line = f"{where:>10}  {'! ' if look.plain else '!'}  {clean(str(fault))}"
    return look.paint(_fit(_ascii(line) if look.plain else line, look), "fault")


def as_object(number: int, step: Step) -> dict[str, Any]:
    """A step for programs."""
    entry = step.entry
    found: dict[str, Any] = {
        "run": number,
        "step": step.number,
        "t": round(entry.at, 6),
        "from": entry.sender,
        "kind": step.kind,
        "method": step.method or None,
        "id": step.id,
        "session": step.session or None,
        "size": entry.size,
        "ms": None if step.took is None else round(step.took * 1000, 3),
        "message": step.message,
        "text": entry.text if step.message is None and entry.kind in ("frame", "cut", "stderr") else None,
        "summary": summary(step) if step.kind in ("closed", "exit", "lost") else None,
        "faults": [{"rule": fault.rule, "text": fault.text} for fault in step.faults] or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def unanswered(number: int, step: Step, fault: Fault) -> dict[str, Any]:
    """A call without an answer, for programs: what is known at the end only."""
    found = as_object(number, step)
    kept = {
        name: found[name] for name in ("run", "step", "t", "from", "method", "id", "session") if name in found
    }
    return {**kept, "kind": "unanswered", "faults": [{"rule": fault.rule, "text": fault.text}]}


def _name(step: Step) -> str:
    mark = {"answer": " =", "error": " ="}.get(step.kind, "")
    name = step.method or {"answer": "answer", "error": "error"}.get(
        step.kind, "" if step.kind != "noise" else "no message"
    )
    if step.entry.kind == "stderr":
        name = "stderr"
    elif step.entry.kind != "frame":
        name = step.kind
    id = f" #{clean(str(step.id))}" if step.id is not None else ""
    return f"{clean(name)}{mark}{id}"


def _fit(line: str, look: Look) -> str:
    return cut(line, look.width) if look.width else line


def _ascii(line: str) -> str:
    return line.replace("µ", "u").replace("…", "~").encode("ascii", "backslashreplace").decode()
