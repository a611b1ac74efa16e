"""What all sockets share: settings, authentication, all client connections and their one flush per loop
turn.
"""

import asyncio
from collections.abc import Callable
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Protocol, TypeVar

from accord.clock import Clock
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.authentication import Authenticator
from accord.gateway.access.resource_limits import GatewayLimitReached, LimitCounter
from accord.gateway.client_connection import ConnectionOpener
from accord.gateway.http.resumable_connection import (
    POLICY,
    HttpStreamConnection,
    ResumableConnection,
    WebSocketClientConnection,
)
from accord.gateway.http.server_config import ServerConfig
from accord.gateway.metrics import Metrics

if TYPE_CHECKING:
    from accord.gateway.http.http_exchange import HttpExchange


# MERGED gateway.front.lines: All lines of a front: opening and finding them, one flush a loop turn for all that were sent to, the end of each.

L = TypeVar("L", WebSocketClientConnection, HttpStreamConnection)


class ClientConnections:
    """The lines that live, by id."""

    def __init__(
        self,
        config: ServerConfig,
        clock: Clock,
        opening: ConnectionOpener,
        door: Authenticator,
        meter: LimitCounter,
        metrics: Metrics,
    ) -> None:
        self.config = config
        self.clock = clock
        self.meter = meter
        self.metrics = metrics
        self._opening = opening
        self._door = door
        self._loop = asyncio.get_running_loop()
        self._lines: dict[str, ResumableConnection] = {}
        self._dirty: list[ResumableConnection] = []

    def open(self, kind: type[L], visa: TokenRights, agent: str | None) -> L:
        """A new line and its other end. Raises NotFound for an unknown agent, LimitReached."""
        line = kind(self, token_urlsafe(24), visa, agent)
        try:
            line.lease = self.meter.connection(visa)
        except GatewayLimitReached:
            # A client that lost its socket must be able to come back although its own waiting line fills the limit.
            if kind is not WebSocketClientConnection or self._oldest_waiting(visa) is None:
                raise
        try:
            line.client = self._opening.open(line, visa, agent)
        except BaseException:
            if line.lease is not None:
                line.lease.release()
            raise
        line.hold = self._door.hold(visa, lambda reason: line.end(POLICY, reason))
        self._lines[line.id] = line
        self.metrics.connections += 1
        return line

    def settle(self, line: ResumableConnection) -> None:
        """The line is here to stay: if it came in over the limit, one that waits makes room. Raises LimitReached."""
        if line.lease is None:
            oldest = self._oldest_waiting(line.visa)
            if oldest is not None:
                oldest.end(POLICY, "a newer connection of the same token took its place")
            line.lease = self.meter.connection(line.visa)

    def _oldest_waiting(self, visa: TokenRights) -> ResumableConnection | None:
        waiting = [
            line
            for line in self._lines.values()
            if isinstance(line, WebSocketClientConnection) and line.visa.token == visa.token
            if line.left is not None and line.lease is not None
        ]
        return min(waiting, key=lambda line: line.left or 0.0, default=None)

    def find(self, kind: type[L], id: str, visa: TokenRights) -> L | None:
        """The line of that id, if this token opened it."""
        line = self._lines.get(id)
        return line if isinstance(line, kind) and line.visa.token == visa.token else None

    def flush_soon(self, line: ResumableConnection) -> None:
        """Flush it at the end of this loop turn, with all others."""
        if not self._dirty:
            self._loop.call_soon(self._flush)
        self._dirty.append(line)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for line in dirty:
            line.flush()

    def forget(self, line: ResumableConnection, reason: str) -> None:
        """The line is over: its other end hears of it, never inside a call of its own."""
        if self._lines.pop(line.id, None) is not None:
            self.metrics.connections -= 1
        client, line.client = line.client, None
        if client is not None:
            self._loop.call_soon(client.gone, reason)

    def tick(self, now: float) -> None:
        """Once a second."""
        for line in list(self._lines.values()):
            line.tick(now)

    def end(self, code: int, reason: str) -> None:
        """End them all."""
        for line in list(self._lines.values()):
            line.end(code, reason)


# MERGED gateway.front.premises: What all sockets of a front share: its settings, its door, its lines, and the rounds once a second.


class TimedConnection(Protocol):
    """Something with time limits."""

    def tick(self, now: float) -> None:
        """Once a second."""
        ...


class ServerSocket(TimedConnection, Protocol):
    """A connected socket, whatever it speaks."""

    def leave(self) -> None:
        """The front stops: end in order, and soon."""
        ...

    def abort(self) -> None:
        """Close without a word."""
        ...


class HttpServerState:
    """One front's things, given to each of its sockets."""

    def __init__(
        self,
        config: ServerConfig,
        clock: Clock,
        door: Authenticator,
        lines: ClientConnections,
        metrics: Metrics,
    ) -> None:
        self.config = config
        self.clock = clock
        self.door = door
        self.lines = lines
        self.metrics = metrics
        self.sockets: set[ServerSocket] = set()
        self.watched: set[TimedConnection] = set()
        """Event streams that are open: they have time limits of their own."""
        self.stopping = False
        self.emptied: Callable[[], None] | None = None
        """Called when the last socket has closed."""
        self.handle: Callable[[HttpExchange], None] = _nobody
        """Where a request goes once its head is there."""

    def entered(self, socket: ServerSocket) -> bool:
        """A new socket; False if it is one too many."""
        if self.stopping or len(self.sockets) >= self.config.sockets:
            self.metrics.refused["stopping" if self.stopping else "sockets"] += 1
            return False
        self.sockets.add(socket)
        self.metrics.sockets = len(self.sockets)
        return True

    def replaced(self, former: ServerSocket, socket: ServerSocket) -> None:
        """The same socket, with another protocol on it."""
        self.sockets.discard(former)
        self.sockets.add(socket)

    def left(self, socket: ServerSocket) -> None:
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


def _nobody(exchange: "HttpExchange") -> None:
    exchange.respond(503, [], b"")
