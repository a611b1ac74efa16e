"""Recordings read back from their file, whole or while they grow, however they were cut off."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct, field

from accord.errors import UsageError
from accord.trace.lines import Damaged, Entry, Start, read_line

_READ: Final = 1024 * 1024
_LOOK_AGAIN: Final = 0.1


class Run(Struct):
    """One run of a recording: its beginning, if that is in the file, and what happened."""

    name: str
    start: Start | None = None
    entries: list[Entry] = field(default_factory=list[Entry])


class Wait(Protocol):
    """How to wait for more to be written; False when nobody waits any longer."""

    def __call__(self) -> bool: ...


def lines_in(path: str, wait: Wait | None = None) -> Iterator[Start | Entry | Damaged]:
    """Everything the file says, in its order; with `wait`, also what is written later. Raises `UsageError`."""
    sound = False
    for line, whole in _raw_lines(path, wait):
        found = read_line(line)
        if isinstance(found, Damaged):
            if found.newer:
                raise UsageError(f"{path} cannot be read: {found.reason}; update accord")
            if not sound and whole:
                raise UsageError(f"{path} is no trace: {found.reason}; accord trace record makes one")
            found = Damaged(found.line, found.reason if whole else "the line was cut off", whole)
        if found is not None:
            sound = True
            yield found
    if not sound and wait is None:
        raise UsageError(f"{path} is empty: nothing was recorded")


def runs_in(path: str) -> list[Run]:
    """The runs of a recording, in the order in which they began."""
    runs: dict[str, Run] = {}
    for found in lines_in(path):
        if isinstance(found, Damaged):
            continue
        run = runs.setdefault(found.run, Run(found.run))
        if isinstance(found, Start):
            run.start = found
        else:
            run.entries.append(found)
    return list(runs.values())


def choose(runs: list[Run], number: int | None, path: str) -> Run:
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
