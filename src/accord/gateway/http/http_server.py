"""Listens, detects HTTP/1.1 or HTTP/2 from the first bytes or ALPN, runs periodic checks, stops in order."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast

from accord.clock import SYSTEM_CLOCK, Clock, Timer, within
from accord.errors import UsageError
from accord.gateway.access.authentication import Authenticator
from accord.gateway.access.resource_limits import LimitCounter
from accord.gateway.client_connection import ConnectionOpener
from accord.gateway.http.http1 import Http1, peer_address
from accord.gateway.http.http2 import Http2
from accord.gateway.http.http_routes import HttpRoutes
from accord.gateway.http.resumable_connection import GOING_AWAY
from accord.gateway.http.server_config import ServerConfig
from accord.gateway.http.server_state import ClientConnections, HttpServerState
from accord.gateway.metrics import Metrics

if TYPE_CHECKING:
    from accord.gateway.notifications.notifier import Notifier

LOG = logging.getLogger("accord.gateway.http")
HTTP2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WRITE_BUFFER_BYTES: Final = 256 * 1024
_TCP_TIMEOUT_MS: Final = 60_000  # milliseconds that the kernel waits for an acknowledgement
_BACKLOG = 1024


class HttpServer:
    """Listens, and passes connections to the `ConnectionOpener`. `serve_http` creates it."""

    def __init__(
        self,
        opener: ConnectionOpener,
        authenticator: Authenticator,
        limit_counter: LimitCounter,
        config: ServerConfig,
        clock: Clock,
        metrics: Metrics,
        notifier: "Notifier | None" = None,
    ) -> None:
        self.config: ServerConfig = config
        self.metrics: Metrics = metrics
        self.addresses: list[tuple[str, int]] = []
        """The addresses it listens on."""
        self._clock = clock
        self._connections = ClientConnections(config, clock, opener, authenticator, limit_counter, metrics)
        self._server_state = HttpServerState(config, clock, authenticator, self._connections, metrics)
        self._server_state.notifier = notifier
        self._server_state.handle = HttpRoutes(self._server_state).handle
        self._servers: list[asyncio.Server] = []
        self._timer: Timer | None = None

    async def start(self) -> None:
        """Listen on all addresses. Raises UsageError."""
        loop = asyncio.get_running_loop()
        host, port = "", self.config.port
        try:
            for host in self.config.hosts:
                server = await loop.create_server(
                    lambda: ProtocolDetector(self._server_state),
                    host,
                    port,
                    ssl=self.config.tls,
                    backlog=_BACKLOG,
                    reuse_address=True,
                )
                self._servers.append(server)
                port = server.sockets[0].getsockname()[1]
                self.addresses.append((host, port))
        except (OSError, socket.gaierror) as error:
            await self._stop_listening()
            raise UsageError(
                f"cannot listen on {host} port {port}: {error.strerror or error}; "
                "choose another address or port"
            ) from error
        self._tick()

    @property
    def url(self) -> str:
        """The URL of the first address, for a browser on this machine."""
        host, port = self.addresses[0]
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if self.config.tls else 'http'}://{host}:{port}"

    def _tick(self) -> None:
        self._timer = self._clock.call_later(1.0, self._tick)
        self._server_state.tick()

    async def _stop_listening(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()

    async def stop(self, reason: str = "the gateway is stopping") -> None:
        """Stop listening, close all connections, and wait for them in bounded time. May be called twice."""
        await self._stop_listening()
        server_state = self._server_state
        server_state.stopping = True
        all_closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        server_state.on_empty = lambda: None if all_closed.done() else all_closed.set_result(None)
        self._connections.end(GOING_AWAY, reason)
        for open_socket in list(server_state.sockets):
            open_socket.stop()
        if server_state.sockets and not await within(self._clock, self.config.stop_time, all_closed):
            for open_socket in list(server_state.sockets):
                open_socket.abort()
            if server_state.sockets:
                await within(SYSTEM_CLOCK, 1.0, all_closed)
        await server_state.tasks.end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await asyncio.sleep(0)  # let the handlers learn of the end of their connections


@asynccontextmanager
async def serve_http(
    *,
    opener: ConnectionOpener,
    authenticator: Authenticator,
    limit_counter: LimitCounter,
    config: ServerConfig | None = None,
    clock: Clock = SYSTEM_CLOCK,
    metrics: Metrics | None = None,
    notifier: "Notifier | None" = None,
) -> AsyncGenerator[HttpServer]:
    """Run an HTTP server until the block is left."""
    server = HttpServer(
        opener, authenticator, limit_counter, config or ServerConfig(), clock, metrics or Metrics(), notifier
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class ProtocolDetector(asyncio.Protocol):
    """A new socket whose protocol is not known yet."""

    def __init__(self, server_state: HttpServerState) -> None:
        self._server_state = server_state
        self._transport: asyncio.Transport | None = None
        self._opened_at = server_state.clock.now()
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's has no such base class
        if not self._server_state.add_socket(self, peer_address(transport)):
            transport.abort()
            self._transport = None
            return
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        _set_tcp_timeout(transport)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            self._switch_to(transport, Http2(self._server_state))

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        self._data += data
        if self._data.startswith(HTTP2_PREFACE):
            self._switch_to(transport, Http2(self._server_state))
        elif not HTTP2_PREFACE.startswith(self._data):
            self._switch_to(transport, Http1(self._server_state, self._opened_at))

    def _switch_to(self, transport: asyncio.Transport, protocol: Http1 | Http2) -> None:
        self._transport = None
        self._server_state.replace_socket(self, protocol)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._data:
            protocol.data_received(self._data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._server_state.remove_socket(self)

    def tick(self, now: float) -> None:
        """Abort a socket that sends nothing."""
        if now - self._opened_at >= self._server_state.config.header_time:
            self.abort()

    def stop(self) -> None:
        """See `ServerSocket.stop`."""
        self.abort()

    def abort(self) -> None:
        """See `ServerSocket.abort`."""
        if self._transport is not None:
            self._transport.abort()


def _set_tcp_timeout(transport: asyncio.Transport) -> None:
    """Let the kernel close a socket whose peer acknowledges nothing, where it supports that."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if sock is not None and option is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, option, _TCP_TIMEOUT_MS)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
