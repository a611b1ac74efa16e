"""A sink that keeps the latest frames in memory."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.clock import SYSTEM_CLOCK, Clock
from accord.trace.text_redaction import StderrRedactor, redact_text
from accord.trace.trace_format import Sender, Side, TraceEntry, frame_entry, stderr_entry
from accord.trace.trace_steps import CallTracker, StepKind, TraceStep
from accord.wire.envelope import Envelope, decode_envelope, id_key
from accord.wire.transport import Frame, OversizedFrame, TransportEnd

_MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_OPEN_CALLS: Final = 10_000
"""Unanswered requests of one side that are remembered."""
_MAX_ID_LENGTH: Final = 256
_HEAD_BYTES: Final = 4096

Watcher = Callable[[list["RingEntry"]], None]


class RingEntry(Struct, eq=False, kw_only=True):
    """One entry, `at` seconds after the creation of the ring. `number` counts from 1 and is unique.

    A response has the `method` and `session` of its request; `duration` is the time between the two in
    seconds. `size` is the size on the wire, even if only the beginning is kept.
    """

    number: int
    at: float
    sender: Sender
    kind: StepKind
    method: str = ""
    id: int | str | None = None
    session: str = ""
    duration: float | None = None
    size: int = 0
    content: Frame | TraceEntry
    """The unredacted frame, or a `TraceEntry` for everything else."""
    redact: bool = True

    @property
    def trace_entry(self) -> TraceEntry:
        """The redacted entry, as in a recording.

        It is computed each time, so use it only for what is shown.
        """
        if isinstance(self.content, TraceEntry):
            return self.content
        assert self.sender != "stderr"
        return frame_entry(self.at, self.sender, self.content, redact=self.redact)

    @property
    def step(self) -> TraceStep:
        """The entry as a step, for `summarize_step` and `step_lines`."""
        step = CallTracker().add(self.trace_entry)
        step.number, step.method, step.session = self.number, self.method, self.session
        if self.duration is not None:
            request_entry = TraceEntry(at=self.at - self.duration, kind="frame")
            step.request = TraceStep(
                0, request_entry, "request", method=self.method, id=step.id, session=self.session
            )
        return step


class FrameRing:
    """A sink that keeps the last `limit` frames, at most `max_bytes`.

    Frames are redacted when they are shown. `dropped` counts those that no longer fit. A response keeps the
    method of its request even if the request was dropped. A ring can receive several connections one after
    another, for example when an agent is restarted.
    """

    def __init__(
        self,
        limit: int = 1000,
        *,
        redact: bool = True,
        max_bytes: int = _MAX_BYTES,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.dropped: int = 0
        self._limit = max(limit, 1)
        self._max_bytes = max_bytes
        self._redact = redact
        self._clock = clock
        self._started = clock.now()
        self._count = 0
        self._entries: deque[RingEntry] = deque()
        self._bytes = 0
        self._stderr_redactor = StderrRedactor()
        self._open_calls: dict[Side, dict[str, RingEntry]] = {"client": {}, "agent": {}}
        self._watchers: dict[object, Watcher] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[RingEntry]:
        """The entries, oldest first."""
        return list(self._entries)

    def trace_entries(self) -> list[TraceEntry]:
        """Return the redacted entries, as in a recording."""
        return [entry.trace_entry for entry in self._entries]

    def subscribe(self, watcher: Watcher) -> Callable[[], None]:
        """Call the watcher with all entries from now on. Call the returned function to unsubscribe.

        The watcher must not block. One that raises is removed; the connection continues.
        """
        key = object()
        self._watchers[key] = watcher

        def unsubscribe() -> None:
            self._watchers.pop(key, None)

        return unsubscribe

    def add_stderr(self, line: str) -> None:
        """Add a line of the agent's stderr."""
        raw = line.encode(errors="replace")
        entry = stderr_entry(self._now(), raw, redact=self._redact, redactor=self._stderr_redactor)
        self._add([self._make_entry("stderr", entry, len(raw))])

    # -- the FrameSink interface -----------------------------------------------------------------------------

    def add_frames(self, sender: Side, frames: Sequence[Frame]) -> None:
        now = self._now()
        self._add([self._make_frame_entry(now, sender, frame) for frame in frames])

    def ended(self, end: TransportEnd, sender: Side) -> None:
        now = self._now()
        reason = redact_text(end.reason) if self._redact else end.reason
        entries = [self._make_entry(sender, TraceEntry(at=now, kind="closed", sender=sender, reason=reason))]
        if end.exit_code is not None or end.signal is not None:
            exit_entry = TraceEntry(at=now, kind="exit", code=end.exit_code, signal=end.signal)
            entries.append(self._make_entry(sender, exit_entry))
        for open_calls in self._open_calls.values():
            open_calls.clear()  # request ids start anew with the next connection
        self._add(entries)

    async def aclose(self) -> None:
        """Do nothing: the entries stay readable."""

    # -- entries ---------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._clock.now() - self._started

    def _make_entry(self, sender: Sender, entry: TraceEntry, size: int = 0) -> RingEntry:
        self._count += 1
        assert entry.kind != "frame"
        return RingEntry(
            number=self._count, at=entry.at, sender=sender, kind=entry.kind, size=size, content=entry
        )

    def _make_frame_entry(self, now: float, sender: Side, frame: Frame) -> RingEntry:
        self._count += 1
        entry = RingEntry(
            number=self._count, at=now, sender=sender, kind="noise", content=frame, redact=self._redact
        )
        if isinstance(frame, OversizedFrame):
            entry.kind, entry.size = "cut", frame.size
            return entry
        entry.size = len(frame)
        envelope = _decode_or_none(frame)
        if envelope is not None:
            self._classify(entry, sender, envelope)
        if len(frame) > self._max_bytes:
            entry.content = OversizedFrame(len(frame), frame[:_HEAD_BYTES], b"")
        return entry

    def _classify(self, entry: RingEntry, sender: Side, envelope: Envelope) -> None:
        """Set the kind, id, method and session. A message that is neither call nor response stays noise."""
        entry.id = None if envelope.id is UNSET else envelope.id
        if envelope.method is not UNSET:
            entry.kind = "notification" if envelope.id is UNSET else "request"
            entry.method = envelope.method[:_MAX_ID_LENGTH]
            entry.session = _read_session_id(envelope.params)
            if entry.kind == "request":
                open_calls = self._open_calls[sender]
                open_calls[id_key(entry.id)] = entry
                if len(open_calls) > _MAX_OPEN_CALLS:
                    del open_calls[next(iter(open_calls))]
            return
        if not envelope.result and not envelope.error:
            return
        entry.kind = "error" if envelope.error else "answer"
        request = self._open_calls["agent" if sender == "client" else "client"].pop(id_key(entry.id), None)
        if request is not None:
            entry.method, entry.duration = request.method, entry.at - request.at
            entry.session = request.session = request.session or _read_session_id(envelope.result)

    def _add(self, new_entries: list[RingEntry]) -> None:
        for entry in new_entries:
            self._entries.append(entry)
            self._bytes += _kept_size(entry.content)
        while len(self._entries) > self._limit or self._bytes > self._max_bytes:
            self._bytes -= _kept_size(self._entries.popleft().content)
            self.dropped += 1
        for key, watcher in list(self._watchers.items()):
            try:
                watcher(new_entries)
            except Exception as error:  # noqa: BLE001 - a watcher must not break the connection
                self._watchers.pop(key, None)
                _report_watcher_error(error)


def _report_watcher_error(error: Exception) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    loop.call_exception_handler(
        {"message": "a watcher of a connection failed and was removed", "exception": error}
    )


def _kept_size(content: Frame | TraceEntry) -> int:
    if isinstance(content, bytes):
        return len(content)
    return len(content.data) if isinstance(content, TraceEntry) else len(content.head) + len(content.tail)


def _decode_or_none(frame: bytes) -> Envelope | None:
    try:
        return decode_envelope(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


class _SessionMember(Struct, rename="camel", gc=False):
    session_id: str = ""


_decode_session_member = msgspec.json.Decoder(_SessionMember).decode


def _read_session_id(members: Raw) -> str:
    if not members:
        return ""
    try:
        return _decode_session_member(members).session_id[:_MAX_ID_LENGTH]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
