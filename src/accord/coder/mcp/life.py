"""One connection to a server from its beginning to its end, in a task of its own: what it opened, it closes."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from accord.clock import Clock, within
from accord.coder.mcp.hooks import McpFailure, McpLimits
from accord.coder.mcp.loading import live_link
from accord.coder.mcp.offers import Offers
from accord.errors import AccordError
from accord.schema.mcp import McpServer, McpServerStdio

if TYPE_CHECKING:
    from accord.coder.mcp.live.link import Link, Mode
    from accord.coder.mcp.terms import Terms

_LOG: Final = logging.getLogger("accord.coder.mcp")


class Life:
    """A connection being made, standing, or over."""

    def __init__(
        self,
        server: McpServer,
        terms: "Callable[[Life], Terms]",
        mode: "Mode",
        on_offers: "Callable[[Life, Offers], None]",
        on_end: "Callable[[Life], None]",
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
        self.link: Link | None = None
        """The connection, while it stands."""
        self.why = ""
        """How it ended, once it has; one line."""
        self.task = asyncio.create_task(self._run(), name=f"mcp {self._terms.name}")

    # -- what others do with it ---------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether nothing can be asked over it any more."""
        return self._lost is not None or self.closing or self.task.done()

    async def ready(self) -> "Link":
        """The connection, once its server has said what it offers. Raises McpFailure."""
        await asyncio.shield(self.settled)
        if self.link is None or self.over:
            raise McpFailure(self.why or self._lost or "it is closed")
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
        link_type = await live_link()
        # Some older servers leave when the first thing they hear is not the greeting they know. A program that did so
        # is started once more, and greeted the old way.
        second = self._mode == "auto" and isinstance(self._server, McpServerStdio)
        for mode in (self._mode, "legacy") if second else (self._mode,):
            self._lost = None
            try:
                async with link_type.open(self._server, self._terms, mode) as link:
                    await self._stand(link)
                return
            except McpFailure as failure:
                if self.settled.done() or mode == "legacy" or self._lost is None or self.closing:
                    raise McpFailure(self._lost or str(failure)) from None

    async def _stand(self, link: "Link") -> None:
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

    async def _look_again(self, link: "Link") -> None:
        try:
            self._on_offers(self, await self._listed(link))
        except McpFailure as failure:
            _LOG.warning("%s did not list its changed offers: %s", self._terms.name, failure)

    async def _listed(self, link: "Link") -> Offers:
        listing = asyncio.ensure_future(link.offers())
        try:
            if await within(self._clock, self._limits.list_seconds, listing):
                return listing.result()
        finally:
            listing.cancel()
        raise McpFailure(f"it did not say within {self._limits.list_seconds:g} s what it offers")

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
