"""Reads recordings back, complete or growing; filters steps by method, session, sender and time."""

import os
import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct, field

from accord.errors import UsageError
from accord.trace.trace_format import DamagedLine, TraceEntry, TraceStart, read_line
from accord.trace.trace_steps import TraceStep

# MERGED trace.reading: Recordings read back from their file, whole or while they grow, however they were cut off.

_READ: Final = 1024 * 1024
_LOOK_AGAIN: Final = 0.1


class TraceRun(Struct):
    """One run of a recording: its beginning, if that is in the file, and what happened."""

    name: str
    start: TraceStart | None = None
    entries: list[TraceEntry] = field(default_factory=list[TraceEntry])


class Wait(Protocol):
    """How to wait for more to be written; False when nobody waits any longer."""

    def __call__(self) -> bool: ...


def lines_in(path: str, wait: Wait | None = None) -> Iterator[TraceStart | TraceEntry | DamagedLine]:
    """Everything the file says, in its order; with `wait`, also what is written later. Raises `UsageError`."""
    sound = False
    for line, whole in _raw_lines(path, wait):
        found = read_line(line)
        if isinstance(found, DamagedLine):
            if found.newer:
                raise UsageError(f"{path} cannot be read: {found.reason}; update accord")
            if not sound and whole:
                raise UsageError(f"{path} is no trace: {found.reason}; accord trace record makes one")
            found = DamagedLine(found.line, found.reason if whole else "the line was cut off", whole)
        if found is not None:
            sound = True
            yield found
    if not sound and wait is None:
        raise UsageError(f"{path} is empty: nothing was recorded")


def runs_in(path: str) -> list[TraceRun]:
    """The runs of a recording, in the order in which they began."""
    runs: dict[str, TraceRun] = {}
    for found in lines_in(path):
        if isinstance(found, DamagedLine):
            continue
        run = runs.setdefault(found.run, TraceRun(found.run))
        if isinstance(found, TraceStart):
            run.start = found
        else:
            run.entries.append(found)
    return list(runs.values())


def choose(runs: list[TraceRun], number: int | None, path: str) -> TraceRun:
    """The run of this number, from 1; from the end if it is negative, the last with anything in it if it is None."""
    if number is None:
        spoken = [run for run in runs if run.entries]
        return (spoken or runs)[-1]
    place = number - 1 if number > 0 else len(runs) + number
    if number == 0 or not 0 <= place < len(runs):
        raise UsageError(f"{path} has no run {number}; it has {len(runs)}, counted from 1")
    return runs[place]


def newest() -> str:
    """The newest recording that was made without naming a file."""
    from accord.paths import data_dir

    folder = data_dir() / "traces"
    try:
        found = sorted(folder.glob("*.jsonl"), key=_changed)
    except OSError:
        found = []
    if not found:
        raise UsageError(
            f"there is no recording in {folder}; name a FILE, or make one: accord trace record -- COMMAND"
        )
    return str(found[-1])


def look_again() -> bool:
    """Wait a moment for a file to grow."""
    time.sleep(_LOOK_AGAIN)
    return True


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _raw_lines(path: str, wait: Wait | None) -> Iterator[tuple[bytes, bool]]:
    """Every line, and whether it has its end."""
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below, whoever gives up reading
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{path} cannot be read ({reason}); name a recording") from None
    with file:
        rest: list[bytes] = []
        while True:
            try:
                data = file.read(_READ)
            except OSError as error:
                raise UsageError(f"{path} cannot be read ({error.strerror}); name a recording") from None
            if data:
                *lines, last = data.split(b"\n")
                if lines:
                    yield b"".join((*rest, lines[0])), True
                    yield from ((line, True) for line in lines[1:])
                    rest = []
                if last:
                    rest.append(last)
            elif wait is None or not wait():
                break
            elif os.fstat(file.fileno()).st_size < file.tell():
                file.seek(0)  # somebody emptied it
                rest = []
        if rest:
            yield b"".join(rest), False


# MERGED trace.filters: Which steps of a recording somebody wants to see: by method, session, sender and time.

_SPAN: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(s|ms)?)?")
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?")


class TimePoint(Struct, frozen=True):
    """A time: seconds of a run, a time of day, or a whole date."""

    seconds: float | None = None
    of_day: float | None = None
    when: datetime | None = None

    def in_run(self, start: TraceStart | None) -> float | None:
        """This moment in the seconds of a run; None where the run does not say when it began."""
        if self.seconds is not None:
            return self.seconds
        began = began_at(start)
        if began is None:
            return None
        if self.when is not None:
            return (self.when - began).total_seconds()
        midnight = began.replace(hour=0, minute=0, second=0, microsecond=0)
        return (midnight + timedelta(seconds=self.of_day or 0.0) - began).total_seconds()


class StepFilter(Struct, frozen=True):
    """What is to be shown; everything where nothing is said."""

    methods: Sequence[str] = ()
    sessions: Sequence[str] = ()
    senders: Sequence[str] = ()
    since: TimePoint | None = None
    until: TimePoint | None = None
    only_faults: bool = False

    def wants(self, step: TraceStep, start: TraceStart | None) -> bool:
        """Whether this step is to be shown."""
        if self.methods and not self.names(step.method, "methods"):
            return False
        if self.sessions and not self.names(step.session, "sessions"):
            return False
        if self.senders and step.entry.sender not in self.senders:
            return False
        if self.only_faults and not step.faults:
            return False
        since = self.since.in_run(start) if self.since else None
        until = self.until.in_run(start) if self.until else None
        return (since is None or step.entry.at >= since) and (until is None or step.entry.at <= until)

    def names(self, name: str, what: str) -> bool:
        """Whether one of the `methods` or `sessions` that are looked for is this. Of a session, a timeline shows the end."""
        if what == "methods":
            return any(fnmatchcase(name, method) for method in self.methods)
        return bool(name) and any(name.startswith(one) or name.endswith(one) for one in self.sessions)


def read_moment(text: str) -> TimePoint:
    """`12.5`, `250ms`, `1m30s` of a run; `14:03` or `14:03:27` of the day; or a date with its time."""
    span = _SPAN.fullmatch(text)
    if text and span is not None:
        hours, minutes, seconds, unit = span.groups()
        rest = float(seconds or 0) / (1000 if unit == "ms" else 1)
        return TimePoint(seconds=int(hours or 0) * 3600 + int(minutes or 0) * 60 + rest)
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        hours, minutes, seconds = clock.groups()
        return TimePoint(of_day=int(hours) * 3600 + int(minutes) * 60 + float(seconds or 0))
    try:
        return TimePoint(when=datetime.fromisoformat(text).astimezone(UTC))
    except ValueError:
        raise UsageError(
            f"{text!r} is no time; give seconds of the run (12.5, 1m30s), a time of day (14:03:27) or a date"
        ) from None


def began_at(start: TraceStart | None) -> datetime | None:
    """When a run began, in the reader's own zone."""
    try:
        return None if start is None else datetime.fromisoformat(start.started).astimezone()
    except ValueError:
        return None
