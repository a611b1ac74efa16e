"""State shared by all sockets of a server: settings, authentication, and the client connections with one
flush per loop turn.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from accord.clock import Clock, OwnedTasks
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.authentication import Authenticator
from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.access.resource_limits import GatewayLimitReached, LimitCounter
from accord.gateway.client_connection import ConnectionOpener
from accord.gateway.http.resumable_connection import (
    POLICY,
    FlushQueue,
    HttpStreamConnection,
    ResumableConnection,
    WebSocketClientConnection,
)
from accord.gateway.http.server_config import ServerConfig
from accord.gateway.metrics import Metrics

if TYPE_CHECKING:
    from accord.gateway.http.http_exchange import HttpExchange
    from accord.gateway.notifications.notifier import Notifier


_REQUEST_TIME: Final = 1.0
"""Seconds that a new socket has for its first request while its address has too many others."""

ConnectionT = TypeVar("ConnectionT", WebSocketClientConnection, HttpStreamConnection)


class ClientConnections:
    """The open client connections by id."""

    def __init__(
        self,
        config: ServerConfig,
        clock: Clock,
        opener: ConnectionOpener,
        authenticator: Authenticator,
        limit_counter: LimitCounter,
        metrics: Metrics,
    ) -> None:
        self.config: ServerConfig = config
        self.clock: Clock = clock
        self.limit_counter: LimitCounter = limit_counter
        self.metrics: Metrics = metrics
        self._opener = opener
        self._authenticator = authenticator
        self.flush_queue: FlushQueue = FlushQueue()
        self._loop = asyncio.get_running_loop()
        self._connections: dict[str, ResumableConnection] = {}

    def open(self, kind: type[ConnectionT], rights: TokenRights, agent: str | None) -> ConnectionT:
        """Open a connection and its handler. Raises NotFound for an unknown agent, GatewayLimitReached."""
        connection = kind(self, token_urlsafe(24), rights, agent)
        try:
            connection.lease = self.limit_counter.lease_connection(rights)
        except GatewayLimitReached:
            # A client must be able to resume even if its own waiting connection fills the limit.
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

    def take_lease(self, connection: ResumableConnection) -> None:
        """Count a connection that was opened over the limit, and end one that waits for its client.

        Raises GatewayLimitReached.
        """
        if connection.lease is None:
            oldest = self._oldest_waiting(connection.rights)
            if oldest is not None:
                oldest.end(POLICY, "replaced by a newer connection of the same token")
            connection.lease = self.limit_counter.lease_connection(connection.rights)

    def _oldest_waiting(self, rights: TokenRights) -> ResumableConnection | None:
        waiting = [
            connection
            for connection in self._connections.values()
            if isinstance(connection, WebSocketClientConnection) and connection.rights.token == rights.token
            if connection.detached_since is not None and connection.lease is not None
        ]
        return min(waiting, key=lambda connection: connection.detached_since or 0.0, default=None)

    def find(self, kind: type[ConnectionT], id: str, rights: TokenRights) -> ConnectionT | None:
        """Return the connection with this id, if this token opened it."""
        connection = self._connections.get(id)
        return (
            connection if isinstance(connection, kind) and connection.rights.token == rights.token else None
        )

    def forget(self, connection: ResumableConnection, reason: str) -> None:
        """Remove an ended connection. Its handler is called later, never within one of its own calls."""
        if self._connections.pop(connection.id, None) is not None:
            self.metrics.connections -= 1
        handler, connection.handler = connection.handler, None
        if handler is not None:
            self._loop.call_soon(handler.on_closed, reason)

    def tick(self, now: float) -> None:
        """Check the time limits, once a second."""
        for connection in list(self._connections.values()):
            connection.tick(now)

    def end(self, code: int, reason: str) -> None:
        for connection in list(self._connections.values()):
            connection.end(code, reason)


class TimedConnection(Protocol):
    """A socket or an event stream, which have time limits."""

    def tick(self, now: float) -> None:
        """Check the time limits, once a second."""


class ServerSocket(TimedConnection, Protocol):
    """A connected socket of any protocol."""

    def stop(self) -> None:
        """Close soon, in order, because the server stops."""

    def abort(self) -> None:
        """Close at once."""


class HttpServerState:
    """The state that all sockets of one server share."""

    def __init__(
        self,
        config: ServerConfig,
        clock: Clock,
        authenticator: Authenticator,
        connections: ClientConnections,
        metrics: Metrics,
    ) -> None:
        self.config: ServerConfig = config
        self.clock: Clock = clock
        self.authenticator: Authenticator = authenticator
        self.connections: ClientConnections = connections
        self.metrics: Metrics = metrics
        self.notifier: Notifier | None = None
        """Sends notifications to browsers that subscribe here."""
        self.tasks: OwnedTasks = OwnedTasks(clock, grace=1.0)
        """Requests that wait for something."""
        self.sockets: set[ServerSocket] = set()
        self._anonymous: dict[ServerSocket, tuple[str, float]] = {}
        """The address and the start of the sockets without an authenticated request, the oldest first."""
        self._anonymous_by_address: Counter[str] = Counter()
        self.event_streams: set[TimedConnection] = set()
        """Open event streams, which have time limits of their own."""
        self.stopping: bool = False
        self.on_empty: Callable[[], None] | None = None
        """Called when the last socket has closed."""
        self.handle: Callable[[HttpExchange], None] = _unavailable
        """Handles a request whose head was received."""

    def add_socket(self, socket: ServerSocket, address: str) -> bool:
        """Add a socket; return False if there are too many.

        Sockets without an authenticated request make room for new ones: so many idle sockets, from one
        address or from many, keep no client with a token out.
        """
        anonymous = self._anonymous
        if len(self.sockets) >= self.config.sockets and anonymous:
            self._drop(next(iter(anonymous)))
        if self.stopping or len(self.sockets) >= self.config.sockets:
            self.metrics.refused["stopping" if self.stopping else "sockets"] += 1
            return False
        now = self.clock.now()
        if self._anonymous_by_address[
            address
        ] >= self.config.anonymous_sockets and not self.authenticator.is_proxy(address):
            oldest = next(one for one, (other, _) in anonymous.items() if other == address)
            if now - anonymous[oldest][1] >= _REQUEST_TIME:
                self._drop(oldest)
        anonymous[socket] = address, now
        self._anonymous_by_address[address] += 1
        self.sockets.add(socket)
        self.metrics.sockets = len(self.sockets)
        return True

    def replace_socket(self, old: ServerSocket, socket: ServerSocket) -> None:
        """Replace a socket by one with another protocol."""
        self.sockets.discard(old)
        self.sockets.add(socket)
        if (origin := self._anonymous.pop(old, None)) is not None:
            self._anonymous[socket] = origin

    def trust_socket(self, socket: ServerSocket) -> None:
        """Note that the socket has had an authenticated request."""
        if (origin := self._anonymous.pop(socket, None)) is not None:
            address = origin[0]
            self._anonymous_by_address[address] -= 1
            if not self._anonymous_by_address[address]:
                del self._anonymous_by_address[address]

    def authenticate(self, exchange: "HttpExchange") -> TokenRights:
        """Return the rights of the request. Raises RequestRefused."""
        rights = self.authenticator.authenticate(exchange.request)
        self.trust_socket(exchange.socket)
        return rights

    def authenticate_user(self, exchange: "HttpExchange") -> TokenRights:
        """Like `authenticate`, and refuse share links, which only show one session over ACP."""
        rights = self.authenticate(exchange)
        if rights.session:
            raise RequestRefused(403, "A share link only shows one session.")
        return rights

    def _drop(self, socket: ServerSocket) -> None:
        """Close a socket to make room for another one."""
        self.metrics.refused["sockets"] += 1
        self.remove_socket(socket)
        socket.abort()

    def remove_socket(self, socket: ServerSocket) -> None:
        """Remove a closed socket."""
        self.trust_socket(socket)
        self.sockets.discard(socket)
        self.metrics.sockets = len(self.sockets)
        if not self.sockets and self.on_empty is not None:
            self.on_empty()

    def tick(self) -> None:
        """Check all time limits."""
        now = self.clock.now()
        for timed in [*self.sockets, *self.event_streams]:
            timed.tick(now)
        self.connections.tick(now)


def _unavailable(exchange: "HttpExchange") -> None:
    exchange.respond(503, [], b"")
