"""One MCP server over all its connections: connect on demand, retry, give up."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from accord.clock import Clock, within
from accord.coder.library_imports import server_connection_type
from accord.coder.mcp.server_interface import (
    McpLimits,
    McpServerFailure,
    OfferedFeatures,
    ServerConnectionLost,
    ServerContext,
    ServerState,
    SessionExpired,
    Status,
)
from accord.errors import AccordError
from accord.schema.mcp import McpServer, McpServerAcp, McpServerHttp, McpServerSse, McpServerStdio

if TYPE_CHECKING:
    from accord.coder.mcp.server_connection import Mode, ServerConnection


# MERGED coder.mcp.life: One connection to a server from its beginning to its end, in a task of its own: what it opened, it closes.

_LOG: Final = logging.getLogger("accord.coder.mcp")


class ConnectionTask:
    """A connection being made, standing, or over."""

    def __init__(
        self,
        server: McpServer,
        terms: "Callable[[ConnectionTask], ServerContext]",
        mode: "Mode",
        on_offers: "Callable[[ConnectionTask, OfferedFeatures], None]",
        on_end: "Callable[[ConnectionTask], None]",
    ) -> None:
        self._server = server
        self._terms = terms(self)
        self._mode: Mode = mode
        self._on_offers = on_offers
        self._on_end = on_end
        self._lost: str | None = None
        self._stale = False
        self.closing = False
        """Whether we end it ourselves."""
        self._stir = asyncio.Event()
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once it stands, or has failed."""
        self.link: ServerConnection | None = None
        """The connection, while it stands."""
        self.why = ""
        """How it ended, once it has; one line."""
        self.task = asyncio.create_task(self._run(), name=f"mcp {self._terms.name}")

    # -- what others do with it ---------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether nothing can be asked over it any more."""
        return self._lost is not None or self.closing or self.task.done()

    async def ready(self) -> "ServerConnection":
        """The connection, once its server has said what it offers. Raises McpFailure."""
        await asyncio.shield(self.settled)
        if self.link is None or self.over:
            raise McpServerFailure(self.why or self._lost or "it is closed")
        return self.link

    def lost(self, why: str) -> None:
        """The connection is over; the first word counts, it knows most."""
        if self._lost is None:
            self._lost = why
            self._stir.set()

    def stale(self) -> None:
        """What the server offers has changed."""
        self._stale = True
        self._stir.set()

    def close(self) -> None:
        """End it, in order."""
        self.closing = True
        self._stir.set()
        if not self.settled.done():
            self.task.cancel()

    # -- its course ---------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        limit = self._limits.connect_seconds
        timer = self._clock.call_later(limit, self._too_slow)
        try:
            await self._connected()
            self.why = self._lost or "it was closed"
        except asyncio.CancelledError:
            self.why = self._lost or "it was closed"
        except AccordError as error:
            self.why = self._lost or str(error)
        except Exception as error:  # noqa: BLE001  (the top of a task: one server must not harm the others)
            _LOG.error("the connection to %s failed by a defect", self._terms.name, exc_info=error)
            self.why = f"the connection failed by a defect of ours ({type(error).__name__})"
        finally:
            timer.cancel()
            self.link = None
            if self._lost is None:
                self._lost = self.why
            if not self.settled.done():
                self.settled.set_result(None)
            self._on_end(self)

    async def _connected(self) -> None:
        link_type = await server_connection_type()
        # Some older servers leave when the first thing they hear is not the greeting they know. A program that did so
        # is started once more, and greeted the old way.
        second = self._mode == "auto" and isinstance(self._server, McpServerStdio)
        for mode in (self._mode, "legacy") if second else (self._mode,):
            self._lost = None
            try:
                async with link_type.open(self._server, self._terms, mode) as link:
                    await self._stand(link)
                return
            except McpServerFailure as failure:
                if self.settled.done() or mode == "legacy" or self._lost is None or self.closing:
                    raise McpServerFailure(self._lost or str(failure)) from None

    async def _stand(self, link: "ServerConnection") -> None:
        offers = await self._listed(link)
        self.link = link
        self.settled.set_result(None)
        self._on_offers(self, offers)
        listening = asyncio.create_task(link.listen())
        looked = self._clock.now()
        try:
            while self._lost is None and not self.closing:
                await self._stir.wait()
                self._stir.clear()
                if self._stale and self._lost is None and not self.closing:
                    await self._clock.sleep(max(looked + self._limits.refresh_seconds - self._clock.now(), 0))
                    self._stale = False
                    looked = self._clock.now()
                    await self._look_again(link)
        finally:
            listening.cancel()
            await asyncio.wait({listening})

    async def _look_again(self, link: "ServerConnection") -> None:
        try:
            self._on_offers(self, await self._listed(link))
        except McpServerFailure as failure:
            _LOG.warning("%s did not list its changed offers: %s", self._terms.name, failure)

    async def _listed(self, link: "ServerConnection") -> OfferedFeatures:
        listing = asyncio.ensure_future(link.offers())
        try:
            if await within(self._clock, self._limits.list_seconds, listing):
                return listing.result()
        finally:
            listing.cancel()
        raise McpServerFailure(f"it did not say within {self._limits.list_seconds:g} s what it offers")

    def _too_slow(self) -> None:
        if not self.settled.done():
            self.lost(f"it was not ready within {self._limits.connect_seconds:g} s")
            self.task.cancel()

    @property
    def _limits(self) -> McpLimits:
        return self._terms.limits

    @property
    def _clock(self) -> Clock:
        return self._terms.clock


