"""What all sockets of a front share: its settings, its door, its lines, and the rounds once a second."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from accord.clock import Clock
from accord.gateway.access.door import Door
from accord.gateway.front.config import FrontConfig
from accord.gateway.front.lines import Lines
from accord.gateway.metrics import Metrics

if TYPE_CHECKING:
    from accord.gateway.front.exchange import Exchange


class Watched(Protocol):
    """Something with time limits."""

    def tick(self, now: float) -> None:
        """Once a second."""
        ...


class Socket(Watched, Protocol):
    """A connected socket, whatever it speaks."""

    def leave(self) -> None:
        """The front stops: end in order, and soon."""
        ...

    def abort(self) -> None:
        """Close without a word."""
        ...


class Premises:
    """One front's things, given to each of its sockets."""

    def __init__(self, config: FrontConfig, clock: Clock, door: Door, lines: Lines, metrics: Metrics) -> None:
        self.config = config
        self.clock = clock
        self.door = door
        self.lines = lines
        self.metrics = metrics
        self.sockets: set[Socket] = set()
        self.watched: set[Watched] = set()
        """Event streams that are open: they have time limits of their own."""
        self.stopping = False
        self.emptied: Callable[[], None] | None = None
        """Called when the last socket has closed."""
        self.handle: Callable[[Exchange], None] = _nobody
        """Where a request goes once its head is there."""

    def entered(self, socket: Socket) -> bool:
        """A new socket; False if it is one too many."""
        if self.stopping or len(self.sockets) >= self.config.sockets:
            self.metrics.refused["stopping" if self.stopping else "sockets"] += 1
            return False
        self.sockets.add(socket)
        self.metrics.sockets = len(self.sockets)
        return True

    def replaced(self, former: Socket, socket: Socket) -> None:
        """The same socket, with another protocol on it."""
        self.sockets.discard(former)
        self.sockets.add(socket)

    def left(self, socket: Socket) -> None:
        """It is closed."""
        self.sockets.discard(socket)
        self.metrics.sockets = len(self.sockets)
        if not self.sockets and self.emptied is not None:
            self.emptied()

    def tick(self) -> None:
        """The round."""
        now = self.clock.now()
        for one in [*self.sockets, *self.watched]:
            one.tick(now)
        self.lines.tick(now)


def _nobody(exchange: "Exchange") -> None:
    exchange.respond(503, [], b"")
