"""The tap: a transport that shows every frame of both directions to a sink, and changes nothing.

Bytes, order and back-pressure stay the transport's. A sink is told of a frame before it goes on, so that an answer is
never seen before its question.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from accord.clock import SYSTEM_CLOCK, Clock
from accord.trace.lines import Entry, Side, entry_of
from accord.wire.transport import End, Frame, Receiver, Transport

_MOST_BYTES: Final = 16 * 1024 * 1024


class Sink(Protocol):
    """Where a tap tells what it sees. Never blocks, never raises."""

    def note(self, sender: Side, frames: Sequence[Frame]) -> None:
        """Frames that one side sent, in order."""
        ...

    def ended(self, end: End, sender: Side) -> None:
        """Nothing more will come from this side."""
        ...

    async def aclose(self) -> None:
        """The tap is closed: finish what is to be finished, in bounded time."""
        ...


class Tapped:
    """A transport and a sink; `ours` is the side that speaks through this end."""

    def __init__(self, transport: Transport, sink: Sink, *, ours: Side = "agent") -> None:
        self.sink = sink
        self.transport = transport
        self._ours: Side = ours
        self._theirs: Side = "client" if ours == "agent" else "agent"

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.transport.start(self)

    def frames(self, frames: list[Frame]) -> None:
        """What the transport delivers."""
        self.sink.note(self._theirs, frames)
        self._receiver.frames(frames)

    def ended(self, end: End) -> None:
        """The transport's end."""
        self.sink.ended(end, self._theirs)
        self._receiver.ended(end)

    def send(self, frame: bytes) -> None:
        self.sink.note(self._ours, (frame,))
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
            await self.sink.aclose()


class _Seen(NamedTuple):
    at: float
    sender: Side
    frame: Frame | End


class Ring:
    """The last `limit` frames, in memory, for whoever looks while it runs.

    Secrets are taken out of what is shown, not of what is held. `missed` counts what fell out of the ring.
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
        self._limit = limit
        self._most = most_bytes
        self._redact = redact
        self._clock = clock
        self._began = clock.now()
        self._seen: deque[_Seen] = deque()
        self._bytes = 0
        self._watchers: dict[object, Callable[[list[Entry]], None]] = {}

    def note(self, sender: Side, frames: Sequence[Frame]) -> None:
        now = self._clock.now() - self._began
        self._add([_Seen(now, sender, frame) for frame in frames])

    def ended(self, end: End, sender: Side) -> None:
        self._add([_Seen(self._clock.now() - self._began, sender, end)])

    async def aclose(self) -> None:
        """Nothing: what was seen can still be looked at."""

    def entries(self) -> list[Entry]:
        """What is in the ring, oldest first."""
        return [self._entry(seen) for seen in self._seen]

    def subscribe(self, watcher: Callable[[list[Entry]], None]) -> Callable[[], None]:
        """Tell the watcher of everything from now on, inside the call that brings it; the result ends that."""
        key = object()
        self._watchers[key] = watcher

        def unsubscribe() -> None:
            self._watchers.pop(key, None)

        return unsubscribe

    def _add(self, news: list[_Seen]) -> None:
        seen = self._seen
        for one in news:
            seen.append(one)
            self._bytes += _size(one.frame)
        while len(seen) > self._limit or (self._bytes > self._most and len(seen) > 1):
            self._bytes -= _size(seen.popleft().frame)
            self.missed += 1
        if self._watchers:
            shown = [self._entry(one) for one in news]
            for watcher in list(self._watchers.values()):
                watcher(shown)

    def _entry(self, seen: _Seen) -> Entry:
        if isinstance(seen.frame, End):
            return Entry(at=seen.at, kind="closed", sender=seen.sender, reason=seen.frame.reason)
        return entry_of(seen.at, seen.sender, seen.frame, redact=self._redact)


def _size(frame: Frame | End) -> int:
    return len(frame) if isinstance(frame, bytes) else 0


def tapped(
    transport: Transport,
    path: str | os.PathLike[str],
    *,
    ours: Side = "agent",
    by: str = "",
    command: Sequence[str] = (),
    redact: bool = True,
) -> Tapped:
    """The transport, with everything that crosses it appended to the file, which `accord trace` reads.

    The file is made 0600 and secrets are taken out of what is stored. Raises `UsageError` where it cannot be opened;
    a disk that fails later costs one warning on stderr, never the connection.
    """
    from accord.trace.files import FileSink

    by = by or os.path.basename(sys.argv[0])
    return Tapped(transport, FileSink(path, by=by, command=command, redact=redact), ours=ours)
