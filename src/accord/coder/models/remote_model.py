"""A provider's model that loads its library on the first request; retries; the stream between request task
and reader.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct

from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.library_imports import provider_loaded
from accord.coder.model_history import ToolUse
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.model import (
    EFFORTS,
    Effort,
    ErrorKind,
    ModelError,
    ModelEvent,
    ModelRequest,
    PartialAnswer,
    Retrying,
    TextDelta,
    ThoughtDelta,
)
from accord.coder.models.model_name import sees_by_name
from accord.coder.user_config import ModelFacts, RequestConfig
from accord.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    import httpx2

    from accord.coder.models.provider_request import ProviderRequest


# MERGED coder.models.retry: Trying again: a request that failed for a passing reason, before anything was answered, goes out again, visibly.


class RetryPolicy(Struct, frozen=True):
    """How often, and how long in between."""

    attempts: int = 6
    first: float = 1.0
    """Seconds before the second attempt, doubled every time."""
    most: float = 30.0
    longest_wait: float = 120.0
    """A provider that asks to wait longer is not waited for."""

    def wait(self, attempt: int, retry_after: float | None, chance: float) -> float | None:
        """Seconds to wait after this attempt; None to give up. The chance, 0 to 1, spreads those who failed together."""
        if attempt >= self.attempts:
            return None
        own = min(self.first * 2 ** (attempt - 1), self.most)
        if retry_after is None:
            return own * (0.5 + chance / 2)
        if retry_after > self.longest_wait:
            return None
        return max(retry_after, 0.0) + own * chance / 4


async def patiently(
    attempt: Callable[[], AsyncGenerator[ModelEvent, None]],
    patience: RetryPolicy,
    clock: Clock = SYSTEM_CLOCK,
    chance: Callable[[], float] = random.random,
) -> AsyncGenerator[ModelEvent, None]:
    """The events of the first attempt that answers; `Retrying` before every further one.

    Once an answer has begun, an error ends it: it carries what had come, for nothing that was shown is taken back.
    """
    if patience.attempts < 1:
        raise UsageError("a request needs at least one attempt")
    number = 1
    while True:
        draft, began, failure = PartialAnswer(), False, None
        try:
            async with aclosing(attempt()) as events:
                async for event in events:
                    draft.add(event)
                    began = began or isinstance(event, TextDelta | ThoughtDelta | ToolUse)
                    yield event
            return
        except ModelError as error:
            failure = error
        failure.partial = draft.message
        wait = patience.wait(number, failure.retry_after, chance())
        if began or failure.final or wait is None:
            raise _given_up(failure, number, began)
        number += 1
        yield Retrying(number, wait, str(failure))
        await clock.sleep(wait)


def _given_up(error: ModelError, attempts: int, began: bool) -> ModelError:
    kind: ErrorKind = error.kind
    more = "; the answer so far is kept" if began and error.partial else ""
    tried = f" (tried {attempts} times)" if attempts > 1 else ""
    if not more and not tried:
        return error
    return ModelError(
        kind, f"{error}{more}{tried}", retry_after=error.retry_after, final=error.final, partial=error.partial
    )


# MERGED coder.models.line: The line between a request, which runs in a task of its own, and the stream that is read from it.
#
# The libraries below want one task from beginning to end; whoever reads the stream may be any, and may stop at any time.

_AHEAD = 64


class ModelEventQueue:
    """Events on their way. Back-pressure one way, silence noticed the other way."""

    def __init__(self, clock: Clock, silence: float, silent: Callable[[], ModelError]) -> None:
        self._clock = clock
        self._silence = silence
        self._silent = silent
        self._queue: asyncio.Queue[ModelEvent | ModelError | None] = asyncio.Queue(_AHEAD)
        self._alive = clock.now()

    def beat(self) -> None:
        """Something came from the other side."""
        self._alive = self._clock.now()

    async def put(self, event: ModelEvent | ModelError | None) -> None:
        """Hand over an event, the error that ends it all, or None for a good end."""
        await self._queue.put(event)

    async def next(self) -> ModelEvent | None:
        """The next event; None at the end. Raises ModelError."""
        event = await self._wait() if self._queue.empty() else self._queue.get_nowait()
        if isinstance(event, ModelError):
            raise event
        return event

    async def _wait(self) -> ModelEvent | ModelError | None:
        self.beat()  # a reader who took his time does not count as silence
        coming = asyncio.ensure_future(self._queue.get())
        too_long = False

        def look() -> None:
            nonlocal timer, too_long
            left = self._alive + self._silence - self._clock.now()
            if left > 0:
                timer = self._clock.call_later(left, look)
            else:
                too_long = True
                coming.cancel()

        timer = self._clock.call_later(self._silence, look)
        try:
            return await coming
        except asyncio.CancelledError:
            if too_long:
                return self._silent()
            raise
        finally:
            timer.cancel()
            coming.cancel()


async def run_apart(
    line: ModelEventQueue, work: Callable[[], Awaitable[None]]
) -> AsyncGenerator[ModelEvent, None]:
    """The events that the work puts on the line. Closing the stream ends the work, and waits until it has ended."""
    task = asyncio.ensure_future(work())
    try:
        while (event := await line.next()) is not None:
            yield event
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# MERGED coder.models.remote: A model of a real provider, as light as its name until it is asked: the libraries are loaded for the first request.


class ModelConnections:
    """The HTTP connections of all remote models of a program. Close them at its end."""

    def __init__(self, requests: RequestConfig | None = None) -> None:
        self._silence = (requests or RequestConfig()).silence
        self._http: httpx2.AsyncClient | None = None

    def http(self) -> "httpx2.AsyncClient":
        """The client. Only once the libraries are loaded."""
        if self._http is None:
            from accord.coder.models.provider_connection import http_client

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
        connections: ModelConnections,
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
        self._ask: ProviderRequest | None = None

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
        patience = RetryPolicy(attempts=self._requests.attempts, longest_wait=self._requests.longest_wait)
        events = patiently(lambda: self._attempt(request), patience, self._clock, self._chance)
        async with aclosing(events):
            async for event in events:
                yield event

    def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        line = ModelEventQueue(self._clock, self._requests.silence, self._silent)
        return run_apart(line, lambda: self._run(request, line))

    async def _run(self, request: ModelRequest, line: ModelEventQueue) -> None:
        try:
            await provider_loaded(self._endpoint.kind)
            await self._connected(line).stream(request, self.sees_images, line)
            await line.put(None)
        except ModelError as error:
            await line.put(error)
        except MissingExtra as error:
            await line.put(ModelError("other", str(error)))
        except Exception as error:  # noqa: BLE001  (a library that cannot be imported or set up; the text may hold the key)
            what = f"the provider library failed ({type(error).__name__})"
            await line.put(ModelError("other", f"{self.provider}:{self.name}: {what}"))

    def _connected(self, line: ModelEventQueue) -> "ProviderRequest":
        from accord.coder.models.provider_connection import connect, heartbeat
        from accord.coder.models.provider_request import ProviderRequest

        heartbeat.set(line.beat)
        if self._ask is None:
            theirs = connect(self._endpoint, self.name, self._connections.http())
            self._ask = ProviderRequest(self._endpoint, self.name, self._facts, theirs)
        return self._ask

    def _silent(self) -> ModelError:
        seconds = f"{self._requests.silence:g}"
        return ModelError(
            "network", f"{self.provider}:{self.name}: nothing came for {seconds} seconds; try again"
        )
