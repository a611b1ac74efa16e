"""The latest of what crosses a connection, kept in memory for whoever looks while it runs.

Bounded in frames and in bytes. Each frame is known by its side, time, method, session and the call it answers, even
after that call has left the ring. Secrets are taken out of what is shown, not of what is held.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.clock import SYSTEM_CLOCK, Clock
from accord.trace.blocks import StderrLines
from accord.trace.credentials import redact_text
from accord.trace.exchange import Exchange, Step, StepKind, id_key
from accord.trace.lines import Entry, Sender, Side, entry_of, stderr_entry
from accord.wire.envelope import Envelope, decode_envelope
from accord.wire.transport import End, Frame, Oversized

_MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_OPEN: Final = 10_000  # calls of one side that nobody answers are remembered so far
_LONGEST_NAME: Final = 256
_BEGINNING: Final = 4096

Watcher = Callable[[list["Seen"]], None]


class Seen(Struct, eq=False, kw_only=True):
    """One thing that crossed, `at` seconds after the ring was made; `number` counts from 1 and is never used twice.

    `method` and `session` of an answer are those of its call, `took` is how long it was in coming. `size` is that of
    the wire, also where only the beginning was kept.
    """

    number: int
    at: float
    sender: Sender
    kind: StepKind
    method: str = ""
    id: int | str | None = None
    session: str = ""
    took: float | None = None
    size: int = 0
    frame: Frame | Entry
    """As it crossed, secrets included; an `Entry` for what is no frame."""
    redact: bool = True

    @property
    def entry(self) -> Entry:
        """As a recording would keep it, without secrets. Worked out anew each time: ask for what is on the screen."""
        if isinstance(self.frame, Entry):
            return self.frame
        assert self.sender != "stderr"
        return entry_of(self.at, self.sender, self.frame, redact=self.redact)

    @property
    def step(self) -> Step:
        """The same as a step of a recording, for `summary` and `step_lines`."""
        step = Exchange().take(self.entry)
        step.number, step.method, step.session = self.number, self.method, self.session
        if self.took is not None:
            call = Entry(at=self.at - self.took, kind="frame")
            step.asked = Step(0, call, "request", method=self.method, id=step.id, session=self.session)
        return step


class Ring:
    """The last `limit` frames and at most `most_bytes` of them: a sink for `Tapped`.

    `missed` counts what fell out. One ring may see one connection after the other, as when an agent is restarted.
    """

    def __init__(
        self,
        limit: int = 1000,
        *,
        redact: bool = True,
        most_bytes: int = _MOST_BYTES,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.missed = 0
        self._limit = max(limit, 1)
        self._most = most_bytes
        self._redact = redact
        self._clock = clock
        self._began = clock.now()
        self._count = 0
        self._seen: deque[Seen] = deque()
        self._bytes = 0
        self._stderr = StderrLines()
        self._open: dict[Side, dict[str, Seen]] = {"client": {}, "agent": {}}
        self._watchers: dict[object, Watcher] = {}

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def seen(self) -> list[Seen]:
        """What is in the ring, oldest first."""
        return list(self._seen)

    def entries(self) -> list[Entry]:
        """The same as a recording would keep it."""
        return [seen.entry for seen in self._seen]

    def subscribe(self, watcher: Watcher) -> Callable[[], None]:
        """Tell the watcher of everything from now on, inside the call that brings it; the result ends that.

        It must not block. One that raises is told nothing more; the connection does not feel it.
        """
        key = object()
        self._watchers[key] = watcher

        def unsubscribe() -> None:
            self._watchers.pop(key, None)

        return unsubscribe

    # -- what a sink is told ------------------------------------------------------------------------------------

    def note(self, sender: Side, frames: Sequence[Frame]) -> None:
        now = self._now()
        self._add([self._understood(now, sender, frame) for frame in frames])

    def note_stderr(self, line: str) -> None:
        """A line the agent wrote to stderr: give this to whatever reports those."""
        raw = line.encode(errors="replace")
        entry = stderr_entry(self._now(), raw, redact=self._redact, lines=self._stderr)
        self._add([self._other("stderr", entry, len(raw))])

    def ended(self, end: End, sender: Side) -> None:
        now = self._now()
        reason = redact_text(end.reason) if self._redact else end.reason
        told = [self._other(sender, Entry(at=now, kind="closed", sender=sender, reason=reason))]
        if end.exit_code is not None or end.signal is not None:
            exit = Entry(at=now, kind="exit", code=end.exit_code, signal=end.signal)
            told.append(self._other(sender, exit))
        for waiting in self._open.values():
            waiting.clear()  # the next connection counts its calls anew
        self._add(told)

    async def aclose(self) -> None:
        """Nothing: what was seen can still be looked at."""

    # -- keeping it ---------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._clock.now() - self._began

    def _other(self, sender: Sender, entry: Entry, size: int = 0) -> Seen:
        self._count += 1
        assert entry.kind != "frame"
        return Seen(number=self._count, at=entry.at, sender=sender, kind=entry.kind, size=size, frame=entry)

    def _understood(self, now: float, sender: Side, frame: Frame) -> Seen:
        self._count += 1
        seen = Seen(number=self._count, at=now, sender=sender, kind="cut", frame=frame, redact=self._redact)
        if not isinstance(frame, bytes):
            seen.size = frame.size
            return seen
        seen.size = len(frame)
        self._name(seen, sender, _envelope(frame))
        if len(frame) > self._most:
            seen.frame = Oversized(len(frame), frame[:_BEGINNING], b"")
        return seen

    def _name(self, seen: Seen, sender: Side, envelope: Envelope | None) -> None:
        if envelope is None:
            seen.kind = "noise"
            return
        seen.id = None if envelope.id is UNSET else envelope.id
        if envelope.method is not UNSET:
            seen.kind = "notification" if envelope.id is UNSET else "request"
            seen.method = envelope.method[:_LONGEST_NAME]
            seen.session = _session(envelope.params)
            if seen.kind == "request":
                waiting = self._open[sender]
                waiting[id_key(seen.id)] = seen
                if len(waiting) > _MOST_OPEN:
                    del waiting[next(iter(waiting))]
            return
        if not envelope.result and not envelope.error:
            seen.kind = "noise"
            return
        seen.kind = "error" if envelope.error else "answer"
        call = self._open["agent" if sender == "client" else "client"].pop(id_key(seen.id), None)
        if call is not None:
            seen.method, seen.took = call.method, seen.at - call.at
            seen.session = call.session = call.session or _session(envelope.result)

    def _add(self, news: list[Seen]) -> None:
        seen = self._seen
        for one in news:
            seen.append(one)
            self._bytes += _held(one.frame)
        while len(seen) > self._limit or self._bytes > self._most:
            self._bytes -= _held(seen.popleft().frame)
            self.missed += 1
        for key, watcher in list(self._watchers.items()):
            try:
                watcher(news)
            except Exception as error:  # noqa: BLE001 - whoever looks on must not cost the connection
                self._watchers.pop(key, None)
                _report(error)


def _report(error: Exception) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    loop.call_exception_handler(
        {"message": "somebody who watched a connection failed, and is told no more", "exception": error}
    )


def _held(frame: Frame | Entry) -> int:
    if isinstance(frame, bytes):
        return len(frame)
    return len(frame.data) if isinstance(frame, Entry) else len(frame.head) + len(frame.tail)


def _envelope(frame: bytes) -> Envelope | None:
    try:
        return decode_envelope(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


class _Scope(Struct, rename="camel", gc=False):
    session_id: str = ""


_decode_scope = msgspec.json.Decoder(_Scope).decode


def _session(members: Raw) -> str:
    if not members:
        return ""
    try:
        return _decode_scope(members).session_id[:_LONGEST_NAME]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
