"""A line: the front's end of one client's connection, over all the sockets that carry it one after another.

A line without a socket waits the grace time for its client. What is sent meanwhile is held, up to a bound; beyond it the line
is over. A connected client that does not read is cut off, and its line waits like any other.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from accord.gateway.access.limits import Lease, LimitReached
from accord.gateway.access.passes import Pass
from accord.gateway.front.stream import Outlet, Stream
from accord.gateway.line import Client, Outgoing

if TYPE_CHECKING:
    from accord.gateway.front.lines import Lines

_log = logging.getLogger("accord.gateway.front")

NORMAL, GOING_AWAY, PROTOCOL_ERROR, POLICY, INTERNAL = 1000, 1001, 1002, 1008, 1011
"""WebSocket close codes, which say for HTTP lines, too, why they end."""


class FrontLine(ABC):
    """What lines of both transports have in common. `gateway.line.Line` is the side that the core sees."""

    def __init__(self, lines: "Lines", id: str, visa: Pass, agent: str | None) -> None:
        self._lines = lines
        self._config = lines.config
        self.id = id
        self.visa = visa
        self.agent = agent
        self.client: Client | None = None
        self.lease: Lease | None = None
        """Its place among the token's connections."""
        self.hold: Lease | None = None
        """Watches the token; see `Door.hold`."""
        self._buffered = lines.meter.buffer(visa)
        self.over = False
        self.dirty = False
        """Something was sent since the last flush."""
        self.left: float | None = lines.clock.now()
        """Since when no socket carries it; None while one does."""

    @abstractmethod
    def streams(self) -> Iterable[Stream]:
        """All its streams."""

    @abstractmethod
    def send(self, frame: Outgoing, stream: str | None) -> None:
        """See `gateway.line.Line`."""

    @property
    def unsent(self) -> int:
        """See `gateway.line.Line`."""
        return sum(stream.unsent for stream in self.streams())

    def end(self, code: int, reason: str) -> None:
        """See `gateway.line.Line`."""
        if self.over:
            return
        self.flush()  # what was said before the end is heard
        self._finish(reason)
        for stream in self.streams():
            outlet, stream.outlet = stream.outlet, None
            if outlet is not None:
                outlet.close(code, reason)

    def _finish(self, reason: str) -> None:
        self.over = True
        self._buffered.release()
        for lease in (self.lease, self.hold):
            if lease is not None:
                lease.release()
        self._lines.forget(self, reason)

    def deliver(self, frames: list[bytes]) -> None:
        """Hand messages of the client to the core."""
        if self.client is not None and not self.over:
            metrics = self._lines.metrics
            metrics.frames_in += len(frames)
            metrics.bytes_in += sum(map(len, frames))
            self.client.frames(frames)

    def flush(self) -> None:
        """Write what the sockets take, then see whether too much is left."""
        self.dirty = False
        if self.over:
            return
        frames = size = waiting = 0
        for stream in self.streams():
            some, much = stream.flush()
            frames += some
            size += much
            waiting += stream.waiting_bytes
        if frames:
            metrics = self._lines.metrics
            metrics.frames_out += frames
            metrics.bytes_out += size
        if waiting or self._buffered.size:
            self._weigh(waiting)

    def _weigh(self, waiting: int) -> None:
        """Judge what could not leave: the line that holds too much. Who is too slow shows only with time, see `tick`."""
        config = self._config
        frames = sum(len(stream.waiting) for stream in self.streams())
        if waiting > config.held_bytes or frames > config.held_frames:
            self._overflow(f"more than {config.held_bytes} bytes or {config.held_frames} messages waited")
            return
        grown = waiting - self._buffered.size
        if grown <= 0:
            self._buffered.remove(-grown)
            return
        try:
            self._buffered.add(grown)
        except LimitReached as error:
            self._overflow(error.message)

    def _overflow(self, reason: str) -> None:
        self._lines.metrics.lost += 1
        _log.warning("line %s of token %s is given up: %s", self.id, self.visa.token, reason)
        for stream in self.streams():
            stream.waiting.clear()
            stream.waiting_bytes = 0
        self.end(POLICY, reason)

    def cut_off(self, stream: Stream, reason: str) -> None:
        """Close the socket of a reader that does not read; the line stays."""
        outlet = stream.outlet
        if outlet is None:
            return
        self._lines.metrics.cut_off += 1
        _log.warning("a reader of line %s (token %s) is cut off: %s", self.id, self.visa.token, reason)
        self.detach(stream, outlet)
        outlet.close(POLICY, reason)

    def detach(self, stream: Stream, outlet: Outlet) -> None:
        """The socket is gone, and nobody said that the line is over."""
        if stream.outlet is outlet:
            stream.outlet = None
            if all(other.outlet is None for other in self.streams()):
                self.left = self._lines.clock.now()

    def tick(self, now: float) -> None:
        """Once a second: stalled readers, a client that did not come back."""
        config = self._config
        for stream in list(self.streams()):
            if stream.outlet is None:
                continue
            still = stream.stood_still(now)
            if still >= config.stall:
                self.cut_off(stream, f"nothing was read for {config.stall:g} seconds")
            elif still >= config.unsent_time and stream.behind > config.unsent:
                self.cut_off(stream, f"more than {config.unsent} bytes wait to be read")
        if self.left is not None and not self.over and now - self.left >= config.grace:
            self.end(GOING_AWAY, f"no client came back within {config.grace:g} seconds")
