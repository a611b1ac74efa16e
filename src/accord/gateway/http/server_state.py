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
        opener: ConnectionOpener,
        authenticator: Authenticator,
        limit_counter: LimitCounter,
        metrics: Metrics,
    ) -> None:
        self.config = config
        self.clock = clock
        self.limit_counter = limit_counter
        self.metrics = metrics
        self._opener = opener
        self._authenticator = authenticator
        self._loop = asyncio.get_running_loop()
        self._connections: dict[str, ResumableConnection] = {}
        self._dirty: list[ResumableConnection] = []

    def open(self, kind: type[L], rights: TokenRights, agent: str | None) -> L:
        """A new line and its other end. Raises NotFound for an unknown agent, LimitReached."""
        connection = kind(self, token_urlsafe(24), rights, agent)
        try:
            connection.lease = self.limit_counter.connection(rights)
        except GatewayLimitReached:
            # A client that lost its socket must be able to come back although its own waiting line fills the limit.
            if kind is not WebSocketClientConnection or self._oldest_waiting(rights) is None:
                raise
        try:
            connection.handler = self._opener.open(connection, rights, agent)
        except BaseException:
            if connection.lease is not None:
                connection.lease.release()
            raise
        connection.token_watch = self._authenticator.watch_token(
            rights, lambda reason: connection.end(POLICY, reason)
        )
        self._connections[connection.id] = connection
        self.metrics.connections += 1
        return connection

    def claim_place(self, connection: ResumableConnection) -> None:
        """The line is here to stay: if it came in over the limit, one that waits makes room. Raises LimitReached."""
        if connection.lease is None:
            oldest = self._oldest_waiting(connection.rights)
            if oldest is not None:
                oldest.end(POLICY, "a newer connection of the same token took its place")
            connection.lease = self.limit_counter.connection(connection.rights)

    def _oldest_waiting(self, rights: TokenRights) -> ResumableConnection | None:
        waiting = [
            connection
            for connection in self._connections.values()
            if isinstance(connection, WebSocketClientConnection) and connection.rights.token == rights.token
            if connection.detached_since is not None and connection.lease is not None
        ]
        return min(waiting, key=lambda connection: connection.detached_since or 0.0, default=None)

    def find(self, kind: type[L], id: str, rights: TokenRights) -> L | None:
        """The line of that id, if this token opened it."""
        connection = self._connections.get(id)
        return (
            connection if isinstance(connection, kind) and connection.rights.token == rights.token else None
        )

    def flush_soon(self, connection: ResumableConnection) -> None:
        """Flush it at the end of this loop turn, with all others."""
        if not self._dirty:
            self._loop.call_soon(self._flush)
        self._dirty.append(connection)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.flush()

    def forget(self, connection: ResumableConnection, reason: str) -> None:
        """The line is over: its other end hears of it, never inside a call of its own."""
        if self._connections.pop(connection.id, None) is not None:
            self.metrics.connections -= 1
        handler, connection.handler = connection.handler, None
        if handler is not None:
            self._loop.call_soon(handler.closed, reason)

    def tick(self, now: float) -> None:
        """Once a second."""
        for connection in list(self._connections.values()):
            connection.tick(now)

    def end(self, code: int, reason: str) -> None:
        """End them all."""
        for connection in list(self._connections.values()):
            connection.end(code, reason)


# MERGED gateway.front.premises: What all sockets of a front share: its settings, its door, its lines, and the rounds once a second.


class TimedConnection(Protocol):
    """Something with time limits."""

    def tick(self, now: float) -> None:
        """Once a second."""
        ...


class ServerSocket(TimedConnection, Protocol):
    """A connected socket, whatever it speaks."""

    def stop(self) -> None:
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
        authenticator: Authenticator,
        connections: ClientConnections,
        metrics: Metrics,
    ) -> None:
        self.config = config
        self.clock = clock
        self.authenticator = authenticator
        self.connections = connections
        self.metrics = metrics
        self.sockets: set[ServerSocket] = set()
        self.event_streams: set[TimedConnection] = set()
        """Event streams that are open: they have time limits of their own."""
        self.stopping = False
        self.on_empty: Callable[[], None] | None = None
        """Called when the last socket has closed."""
        self.handle: Callable[[HttpExchange], None] = _unavailable
        """Where a request goes once its head is there."""

    def add_socket(self, socket: ServerSocket) -> bool:
        """A new socket; False if it is one too many."""
        if self.stopping or len(self.sockets) >= self.config.sockets:
            self.metrics.refused["stopping" if self.stopping else "sockets"] += 1
            return False
        self.sockets.add(socket)
        self.metrics.sockets = len(self.sockets)
        return True

    def replace_socket(self, old: ServerSocket, socket: ServerSocket) -> None:
        """The same socket, with another protocol on it."""
        self.sockets.discard(old)
        self.sockets.add(socket)

    def remove_socket(self, socket: ServerSocket) -> None:
        """It is closed."""
        self.sockets.discard(socket)
        self.metrics.sockets = len(self.sockets)
        if not self.sockets and self.on_empty is not None:
            self.on_empty()

    def tick(self) -> None:
        """The round."""
        now = self.clock.now()
        for item in [*self.sockets, *self.event_streams]:
            item.tick(now)
        self.connections.tick(now)


def _unavailable(exchange: "HttpExchange") -> None:
    exchange.respond(503, [], b"")
