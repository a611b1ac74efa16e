"""One server of a session through all its connections: connected when needed, used within limits, given up in the end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from accord.clock import within
from accord.coder.mcp.hooks import LinkLost, McpFailure, ServerState, SessionExpired, Status
from accord.coder.mcp.life import Life
from accord.coder.mcp.offers import Offers
from accord.coder.mcp.terms import Terms
from accord.schema.mcp import McpServer, McpServerAcp, McpServerHttp, McpServerSse

if TYPE_CHECKING:
    from accord.coder.mcp.live.link import Link, Mode

T = TypeVar("T")
_LOG: Final = logging.getLogger("accord.coder.mcp")
Ask: TypeAlias = "Callable[[Link, Callable[[], None]], Awaitable[T]]"
"""Asks something over a connection, and calls what it is given at every sign of life."""


class Server:
    """A server; `offers` is what it offered when it was last asked."""

    def __init__(self, server: McpServer, terms: Terms) -> None:
        self.name = terms.name
        self.offers = Offers()
        self._server = server
        self._terms = terms
        self._limits = terms.limits
        self._life: Life | None = None
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

    def _begin(self) -> Life:
        self._life = Life(self._server, self._terms_of, self._mode, self._offered, self._ended)
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

    def _terms_of(self, life: Life) -> Terms:
        return replace(self._terms, lost=life.lost, stale=life.stale)

    def _offered(self, life: Life, offers: Offers) -> None:
        self.offers = offers
        self._tell(self._terms.hooks.changed)

    def _ended(self, life: Life) -> None:
        if self._closed or life.closing or life is not self._life:
            return
        self._losses += 1
        self._why = life.why
        if self._given_up:
            self.offers = Offers()
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

    async def _alive(self) -> "tuple[Life, Link]":
        """A connection that stands; made anew if it has to be, so often at most."""
        if self._closed:
            raise McpFailure(f"{self.name} is closed")
        life = self._life
        if life is None or life.over:
            if life is not None:
                await asyncio.wait({life.task})  # its program is seen out before the next is started
            if self._given_up:
                raise McpFailure(f"{self.name} is not started again, it failed too often: {self._why}")
            if life is not self._life and self._life is not None:
                life = self._life  # somebody else did, meanwhile
            else:
                life = self._begin()
                self._tell(self._terms.hooks.changed)
        try:
            link = await life.ready()
        except McpFailure as failure:
            raise McpFailure(f"{self.name} is not available: {failure}") from None
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
        except LinkLost as failure:
            life.lost(str(failure))
            await within(self._terms.clock, 2 * self._limits.leave_seconds, life.task)
            if self._closed:
                raise McpFailure(f"{self.name} was closed before it answered") from None
            again = "not be used again" if self._given_up else "be started again for the next call"
            raise McpFailure(
                f"{self.name} ended before it answered, so that this may or may not have had effects: "
                f"{life.why or failure}. It will {again}."
            ) from None
        except McpFailure as failure:
            raise McpFailure(f"{self.name}: {failure}") from None
        self._losses = 0
        return result

    async def _limited(self, link: "Link", ask: "Ask[T]") -> T:
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
                    raise McpFailure(f"no sign of life for {clock.now() - heard:g} s; the call was cancelled")
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
