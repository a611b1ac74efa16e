"""A transport that shows every frame to its sinks; the ring of the latest frames."""

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.clock import SYSTEM_CLOCK, Clock
from accord.trace.text_redaction import StderrLines, redact_text
from accord.trace.trace_format import Sender, Side, TraceEntry, entry_of, stderr_entry
from accord.trace.trace_steps import CallTracker, StepKind, TraceStep, id_key
from accord.wire.envelope import Envelope, decode_envelope
from accord.wire.transport import Frame, OversizedFrame, Receiver, Transport, TransportEnd

# MERGED trace.tap: The tap: a transport that shows every frame of both directions to its sinks, and changes nothing.
#
# Bytes, order and back-pressure stay the transport's. A sink is told of a frame before it goes on, so that an answer is
# never seen before its question. Sinks come and go while the connection lives.


class FrameSink(Protocol):
    """Where a tap tells what it sees. Never blocks, never raises."""

    def note(self, sender: Side, frames: Sequence[Frame]) -> None:
        """Frames that one side sent, in order."""
        ...

    def ended(self, end: TransportEnd, sender: Side) -> None:
        """Nothing more will come from this side."""
        ...

    async def aclose(self) -> None:
        """The tap is closed: finish what is to be finished, in bounded time."""
        ...


class TappedTransport:
    """A transport and the sinks that look on; `ours` is the side that speaks through this end."""

    def __init__(self, transport: Transport, sink: FrameSink | None = None, *, ours: Side = "agent") -> None:
        self.transport = transport
        self._sinks: tuple[FrameSink, ...] = () if sink is None else (sink,)
        self._ours: Side = ours
        self._theirs: Side = "client" if ours == "agent" else "agent"

    def attach(self, sink: FrameSink) -> Callable[[], None]:
        """Show this sink everything from now on; the result ends that, and leaves the sink open.

        A sink that is still attached when the transport is closed is closed with it.
        """
        self._sinks = (*self._sinks, sink)

        def detach() -> None:
            self._sinks = tuple(one for one in self._sinks if one is not sink)

        return detach

    @property
    def stderr(self) -> str:
        """The last words of the program at the other end, where there is one."""
        return getattr(self.transport, "stderr", "")

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.transport.start(self)

    def frames(self, frames: list[Frame]) -> None:
        """What the transport delivers."""
        for sink in self._sinks:
            sink.note(self._theirs, frames)
        self._receiver.frames(frames)

    def ended(self, end: TransportEnd) -> None:
        """The transport's end."""
        for sink in self._sinks:
            sink.ended(end, self._theirs)
        self._receiver.ended(end)

    def send(self, frame: bytes) -> None:
        for sink in self._sinks:
            sink.note(self._ours, (frame,))
        self.transport.send(frame)

    @property
    def unsent(self) -> int:
        return self.transport.unsent

    async def drain(self) -> None:
        await self.transport.drain()

    def pause(self) -> None:
        self.transport.pause()

    def resume(self) -> None:
        self.transport.resume()

    async def aclose(self) -> None:
        try:
            await self.transport.aclose()
        finally:
            for sink in self._sinks:
                await sink.aclose()


def tapped(
    transport: Transport,
    path: str | os.PathLike[str],
    *,
    ours: Side = "agent",
    by: str = "",
    command: Sequence[str] = (),
    redact: bool = True,
) -> TappedTransport:
    """The transport, with everything that crosses it appended to the file, which `accord trace` reads.

    The file is made 0600 and secrets are taken out of what is stored. Raises `UsageError` where it cannot be opened;
    a disk that fails later costs one warning on stderr, never the connection.
    """
    from accord.trace.trace_writer import FileSink

    by = by or os.path.basename(sys.argv[0])
    return TappedTransport(transport, FileSink(path, by=by, command=command, redact=redact), ours=ours)


# MERGED trace.ring: The latest of what crosses a connection, kept in memory for whoever looks while it runs.
#
# Bounded in frames and in bytes. Each frame is known by its side, time, method, session and the call it answers, even
# after that call has left the ring. Secrets are taken out of what is shown, not of what is held.

_MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_OPEN: Final = 10_000  # calls of one side that nobody answers are remembered so far
_LONGEST_NAME: Final = 256
_BEGINNING: Final = 4096

Watcher = Callable[[list["RingEntry"]], None]


class RingEntry(Struct, eq=False, kw_only=True):
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
    frame: Frame | TraceEntry
    """As it crossed, secrets included; an `TraceEntry` for what is no frame."""
    redact: bool = True

    @property
    def entry(self) -> TraceEntry:
        """As a recording would keep it, without secrets. Worked out anew each time: ask for what is on the screen."""
        if isinstance(self.frame, TraceEntry):
            return self.frame
        assert self.sender != "stderr"
        return entry_of(self.at, self.sender, self.frame, redact=self.redact)

    @property
    def step(self) -> TraceStep:
        """The same as a step of a recording, for `summary` and `step_lines`."""
        step = CallTracker().take(self.entry)
        step.number, step.method, step.session = self.number, self.method, self.session
        if self.took is not None:
            call = TraceEntry(at=self.at - self.took, kind="frame")
            step.asked = TraceStep(0, call, "request", method=self.method, id=step.id, session=self.session)
        return step


class FrameRing:
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
        self._seen: deque[RingEntry] = deque()
        self._bytes = 0
        self._stderr = StderrLines()
        self._open: dict[Side, dict[str, RingEntry]] = {"client": {}, "agent": {}}
        self._watchers: dict[object, Watcher] = {}

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def seen(self) -> list[RingEntry]:
        """What is in the ring, oldest first."""
        return list(self._seen)

    def entries(self) -> list[TraceEntry]:
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

    def ended(self, end: TransportEnd, sender: Side) -> None:
        now = self._now()
        reason = redact_text(end.reason) if self._redact else end.reason
        told = [self._other(sender, TraceEntry(at=now, kind="closed", sender=sender, reason=reason))]
        if end.exit_code is not None or end.signal is not None:
            exit = TraceEntry(at=now, kind="exit", code=end.exit_code, signal=end.signal)
            told.append(self._other(sender, exit))
        for waiting in self._open.values():
            waiting.clear()  # the next connection counts its calls anew
        self._add(told)

    async def aclose(self) -> None:
        """Nothing: what was seen can still be looked at."""

    # -- keeping it ---------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._clock.now() - self._began

    def _other(self, sender: Sender, entry: TraceEntry, size: int = 0) -> RingEntry:
        self._count += 1
        assert entry.kind != "frame"
        return RingEntry(
            number=self._count, at=entry.at, sender=sender, kind=entry.kind, size=size, frame=entry
        )

    def _understood(self, now: float, sender: Side, frame: Frame) -> RingEntry:
        self._count += 1
        seen = RingEntry(
            number=self._count, at=now, sender=sender, kind="cut", frame=frame, redact=self._redact
        )
        if not isinstance(frame, bytes):
            seen.size = frame.size
            return seen
        seen.size = len(frame)
        self._name(seen, sender, _envelope(frame))
        if len(frame) > self._most:
            seen.frame = OversizedFrame(len(frame), frame[:_BEGINNING], b"")
        return seen

    def _name(self, seen: RingEntry, sender: Side, envelope: Envelope | None) -> None:
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

    def _add(self, news: list[RingEntry]) -> None:
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


def _held(frame: Frame | TraceEntry) -> int:
    if isinstance(frame, bytes):
        return len(frame)
    return len(frame.data) if isinstance(frame, TraceEntry) else len(frame.head) + len(frame.tail)


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
