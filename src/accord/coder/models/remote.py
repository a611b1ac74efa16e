"""A model of a real provider, as light as its name until it is asked: the libraries are loaded for the first request."""

import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.models.config import ModelFacts, RequestConfig
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.line import Line, run_apart
from accord.coder.models.loading import loaded
from accord.coder.models.model import EFFORTS, Effort, ModelError, ModelEvent, ModelRequest
from accord.coder.models.retry import Patience, patiently
from accord.coder.models.seeing import sees_by_name
from accord.errors import MissingExtra

if TYPE_CHECKING:
    import httpx2

    from accord.coder.models.live.asking import Ask


class Connections:
    """The HTTP connections of all remote models of a program. Close them at its end."""

    def __init__(self, requests: RequestConfig | None = None) -> None:
        self._silence = (requests or RequestConfig()).silence
        self._http: httpx2.AsyncClient | None = None

    def http(self) -> "httpx2.AsyncClient":
        """The client. Only once the libraries are loaded."""
        if self._http is None:
            from accord.coder.models.live.connecting import http_client

            self._http = http_client(self._silence)
        return self._http

    async def aclose(self) -> None:
        """Close all connections."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()


class RemoteModel:
    """A model at an endpoint."""

    efforts: Sequence[Effort] = EFFORTS

    def __init__(
        self,
        endpoint: Endpoint,
        name: str,
        connections: Connections,
        facts: ModelFacts | None = None,
        requests: RequestConfig | None = None,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.provider = endpoint.name
        self.told_context: int | None = None
        """What the provider's own list says of the model's context, once it was asked."""
        self._endpoint = endpoint
        self._connections = connections
        self._facts = facts or ModelFacts()
        self._requests = requests or RequestConfig()
        self._clock = clock
        self._chance = chance
        self._ask: Ask | None = None

    def __repr__(self) -> str:
        return f"<RemoteModel {self.provider}:{self.name}>"

    @property
    def sees_images(self) -> bool:
        """As the config says, else by the family of its name."""
        if self._facts.images is not None:
            return self._facts.images
        return sees_by_name(self.name)

    @property
    def context_size(self) -> int | None:
        """As the config says, else the provider, else, once they are loaded, the libraries."""
        return self._facts.context or self.told_context or (self._ask.context_size if self._ask else None)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The answer. Failures that pass are tried again before it has begun."""
        patience = Patience(attempts=self._requests.attempts, longest_wait=self._requests.longest_wait)
        events = patiently(lambda: self._attempt(request), patience, self._clock, self._chance)
        async with aclosing(events):
            async for event in events:
                yield event

    def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        line = Line(self._clock, self._requests.silence, self._silent)
        return run_apart(line, lambda: self._run(request, line))

    async def _run(self, request: ModelRequest, line: Line) -> None:
        try:
            await loaded(self._endpoint.kind)
            await self._connected(line).stream(request, self.sees_images, line)
            await line.put(None)
        except ModelError as error:
            await line.put(error)
        except MissingExtra as error:
            await line.put(ModelError("other", str(error)))

    def _connected(self, line: Line) -> "Ask":
        from accord.coder.models.live.asking import Ask
        from accord.coder.models.live.connecting import connect, heartbeat

        heartbeat.set(line.beat)
        if self._ask is None:
            theirs = connect(self._endpoint, self.name, self._connections.http())
            self._ask = Ask(self._endpoint, self.name, self._facts, theirs)
        return self._ask

    def _silent(self) -> ModelError:
        seconds = f"{self._requests.silence:g}"
        return ModelError(
            "network", f"{self.provider}:{self.name}: nothing came for {seconds} seconds; try again"
        )
