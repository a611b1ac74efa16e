"""The models that a server offers: asked once in a while, in bounded time, else what the config names."""

import asyncio
import logging
from collections.abc import Sequence

from msgspec import Struct

from accord.clock import Clock, within
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.loading import loaded
from accord.coder.models.model import ModelError
from accord.coder.models.remote import Connections
from accord.errors import MissingExtra

_log = logging.getLogger(__name__)


class Offer(Struct, frozen=True):
    """A model that can be chosen."""

    name: str
    title: str
    context: int | None = None


class Offers:
    """What each server offers, as far as it is known."""

    def __init__(
        self,
        connections: Connections,
        clock: Clock,
        *,
        seconds: float = 5.0,
        keep: float = 600.0,
        forget: float = 30.0,
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._seconds = seconds
        self._keep = keep
        self._forget = forget
        self._known: dict[str, tuple[float, list[Offer] | None]] = {}
        self._asking: dict[str, asyncio.Task[list[Offer]]] = {}

    def known(self, endpoint: Endpoint) -> Sequence[Offer] | None:
        """What the server said when it was last asked; None if it never answered."""
        _, offers = self._known.get(endpoint.name, (0.0, None))
        return offers

    async def ask(self, endpoint: Endpoint) -> Sequence[Offer] | None:
        """What the server offers; None if it does not say. Asks again only when the last answer is old."""
        until, offers = self._known.get(endpoint.name, (0.0, None))
        if self._clock.now() < until or not endpoint.ready:
            return offers
        try:
            await loaded(endpoint.kind)
        except MissingExtra as error:
            _log.info("%s", error)
            return offers
        task = self._asking.get(endpoint.name)
        if task is None:
            task = self._asking[endpoint.name] = asyncio.ensure_future(self._ask(endpoint))
            task.add_done_callback(lambda _: self._asking.pop(endpoint.name, None))
        if await within(self._clock, self._seconds, task):
            return self.known(endpoint)
        task.cancel()
        self._remember(endpoint, None)
        _log.info("%s did not list its models in time", endpoint.name)
        return self.known(endpoint)

    async def _ask(self, endpoint: Endpoint) -> list[Offer]:
        from accord.coder.models.live.listing import ask_for_models

        try:
            offers = await ask_for_models(endpoint, self._connections.http())
        except ModelError as error:
            _log.info("%s", error)
            self._remember(endpoint, None)
            return []
        self._remember(endpoint, offers)
        return offers

    def _remember(self, endpoint: Endpoint, offers: list[Offer] | None) -> None:
        now = self._clock.now()
        if offers is None:
            self._known[endpoint.name] = (now + self._forget, self._known.get(endpoint.name, (0.0, None))[1])
        else:
            self._known[endpoint.name] = (now + self._keep, offers)

    async def aclose(self) -> None:
        """Stop asking."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
