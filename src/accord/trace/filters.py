"""Which steps of a recording somebody wants to see: by method, session, sender and time."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from accord.errors import UsageError
from accord.trace.exchange import Step
from accord.trace.lines import Start

_SPAN: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(s|ms)?)?")
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?")


class Moment(Struct, frozen=True):
    """A time: seconds of a run, a time of day, or a whole date."""

    seconds: float | None = None
    of_day: float | None = None
    when: datetime | None = None

    def in_run(self, start: Start | None) -> float | None:
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


class Filters(Struct, frozen=True):
    """What is to be shown; everything where nothing is said."""

    methods: Sequence[str] = ()
    sessions: Sequence[str] = ()
    senders: Sequence[str] = ()
    since: Moment | None = None
    until: Moment | None = None
    only_faults: bool = False

    def wants(self, step: Step, start: Start | None) -> bool:
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


def read_moment(text: str) -> Moment:
    """`12.5`, `250ms`, `1m30s` of a run; `14:03` or `14:03:27` of the day; or a date with its time."""
    span = _SPAN.fullmatch(text)
    if text and span is not None:
        hours, minutes, seconds, unit = span.groups()
        rest = float(seconds or 0) / (1000 if unit == "ms" else 1)
        return Moment(seconds=int(hours or 0) * 3600 + int(minutes or 0) * 60 + rest)
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        hours, minutes, seconds = clock.groups()
        return Moment(of_day=int(hours) * 3600 + int(minutes) * 60 + float(seconds or 0))
    try:
        return Moment(when=datetime.fromisoformat(text).astimezone(UTC))
    except ValueError:
        raise UsageError(
            f"{text!r} is no time; give seconds of the run (12.5, 1m30s), a time of day (14:03:27) or a date"
        ) from None


def began_at(start: Start | None) -> datetime | None:
    """When a run began, in the reader's own zone."""
    try:
        return None if start is None else datetime.fromisoformat(start.started).astimezone()
    except ValueError:
        return None