# MERGED coder.mcp.server: One server of a session through all its connections: connected when needed, used within limits, given up in the end.

T = TypeVar("T")
Ask: TypeAlias = "Callable[[ServerConnection, Callable[[], None]], Awaitable[T]]"
"""Asks something over a connection, and calls what it is given at every sign of life."""


class SessionMcpServer:
    """A server; `offers` is what it offered when it was last asked."""

    def __init__(self, server: McpServer, terms: ServerContext) -> None:
        self.name = terms.name
        self.offers = OfferedFeatures()
        self._server = server
        self._terms = terms
        self._limits = terms.limits
        self._life: ConnectionTask | None = None
        self._mode: Mode = "auto"
        self._losses = 0  # connections that ended by themselves, in a row
        self._why = ""
        self._closed = False
        self._leaving: set[asyncio.Future[Any]] = set()

    @property
    def state(self) -> ServerState:
        """How it stands."""
        offers = self.offers
        return ServerState(
            self.name,
            _transport(self._server),
            self._status,
            self._why if self._status == "failed" else "",
            len(offers.tools),
            len(offers.prompts),
            len(offers.resources),
        )

    @property
    def _status(self) -> Status:
        if self._closed:
            return "closed"
        if self._life is not None and self._life.why:
            return "failed"
        return "ready" if self._life is not None and not self._life.over and self._life.link else "connecting"

    # -- its connections ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to connect, if nobody has."""
        if self._life is None and not self._closed:
            self._begin()

    def restart(self) -> None:
        """Connect anew, also if it was given up; nothing if it stands."""
        if not self._closed and (self._life is None or self._life.task.done()):
            self._losses = 0
            self._begin()
            self._tell(self._terms.hooks.changed)

    def _begin(self) -> ConnectionTask:
        self._life = ConnectionTask(self._server, self._terms_of, self._mode, self._offered, self._ended)
        return self._life

    async def settled(self, seconds: float) -> bool:
        """Whether it is ready or has failed, at the latest after so many seconds."""
        if self._life is None or self._life.settled.done():
            return self._life is not None
        return seconds > 0 and await within(self._terms.clock, seconds, self._life.settled)

    async def aclose(self) -> None:
        """End it; bounded."""
        self._closed = True
        life = self._life
        if life is not None and not life.task.done():
            life.close()
            patience = 2 * self._limits.leave_seconds + 2
            if not await within(self._terms.clock, patience, life.task):
                life.task.cancel()
                await within(self._terms.clock, patience, life.task)
        for call in list(self._leaving):
            call.cancel()

    def _terms_of(self, life: ConnectionTask) -> ServerContext:
        return replace(self._terms, lost=life.lost, stale=life.stale)

    def _offered(self, life: ConnectionTask, offers: OfferedFeatures) -> None:
        self.offers = offers
        self._tell(self._terms.hooks.changed)

    def _ended(self, life: ConnectionTask) -> None:
        if self._closed or life.closing or life is not self._life:
            return
        self._losses += 1
        self._why = life.why
        if self._given_up:
            self.offers = OfferedFeatures()
        self._tell(self._terms.hooks.failed, self.name, life.why)
        self._tell(self._terms.hooks.changed)

    def _tell(self, hook: Callable[..., None], *args: str) -> None:
        try:
            hook(*args)
        except Exception as error:  # noqa: BLE001  (the session's side must not break the connection)
            _LOG.error("telling the session about %s failed", self.name, exc_info=error)

    @property
    def _given_up(self) -> bool:
        return self._losses > self._limits.restarts

    async def _alive(self) -> "tuple[ConnectionTask, ServerConnection]":
        """A connection that stands; made anew if it has to be, so often at most."""
        if self._closed:
            raise McpServerFailure(f"{self.name} is closed")
        life = self._life
        if life is None or life.over:
            if life is not None:
                await asyncio.wait({life.task})  # its program is seen out before the next is started
            if self._given_up:
                raise McpServerFailure(f"{self.name} is not started again, it failed too often: {self._why}")
            if life is not self._life and self._life is not None:
                life = self._life  # somebody else did, meanwhile
            else:
                life = self._begin()
                self._tell(self._terms.hooks.changed)
        try:
            link = await life.ready()
        except McpServerFailure as failure:
            raise McpServerFailure(f"{self.name} is not available: {failure}") from None
        self._mode = link.mode
        return life, link

    # -- using it -----------------------------------------------------------------------------------------------

    async def use(self, ask: "Ask[T]") -> T:
        """Ask it something. Raises McpFailure; cancelling it tells the server so."""
        try:
            return await self._use_once(ask)
        except SessionExpired:
            return await self._use_once(ask)

    async def _use_once(self, ask: "Ask[T]") -> T:
        life, link = await self._alive()
        try:
            result = await self._limited(link, ask)
        except SessionExpired:
            life.close()
            self._losses += 1
            raise
        except ServerConnectionLost as failure:
            life.lost(str(failure))
            await within(self._terms.clock, 2 * self._limits.leave_seconds, life.task)
            if self._closed:
                raise McpServerFailure(f"{self.name} was closed before it answered") from None
            again = "not be used again" if self._given_up else "be started again for the next call"
            raise McpServerFailure(
                f"{self.name} ended before it answered, so that this may or may not have had effects: "
                f"{life.why or failure}. It will {again}."
            ) from None
        except McpServerFailure as failure:
            raise McpServerFailure(f"{self.name}: {failure}") from None
        self._losses = 0
        return result

    async def _limited(self, link: "ServerConnection", ask: "Ask[T]") -> T:
        clock, limits = self._terms.clock, self._limits
        begun = heard = clock.now()

        def alive() -> None:
            nonlocal heard
            heard = clock.now()

        asking = asyncio.ensure_future(ask(link, alive))
        self._leaving.add(asking)
        asking.add_done_callback(self._left)
        try:
            while not await within(
                clock,
                max(min(heard + limits.call_seconds, begun + limits.most_call_seconds) - clock.now(), 0.0),
                asking,
            ):
                if link.asking:  # the user may take their time
                    begun = heard = clock.now()
                elif clock.now() >= min(heard + limits.call_seconds, begun + limits.most_call_seconds):
                    await self._leave(asking)
                    raise McpServerFailure(
                        f"no sign of life for {clock.now() - heard:g} s; the call was cancelled"
                    )
        except asyncio.CancelledError:
            await self._leave(asking)
            raise
        return asking.result()

    async def _leave(self, asking: "asyncio.Future[Any]") -> None:
        """Cancel a call, and let the word that it is leave; whatever still happens in it, nobody waits for."""
        asking.cancel()
        await within(self._terms.clock, self._limits.cancel_seconds, asking)

    def _left(self, asking: "asyncio.Future[Any]") -> None:
        self._leaving.discard(asking)
        if not asking.cancelled():
            asking.exception()  # it was told, or nobody is left to be


def _transport(server: McpServer) -> str:
    if isinstance(server, McpServerHttp):
        return "http"
    if isinstance(server, McpServerSse):
        return "sse"
    return "acp" if isinstance(server, McpServerAcp) else "stdio"
