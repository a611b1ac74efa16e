"""The line of a WebSocket client: one stream for everything, resumed by `_accord/resume`, freed by `_accord/ack`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from accord.gateway.access.passes import Pass
from accord.gateway.front.line import FrontLine
from accord.gateway.front.stream import Outlet, Stream
from accord.gateway.line import Outgoing

if TYPE_CHECKING:
    from accord.gateway.front.lines import Lines


class SocketLine(FrontLine):
    """Counts the messages of both directions, so that a client that comes back can say where it stopped."""

    def __init__(self, lines: "Lines", id: str, visa: Pass, agent: str | None) -> None:
        super().__init__(lines, id, visa, agent)
        self._stream = Stream(self._config)
        self._one = (self._stream,)
        self.initialized = False
        """The client's first message was `initialize`."""
        self.received = 0
        """Messages of the client that arrived."""
        self._unacknowledged = 0
        self._unacknowledged_bytes = 0

    def streams(self) -> Iterable[Stream]:
        return self._one

    @property
    def unsent(self) -> int:
        return self._stream.unsent

    @property
    def outlet(self) -> Outlet | None:
        """The socket that carries it."""
        return self._stream.outlet

    @property
    def faithful(self) -> bool:
        """Whether the client acknowledges or has resumed."""
        return self._stream.faithful

    def send(self, frame: Outgoing, stream: str | None) -> None:
        if self.over:
            return
        self._stream.put(frame)
        if not self.dirty:
            self.dirty = True
            self._lines.flush_soon(self)

    def flush(self) -> None:
        self.dirty = False
        if self.over:
            return
        stream = self._stream
        frames, size = stream.flush()
        if frames:
            metrics = self._lines.metrics
            metrics.frames_out += frames
            metrics.bytes_out += size
        if stream.waiting_bytes or self._buffered.size:
            self._weigh(stream.waiting_bytes)

    def attach(self, outlet: Outlet, received: int) -> None:
        """This socket carries it now, from behind the client's last message on."""
        self.left = None
        self._stream.attach(outlet, received)

    def missing(self, received: int) -> int | None:
        """How many messages behind this number are no longer kept; None for a number that was never reached."""
        return self._stream.missing(received)

    def drop(self, outlet: Outlet) -> None:
        """The socket is gone; the client may come back."""
        self.detach(self._stream, outlet)

    def acknowledged(self, received: int) -> bool:
        """The client has so many messages; False for more than it was sent."""
        if not 0 <= received <= self._stream.count:
            return False
        self._stream.faithful = True
        self._stream.acknowledge(received)
        return True

    def resumed(self) -> None:
        """The client knows how to come back: more is kept for it, and its messages are acknowledged."""
        self._stream.faithful = True
        self._unacknowledged = self._unacknowledged_bytes = 0

    def count(self, size: int) -> bool:
        """One more message of the client; whether it is time to acknowledge."""
        self.received += 1
        if not self._stream.faithful:
            return False
        self._unacknowledged += 1
        self._unacknowledged_bytes += size
        config = self._config
        if self._unacknowledged < config.ack_frames and self._unacknowledged_bytes < config.ack_bytes:
            return False
        self._unacknowledged = self._unacknowledged_bytes = 0
        return True
