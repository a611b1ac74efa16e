"""A transport that passes every frame to its sinks."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from accord.trace.trace_format import Side
from accord.wire.transport import Frame, Receiver, Transport, TransportEnd


class FrameSink(Protocol):
    """Receives the frames of a connection. Never blocks, never raises."""

    def add_frames(self, sender: Side, frames: Sequence[Frame]) -> None:
        """Receive frames of one side, in order."""

    def ended(self, end: TransportEnd, sender: Side) -> None:
        """Receive the end: no more frames follow from this side."""

    async def aclose(self) -> None:
        """Finish in bounded time. Called when the transport closes."""


class TappedTransport:
    """Passes frames through unchanged, with the same order and back-pressure, and copies them to sinks.

    A sink gets a frame before it is passed on, so that it sees a request before its response. `ours` is the
    side that sends through this end.
    """

    def __init__(self, transport: Transport, sink: FrameSink | None = None, *, ours: Side = "agent") -> None:
        self.transport: Transport = transport
        self._sinks: tuple[FrameSink, ...] = () if sink is None else (sink,)
        self._ours: Side = ours
        self._theirs: Side = "client" if ours == "agent" else "agent"

    def attach(self, sink: FrameSink) -> Callable[[], None]:
        """Pass all frames from now on to a sink. Call the returned function to detach it; it stays open.

        Closing the transport closes the attached sinks.
        """
        self._sinks = (*self._sinks, sink)

        def detach() -> None:
            self._sinks = tuple(other for other in self._sinks if other is not sink)

        return detach

    @property
    def stderr(self) -> str:
        """The last stderr lines of the program at the other end, if there is one."""
        return getattr(self.transport, "stderr", "")

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.transport.start(self)

    def frames(self, frames: list[Frame]) -> None:
        """Pass frames of the transport to the sinks, then to the receiver."""
        for sink in self._sinks:
            sink.add_frames(self._theirs, frames)
        self._receiver.frames(frames)

    def ended(self, end: TransportEnd) -> None:
        """Pass the end of the transport to the sinks, then to the receiver."""
        for sink in self._sinks:
            sink.ended(end, self._theirs)
        self._receiver.ended(end)

    def send(self, frame: bytes) -> None:
        for sink in self._sinks:
            sink.add_frames(self._ours, (frame,))
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


def record_to_file(
    transport: Transport,
    path: str | os.PathLike[str],
    *,
    ours: Side = "agent",
    by: str = "",
    command: Sequence[str] = (),
    redact: bool = True,
) -> TappedTransport:
    """Return the transport with a tap that appends all frames to a file for `accord trace`.

    The file has mode 0600 and is redacted. Raises UsageError if it cannot be opened. If a later write
    fails, one warning goes to stderr and the connection continues.
    """
    from accord.trace.trace_writer import FileSink

    by = by or os.path.basename(sys.argv[0])
    return TappedTransport(transport, FileSink(path, by=by, command=command, redact=redact), ours=ours)
