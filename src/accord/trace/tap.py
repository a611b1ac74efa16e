"""The tap: a transport that shows every frame of both directions to its sinks, and changes nothing.

Bytes, order and back-pressure stay the transport's. A sink is told of a frame before it goes on, so that an answer is
never seen before its question. Sinks come and go while the connection lives.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from accord.trace.lines import Side
from accord.wire.transport import End, Frame, Receiver, Transport


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
    """A transport and the sinks that look on; `ours` is the side that speaks through this end."""

    def __init__(self, transport: Transport, sink: Sink | None = None, *, ours: Side = "agent") -> None:
        self.transport = transport
        self._sinks: tuple[Sink, ...] = () if sink is None else (sink,)
        self._ours: Side = ours
        self._theirs: Side = "client" if ours == "agent" else "agent"

    def attach(self, sink: Sink) -> Callable[[], None]:
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

    def ended(self, end: End) -> None:
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
) -> Tapped:
    """The transport, with everything that crosses it appended to the file, which `accord trace` reads.

    The file is made 0600 and secrets are taken out of what is stored. Raises `UsageError` where it cannot be opened;
    a disk that fails later costs one warning on stderr, never the connection.
    """
    from accord.trace.files import FileSink

    by = by or os.path.basename(sys.argv[0])
    return Tapped(transport, FileSink(path, by=by, command=command, redact=redact), ours=ours)
