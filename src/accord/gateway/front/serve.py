"""A front that listens: started, running its rounds, stopped in order."""

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from accord.clock import SYSTEM_CLOCK, Clock, Timer, within
from accord.errors import UsageError
from accord.gateway.access.door import Door
from accord.gateway.access.limits import Meter
from accord.gateway.front.config import FrontConfig
from accord.gateway.front.line import GOING_AWAY
from accord.gateway.front.lines import Lines
from accord.gateway.front.listener import Listener
from accord.gateway.front.premises import Premises
from accord.gateway.front.routes import Routes
from accord.gateway.line import Opening
from accord.gateway.metrics import Metrics

_log = logging.getLogger("accord.gateway.front")
_BACKLOG = 1024


class Front:
    """Listens, and hands every connection to the `Opening`. `serve_front` makes one."""

    def __init__(
        self,
        opening: Opening,
        door: Door,
        meter: Meter,
        config: FrontConfig,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self.config = config
        self.metrics = metrics
        self.addresses: list[tuple[str, int]] = []
        """Where it listens."""
        self._clock = clock
        self._lines = Lines(config, clock, opening, door, meter, metrics)
        self._premises = Premises(config, clock, door, self._lines, metrics)
        self._premises.handle = Routes(self._premises).handle
        self._servers: list[asyncio.Server] = []
        self._round: Timer | None = None

    async def start(self) -> None:
        """Listen on all addresses. Raises UsageError for one that cannot be had."""
        loop = asyncio.get_running_loop()
        host, port = "", self.config.port
        try:
            for host in self.config.hosts:
                server = await loop.create_server(
                    lambda: Listener(self._premises),
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
                f"cannot listen on {host} port {port}: {error.strerror or error}; choose another address or port"
            ) from error
        self._rounds()

    @property
    def url(self) -> str:
        """The address of the first one, for a browser on this machine."""
        host, port = self.addresses[0]
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if self.config.tls else 'http'}://{host}:{port}"

    def _rounds(self) -> None:
        self._round = self._clock.call_later(1.0, self._rounds)
        self._premises.tick()

    async def _stop_listening(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()

    async def stop(self, reason: str = "the gateway stops") -> None:
        """Accept nobody more, tell everybody, wait a bounded time for them to go. May be called twice."""
        await self._stop_listening()
        premises = self._premises
        premises.stopping = True
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        premises.emptied = lambda: None if gone.done() else gone.set_result(None)
        self._lines.end(GOING_AWAY, reason)
        for one in list(premises.sockets):
            one.leave()
        if premises.sockets and not await within(self._clock, self.config.stop_time, gone):
            for one in list(premises.sockets):
                one.abort()
            if premises.sockets:
                await within(SYSTEM_CLOCK, 1.0, gone)
        if self._round is not None:
            self._round.cancel()
            self._round = None
        await asyncio.sleep(0)  # the other ends of the lines hear of their end


@asynccontextmanager
async def serve_front(
    *,
    opening: Opening,
    door: Door,
    meter: Meter,
    config: FrontConfig | None = None,
    clock: Clock = SYSTEM_CLOCK,
    metrics: Metrics | None = None,
) -> AsyncGenerator[Front]:
    """A front that listens until the block is left."""
    front = Front(opening, door, meter, config or FrontConfig(), clock, metrics or Metrics())
    await front.start()
    try:
        yield front
    finally:
        await front.stop()
