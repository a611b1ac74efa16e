"""Runs a whole gateway: creates its parts in order and stops them in reverse order."""

import asyncio
import errno
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from logging import getLogger
from typing import Final, Protocol

import msgspec

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import UsageError
from accord.gateway.access.access_contracts import AccessState, AuditSink
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.authentication import Authenticator
from accord.gateway.access.push_devices import FilePushDevices
from accord.gateway.access.request_origin import Origins, Proxies
from accord.gateway.access.resource_limits import GatewayLimits, LimitCounter
from accord.gateway.client_connection import ConnectionOpener
from accord.gateway.contracts import Book, Fence
from accord.gateway.gateway import IDLE_SECONDS, Gateway
from accord.gateway.hosted_agent import AgentSource
from accord.gateway.http import HttpServer, ServerConfig, serve_http
from accord.gateway.metrics import Metric, Metrics
from accord.gateway.notifications.notification_settings import NotificationSettings
from accord.gateway.notifications.notifier import Notifier
from accord.gateway.session_log import FileBook

LOG = getLogger("accord.gateway")

_POLL_SECONDS: Final = 0.1
_HURRIED_STOP_SECONDS: Final = 0.5
"""How long clients get to close when the stop does not wait for turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPlan:
    """The configuration of a gateway."""

    sources: Sequence[AgentSource]
    """The first one is the default agent."""
    origins: Origins
    server_config: ServerConfig = field(default_factory=ServerConfig)
    ports: Iterable[int] = (0,)
    """Tried in order until one is free."""
    limits: GatewayLimits = field(default_factory=GatewayLimits)
    proxies: Proxies = field(default_factory=Proxies)
    folders: tuple[str, ...] | None = None
    """Real paths that bound every token; None for no bound."""
    start_folder: str | None = None
    """Where new sessions begin, unless a token names folders; None for the user's home folder."""
    idle: float = IDLE_SECONDS
    notifications: NotificationSettings = field(default_factory=NotificationSettings)


@dataclass(frozen=True, slots=True)
class GatewayService:
    """A running gateway."""

    authenticator: Authenticator
    gateway: Gateway
    http_server: HttpServer
    audit: AuditSink
    notifier: Notifier
    clock: Clock

    async def wait_for_turns(self, seconds: float, hurry: asyncio.Event) -> bool:
        """Wait until no turn runs, `seconds` have passed or `hurry` is set.

        Return whether all turns ended.
        """
        until = self.clock.now() + seconds
        while self.gateway.busy and self.clock.now() < until and not hurry.is_set():
            await self.clock.sleep(_POLL_SECONDS)
        if hurry.is_set():
            self.http_server.config = msgspec.structs.replace(
                self.http_server.config, stop_time=_HURRIED_STOP_SECONDS
            )
        return not self.gateway.busy


class GatewayBackend(Protocol):
    """Keeps the session logs of a gateway instead of the store of this machine."""

    @property
    def book(self) -> Book: ...

    @property
    def fence(self) -> Fence: ...

    @property
    def access(self) -> AccessState | None:
        """Tokens, logins and tickets that several gateways share; None for those of this machine."""
        ...

    def audit_sink(self, log: AuditLog) -> AuditSink:
        """Where to record what was done; it writes to this log first."""
        ...

    @property
    def unready(self) -> str:
        """Why clients should use another gateway now; empty if there is no reason."""
        ...

    def metrics(self) -> list[Metric]:
        """Its numbers for `/metrics`."""
        ...

    async def serve(self, gateway: Gateway, folders: tuple[str, ...] | None) -> ConnectionOpener:
        """Serve this gateway to other nodes, too. Return what opens the connections of clients.

        `folders` bound every token. Raises StoreError.
        """
        ...

    async def stop_serving(self) -> None:
        """End what `serve` began, before the gateway ends."""
        ...


@asynccontextmanager
async def run_gateway(
    plan: GatewayPlan, clock: Clock = SYSTEM_CLOCK, backend: GatewayBackend | None = None
) -> AsyncGenerator[GatewayService]:
    """Run a gateway until the block is left.

    At the end, client connections are closed first, then the agents are stopped. Raises UsageError and
    StoreError.
    """
    async with AsyncExitStack() as stack:
        book = FileBook.open() if backend is None else backend.book
        stack.push_async_callback(book.aclose)
        audit_log = AuditLog(on_error=LOG.error)
        audit_log.check()
        audit = audit_log if backend is None else backend.audit_sink(audit_log)
        access = None if backend is None else backend.access
        authenticator = Authenticator(
            plan.origins,
            tokens=None if access is None else access.tokens,
            browsers=None if access is None else access.browsers,
            tickets=None if access is None else access.tickets,
            audit=audit,
            clock=clock,
            proxies=plan.proxies,
            folders=plan.folders,
        )
        stack.callback(authenticator.token_watcher.close)
        if access is not None:
            access.on_token_change(authenticator.token_watcher.check_now)
        limit_counter, metrics = LimitCounter(plan.limits, clock), Metrics()
        gateway = Gateway(
            plan.sources,
            book,
            limit_counter=limit_counter,
            audit=audit,
            metrics=metrics,
            idle=plan.idle,
            clock=clock,
            fence=None if backend is None else backend.fence,
        )
        gateway.start_folder = plan.start_folder
        gateway.watch_token = authenticator.watch_token
        notifier = Notifier(
            plan.notifications,
            FilePushDevices() if access is None else access.devices,
            authenticator.tokens,
            gateway.overview.count_pending,
            clock=clock,
            folders=plan.folders,
        )
        gateway.notifier = notifier
        gateway.tokens, gateway.browsers = authenticator.tokens, authenticator.browsers
        opener: ConnectionOpener = gateway
        if backend is not None:
            metrics.more = backend.metrics
            metrics.unready = lambda: backend.unready
        stack.push_async_callback(notifier.aclose)
        stack.push_async_callback(gateway.aclose)
        if backend is not None:
            stack.push_async_callback(backend.stop_serving)
            opener = await backend.serve(gateway, plan.folders)
        base_config = msgspec.structs.replace(plan.server_config, message_size=plan.limits.message_bytes)
        http_server: HttpServer | None = None
        for port in plan.ports:
            config = msgspec.structs.replace(base_config, port=port)
            server = serve_http(
                opener=opener,
                authenticator=authenticator,
                limit_counter=limit_counter,
                config=config,
                clock=clock,
                metrics=metrics,
                notifier=notifier,
            )
            try:
                http_server = await stack.enter_async_context(server)
                break
            except UsageError as error:
                if not _is_address_in_use(error):
                    raise
        if http_server is None:
            ports = list(plan.ports)
            which = f"port {ports[0]} is" if len(ports) == 1 else f"ports {ports[0]} to {ports[-1]} are"
            raise UsageError(
                f"{which} in use on {plan.server_config.hosts[0]}; "
                "choose another with --port (0 for any free port)"
            )
        audit.record(None, "start", address=http_server.url)
        stack.callback(audit.record, None, "stop")
        yield GatewayService(authenticator, gateway, http_server, audit, notifier, clock)


def _is_address_in_use(error: UsageError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE
