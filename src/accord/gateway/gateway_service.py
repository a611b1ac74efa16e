"""A whole gateway, put together: the door, the front, the agents behind them, and the order in which they begin and end."""

import asyncio
import errno
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from logging import getLogger
from typing import Final

import msgspec

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import UsageError
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.authentication import Authenticator
from accord.gateway.access.request_origin import Origins, Proxies
from accord.gateway.access.resource_limits import GatewayLimits, LimitCounter
from accord.gateway.gateway import IDLE, Gateway
from accord.gateway.hosted_agent import AgentSource
from accord.gateway.http import HttpServer, ServerConfig, serve_front
from accord.gateway.metrics import Metrics
from accord.gateway.session_log import SessionLogs

LOG = getLogger("accord.gateway")

_LOOKED_EVERY: Final = 0.1
_HURRIED: Final = 0.5
"""Seconds for clients to take note of a stop that does not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPlan:
    """What a gateway is made of."""

    sources: Sequence[AgentSource]
    """The first is the default one."""
    origins: Origins
    front: ServerConfig = field(default_factory=ServerConfig)
    ports: Iterable[int] = (0,)
    """Tried in turn, as long as one is taken."""
    limits: GatewayLimits = field(default_factory=GatewayLimits)
    proxies: Proxies = field(default_factory=Proxies)
    folders: tuple[str, ...] | None = None
    """Real paths; no token reaches beyond them."""
    idle: float = IDLE


@dataclass(frozen=True, slots=True)
class GatewayService:
    """A gateway that runs."""

    door: Authenticator
    gateway: Gateway
    front: HttpServer
    audit: AuditLog
    clock: Clock

    async def settled(self, seconds: float, hurry: asyncio.Event) -> bool:
        """Wait for the running turns to end: so long at most, and no longer than until `hurry`. Whether all did."""
        until = self.clock.now() + seconds
        while self.gateway.busy and self.clock.now() < until and not hurry.is_set():
            await self.clock.sleep(_LOOKED_EVERY)
        if hurry.is_set():
            self.front.config = msgspec.structs.replace(self.front.config, stop_time=_HURRIED)
        return not self.gateway.busy


@asynccontextmanager
async def serving(plan: GatewayPlan, clock: Clock = SYSTEM_CLOCK) -> AsyncGenerator[GatewayService]:
    """A gateway that runs until the block is left; then lines are closed first, and the agents ended. Raises UsageError, StoreError."""
    async with AsyncExitStack() as stack:
        book = SessionLogs.open()
        stack.callback(book.close)
        audit = AuditLog(trouble=LOG.error)
        stack.callback(audit.close)
        door = Authenticator(
            plan.origins, audit=audit, clock=clock, proxies=plan.proxies, folders=plan.folders
        )
        stack.callback(door.watch.close)
        meter, metrics = LimitCounter(plan.limits, clock), Metrics()
        gateway = Gateway(
            plan.sources, book, meter=meter, audit=audit, metrics=metrics, idle=plan.idle, clock=clock
        )
        stack.push_async_callback(gateway.aclose)
        base = msgspec.structs.replace(plan.front, message_size=plan.limits.message_bytes)
        front: HttpServer | None = None
        for port in plan.ports:
            config = msgspec.structs.replace(base, port=port)
            listening = serve_front(
                opening=gateway, door=door, meter=meter, config=config, clock=clock, metrics=metrics
            )
            try:
                front = await stack.enter_async_context(listening)
                break
            except UsageError as error:
                if not _is_taken(error):
                    raise
        if front is None:
            ports = list(plan.ports)
            which = f"port {ports[0]} is" if len(ports) == 1 else f"ports {ports[0]} to {ports[-1]} are"
            raise UsageError(
                f"{which} taken on {plan.front.hosts[0]}: choose another with --port, 0 for any free one"
            )
        audit.record(None, "start", address=front.url)
        stack.callback(audit.record, None, "stop")
        yield GatewayService(door, gateway, front, audit, clock)


def _is_taken(error: UsageError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE
