"""Reads recordings, complete, growing or cut off; filters steps by method, session, sender and time."""

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

_READ_SIZE: Final = 1024 * 1024
_POLL_SECONDS: Final = 0.1
_SPAN: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(s|ms)?)?")
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?")


class TraceRun(Struct):
    """One run of a recording: its start, if the file has it, and its entries."""

    name: str
    start: TraceStart | None = None
    entries: list[TraceEntry] = field(default_factory=list[TraceEntry])


class Wait(Protocol):
    """Waits until the file may have grown. Returns False to stop reading."""

    def __call__(self) -> bool: ...


def lines_in(path: str, wait: Wait | None = None) -> Iterator[TraceStart | TraceEntry | DamagedLine]:
    """Yield everything in the file, in order; with `wait`, also what is appended later. Raises UsageError."""
    valid = False
    for line, whole in _raw_lines(path, wait):
        found = read_line(line)
        if isinstance(found, DamagedLine):
            if found.newer:
                raise UsageError(f"cannot read {path} ({found.reason}); update accord")
            if not valid and whole:
                raise UsageError(f"{path} is not a recording ({found.reason}); use `accord trace record`")
            found = DamagedLine(found.line, found.reason if whole else "the line was cut off", whole)
        if found is not None:
            valid = True
            yield found
    if not valid and wait is None:
        raise UsageError(f"{path} is empty; nothing was recorded")


def runs_in(path: str) -> list[TraceRun]:
    """Return the runs of a recording, in the order of their starts."""
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
    """Return a run by number, from 1, or from the end if negative. None means the last run with entries."""
    if number is None:
        with_entries = [run for run in runs if run.entries]
        return (with_entries or runs)[-1]
    place = number - 1 if number > 0 else len(runs) + number
    if number == 0 or not 0 <= place < len(runs):
        raise UsageError(f"{path} has no run {number}; it has {len(runs)}, numbered from 1")
    return runs[place]


def newest() -> str:
    """Return the path of the newest recording in the default folder. Raises UsageError."""
    from accord.paths import data_dir

    folder = data_dir() / "traces"
    try:
        found = sorted(folder.glob("*.jsonl"), key=_changed)
    except OSError:
        found = []
    if not found:
        raise UsageError(f"no recordings in {folder}; pass a FILE, or run `accord trace record -- COMMAND`")
    return str(found[-1])


def wait_for_growth() -> bool:
    """Wait a moment for a file to grow."""
    time.sleep(_POLL_SECONDS)
    return True


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _raw_lines(path: str, wait: Wait | None) -> Iterator[tuple[bytes, bool]]:
    """Yield every line, and whether its line end is there."""
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot read {path} ({reason}); pass the path of a recording") from None
    with file:
        rest: list[bytes] = []
        while True:
            try:
                data = file.read(_READ_SIZE)
            except OSError as error:
                raise UsageError(
                    f"cannot read {path} ({error.strerror}); pass the path of a recording"
                ) from None
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
                file.seek(0)  # the file was truncated
                rest = []
        if rest:
            yield b"".join(rest), False


class TimePoint(Struct, frozen=True):
    """A point in time: seconds of a run, a time of day, or a date."""

    seconds: float | None = None
    of_day: float | None = None
    when: datetime | None = None

    def in_run(self, start: TraceStart | None) -> float | None:
        """Return the time in seconds of a run, or None if the start of the run is unknown."""
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
    """Which steps to show. Empty members do not restrict."""

    methods: Sequence[str] = ()
    sessions: Sequence[str] = ()
    senders: Sequence[str] = ()
    since: TimePoint | None = None
    until: TimePoint | None = None
    only_faults: bool = False

    def wants(self, step: TraceStep, start: TraceStart | None) -> bool:
        """Tell whether to show a step."""
        if self.methods and not self.matches(step.method, "methods"):
            return False
        if self.sessions and not self.matches(step.session, "sessions"):
            return False
        if self.senders and step.entry.sender not in self.senders:
            return False
        if self.only_faults and not step.faults:
            return False
        since = self.since.in_run(start) if self.since else None
        until = self.until.in_run(start) if self.until else None
        return (since is None or step.entry.at >= since) and (until is None or step.entry.at <= until)

    def matches(self, name: str, what: str) -> bool:
        """Tell whether a name matches the "methods" or "sessions". A session matches by its start or end."""
        if what == "methods":
            return any(fnmatchcase(name, method) for method in self.methods)
        return bool(name) and any(name.startswith(one) or name.endswith(one) for one in self.sessions)


def read_moment(text: str) -> TimePoint:
    """Parse `12.5`, `250ms` or `1m30s` of a run, `14:03` or `14:03:27` of the day, or a date with a time."""
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
            f"{text!r} is not a time; use seconds of the run (12.5, 1m30s), a time (14:03:27) or a date"
        ) from None


def began_at(start: TraceStart | None) -> datetime | None:
    """Return when a run began, in the local time zone."""
    try:
        return None if start is None else datetime.fromisoformat(start.started).astimezone()
    except ValueError:
        return None
