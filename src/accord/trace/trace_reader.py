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
from accord.file_format import NewerFormat, newer_format
from accord.trace.trace_format import VERSION, DamagedLine, TraceEntry, TraceStart, parse_line
from accord.trace.trace_steps import TraceStep

_READ_SIZE: Final = 1024 * 1024
_POLL_SECONDS: Final = 0.1
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(s|ms)?)?")
_TIME_OF_DAY: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?")


class TraceRun(Struct):
    """One run of a recording: its start, if the file has it, and its entries."""

    name: str
    start: TraceStart | None = None
    entries: list[TraceEntry] = field(default_factory=list[TraceEntry])


class WaitForGrowth(Protocol):
    """Waits until the file may have grown. Returns False to stop reading."""

    def __call__(self) -> bool: ...


def read_lines(
    path: str, wait: WaitForGrowth | None = None
) -> Iterator[TraceStart | TraceEntry | DamagedLine]:
    """Yield all lines of the file, in order; with `wait`, also lines appended later. Raises UsageError."""
    valid = False
    for line, complete in _read_raw_lines(path, wait):
        line_content = parse_line(line)
        if isinstance(line_content, DamagedLine):
            if line_content.newer:
                raise NewerFormat(newer_format(path, line_content.newer, VERSION))
            if not valid and complete:
                raise UsageError(
                    f"{path} is not a recording ({line_content.reason}); use `accord trace record`"
                )
            line_content = DamagedLine(
                line_content.line, line_content.reason if complete else "the line was cut off", complete
            )
        if line_content is not None:
            valid = True
            yield line_content
    if not valid and wait is None:
        raise UsageError(f"{path} is empty; nothing was recorded")


def read_runs(path: str) -> list[TraceRun]:
    """Return the runs of a recording, in the order of their starts."""
    runs: dict[str, TraceRun] = {}
    for line_content in read_lines(path):
        if isinstance(line_content, DamagedLine):
            continue
        run = runs.setdefault(line_content.run, TraceRun(line_content.run))
        if isinstance(line_content, TraceStart):
            run.start = line_content
        else:
            run.entries.append(line_content)
    return list(runs.values())


def choose_run(runs: list[TraceRun], number: int | None, path: str) -> TraceRun:
    """Return a run by number, from 1, or from the end if negative. None means the last run with entries."""
    if number is None:
        with_entries = [run for run in runs if run.entries]
        return (with_entries or runs)[-1]
    index = number - 1 if number > 0 else len(runs) + number
    if number == 0 or not 0 <= index < len(runs):
        raise UsageError(f"{path} has no run {number}; it has {len(runs)}, numbered from 1")
    return runs[index]


def newest_recording() -> str:
    """Return the path of the newest recording in the default folder. Raises UsageError."""
    from accord.paths import data_dir

    folder = data_dir() / "traces"
    try:
        recordings = sorted(folder.glob("*.jsonl"), key=_modified_at)
    except OSError:
        recordings = []
    if not recordings:
        raise UsageError(f"no recordings in {folder}; pass a FILE, or run `accord trace record -- COMMAND`")
    return str(recordings[-1])


def wait_for_growth() -> bool:
    """Wait a moment for a file to grow."""
    time.sleep(_POLL_SECONDS)
    return True


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _read_raw_lines(path: str, wait: WaitForGrowth | None) -> Iterator[tuple[bytes, bool]]:
    """Yield every line, and whether it has its line end."""
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot read {path} ({reason}); pass the path of a recording") from None
    with file:
        unfinished: list[bytes] = []
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
                    yield b"".join((*unfinished, lines[0])), True
                    yield from ((line, True) for line in lines[1:])
                    unfinished = []
                if last:
                    unfinished.append(last)
            elif wait is None or not wait():
                break
            elif os.fstat(file.fileno()).st_size < file.tell():
                file.seek(0)  # the file was truncated
                unfinished = []
        if unfinished:
            yield b"".join(unfinished), False


class TimePoint(Struct, frozen=True):
    """A point in time: seconds of a run, a time of day, or a date."""

    seconds: float | None = None
    time_of_day: float | None = None
    date: datetime | None = None

    def seconds_in_run(self, start: TraceStart | None) -> float | None:
        """Return the time in seconds of a run, or None if the start of the run is unknown."""
        if self.seconds is not None:
            return self.seconds
        started = start_time(start)
        if started is None:
            return None
        if self.date is not None:
            return (self.date - started).total_seconds()
        midnight = started.replace(hour=0, minute=0, second=0, microsecond=0)
        return (midnight + timedelta(seconds=self.time_of_day or 0.0) - started).total_seconds()


class StepFilter(Struct, frozen=True):
    """Which steps to show. Empty members do not restrict."""

    methods: Sequence[str] = ()
    sessions: Sequence[str] = ()
    senders: Sequence[str] = ()
    since: TimePoint | None = None
    until: TimePoint | None = None
    only_faults: bool = False

    def accepts(self, step: TraceStep, start: TraceStart | None) -> bool:
        """Tell whether to show a step."""
        if self.methods and not self.matches(step.method, "methods"):
            return False
        if self.sessions and not self.matches(step.session, "sessions"):
            return False
        if self.senders and step.entry.sender not in self.senders:
            return False
        if self.only_faults and not step.faults:
            return False
        since = self.since.seconds_in_run(start) if self.since else None
        until = self.until.seconds_in_run(start) if self.until else None
        return (since is None or step.entry.at >= since) and (until is None or step.entry.at <= until)

    def matches(self, name: str, filter_name: str) -> bool:
        """Tell whether a name matches the "methods" or the "sessions". Sessions match by prefix or suffix."""
        if filter_name == "methods":
            return any(fnmatchcase(name, method) for method in self.methods)
        return bool(name) and any(
            name.startswith(pattern) or name.endswith(pattern) for pattern in self.sessions
        )


def parse_time_point(text: str) -> TimePoint:
    """Parse `12.5`, `250ms` or `1m30s` of a run, `14:03` or `14:03:27` of the day, or a date with a time."""
    duration_match = _DURATION.fullmatch(text)
    if text and duration_match is not None:
        hours, minutes, seconds, unit = duration_match.groups()
        total_seconds = float(seconds or 0) / (1000 if unit == "ms" else 1)
        return TimePoint(seconds=int(hours or 0) * 3600 + int(minutes or 0) * 60 + total_seconds)
    time_match = _TIME_OF_DAY.fullmatch(text)
    if time_match is not None:
        hours, minutes, seconds = time_match.groups()
        return TimePoint(time_of_day=int(hours) * 3600 + int(minutes) * 60 + float(seconds or 0))
    try:
        return TimePoint(date=datetime.fromisoformat(text).astimezone(UTC))
    except ValueError:
        raise UsageError(
            f"{text!r} is not a time; use seconds of the run (12.5, 1m30s), a time (14:03:27) or a date"
        ) from None


def start_time(start: TraceStart | None) -> datetime | None:
    """Return when a run began, in the local time zone."""
    try:
        return None if start is None else datetime.fromisoformat(start.started).astimezone()
    except ValueError:
        return None
