"""A provider's model.

It imports its wire format with the first request, and retries failed requests.
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
    AnswerDraft,
    Effort,
    ModelError,
    ModelEvent,
    ModelRequest,
    RequestUsage,
    Retrying,
    TextDelta,
    ThoughtDelta,
)
from accord.coder.models.model_name import guess_vision
from accord.coder.user_config import ModelFacts, RequestConfig
from accord.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    import httpx2

    from accord.coder.models.provider_request import ProviderRequest
    from accord.coder.models.provider_search import ProviderSearch

_QUEUE_SIZE = 64


class ModelConnections:
    """The HTTP connections that all remote models of a program share. Close them at its end."""

    def __init__(self, requests: RequestConfig | None = None) -> None:
        self._silence = (requests or RequestConfig()).silence
        self._http: httpx2.AsyncClient | None = None

    def http(self) -> "httpx2.AsyncClient":
        """Return the client. Call it only after httpx2 is loaded."""
        if self._http is None:
            from accord.coder.models.provider_request import http_client

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
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name: str = name
        self.provider: str = endpoint.name
        self.reported_context: int | None = None
        """The size of the context window in the provider's list of models."""
        self.reported_images: bool | None = None
        """Whether it accepts images, by the provider's list of models."""
        self.endpoint = endpoint
        self.max_tools: int | None = endpoint.max_tools
        self._connections = connections
        self._facts = facts or ModelFacts()
        self._requests = requests or RequestConfig()
        self._clock = clock
        self._jitter = jitter
        self._provider_request: ProviderRequest | None = None

    def __repr__(self) -> str:
        return f"<RemoteModel {self.provider}:{self.name}>"

    @property
    def sees_images(self) -> bool:
        """From the configuration, else from the provider, else guessed from the model's name."""
        for known in (self._facts.images, self.reported_images):
            if known is not None:
                return known
        return guess_vision(self.name)

    @property
    def context_size(self) -> int | None:
        """From the configuration, else from the provider, else the known one of its official models."""
        known = self._provider_request.context_size if self._provider_request else None
        return self._facts.context or self.reported_context or known

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the answer. Retries temporary failures."""
        policy = RetryPolicy(attempts=self._requests.attempts, max_wait=self._requests.longest_wait)
        events = with_retries(lambda: self._attempt(request), policy, self._clock, self._jitter)
        async with aclosing(events):
            async for event in events:
                yield event

    async def web_search(self, on_usage: Callable[[RequestUsage], None]) -> "ProviderSearch":
        """The web search of the provider. `on_usage` gets the tokens of each search. Raises MissingExtra."""
        await provider_loaded(self.endpoint.kind)
        from accord.coder.models.provider_search import ProviderSearch

        return ProviderSearch(self._connect(), self._connections.http(), on_usage)

    def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        queue = ModelEventQueue(self._clock, self._requests.silence, self._silence_error)
        return run_in_task(queue, lambda: self._run(request, queue))

    async def _run(self, request: ModelRequest, queue: "ModelEventQueue") -> None:
        try:
            await provider_loaded(self.endpoint.kind)
            await self._connect().stream(request, self.sees_images, queue)
            await queue.put(None)
        except ModelError as error:
            await queue.put(error)
        except MissingExtra as error:
            await queue.put(ModelError("other", str(error)))
        except Exception as error:  # noqa: BLE001  (a defect; its text may hold the key)
            failure = f"the provider code failed ({type(error).__name__})"
            await queue.put(ModelError("other", f"{self.provider}:{self.name}: {failure}"))

    def _connect(self) -> "ProviderRequest":
        from accord.coder.models.provider_request import ProviderRequest

        if self._provider_request is None:
            http = self._connections.http()
            self._provider_request = ProviderRequest(self.endpoint, self.name, self._facts, http)
        return self._provider_request

    def _silence_error(self) -> ModelError:
        seconds = f"{self._requests.silence:g}"
        return ModelError(
            "network", f"{self.provider}:{self.name}: nothing arrived for {seconds} seconds; try again"
        )


class RetryPolicy(Struct, frozen=True):
    """How often a request is sent, and the waits between the attempts."""

    attempts: int = 6
    first_wait: float = 1.0
    """Seconds before the second attempt. The wait doubles with every further attempt."""
    max_backoff: float = 30.0
    """The upper bound of the doubled wait, in seconds."""
    max_wait: float = 120.0
    """If a provider asks for a longer wait, the request fails instead."""

    def wait(self, attempt: int, retry_after: float | None, jitter: float) -> float | None:
        """Return the seconds to wait after this attempt, or None to give up.

        `jitter`, from 0 to 1, spreads the retries of requests that failed at the same time.
        """
        if attempt >= self.attempts:
            return None
        backoff = min(self.first_wait * 2 ** (attempt - 1), self.max_backoff)
        if retry_after is None:
            return backoff * (0.5 + jitter / 2)
        if retry_after > self.max_wait:
            return None
        return max(retry_after, 0.0) + backoff * jitter / 4


async def with_retries(
    attempt: Callable[[], AsyncGenerator[ModelEvent, None]],
    policy: RetryPolicy,
    clock: Clock = SYSTEM_CLOCK,
    jitter: Callable[[], float] = random.random,
) -> AsyncGenerator[ModelEvent, None]:
    """Yield the events of the first attempt that answers, with a `Retrying` event before every retry.

    An answer that breaks off is asked for again, too: its tools run only when it is complete. The last error
    carries what had arrived as `partial_answer`.
    """
    if policy.attempts < 1:
        raise UsageError("a request needs at least one attempt")
    number = 1
    while True:
        draft, began, failure = AnswerDraft(), False, None
        try:
            async with aclosing(attempt()) as events:
                async for event in events:
                    draft.add(event)
                    began = began or isinstance(event, TextDelta | ThoughtDelta | ToolUse)
                    yield event
            return
        except ModelError as error:
            failure = error
        failure.partial_answer = draft.message
        wait = policy.wait(number, failure.retry_after, jitter())
        if failure.final or wait is None:
            raise _last_error(failure, number, began)
        number += 1
        yield Retrying(number, wait, str(failure), began)
        await clock.sleep(wait)


def _last_error(error: ModelError, attempts: int, began: bool) -> ModelError:
    """Return the error with the number of attempts in its text."""
    kept_text = "; the answer so far is kept" if began and error.partial_answer else ""
    attempts_text = f" (tried {attempts} times)" if attempts > 1 else ""
    if not kept_text and not attempts_text:
        return error
    return ModelError(
        error.kind,
        f"{error}{kept_text}{attempts_text}",
        retry_after=error.retry_after,
        status=error.status,
        final=error.final,
        partial_answer=error.partial_answer,
    )


class ModelEventQueue:
    """The events between the task that sends a request and the reader of its stream.

    Bounded, so that a slow reader slows the request down. The reader gets an error when the provider stays
    silent.
    """

    def __init__(self, clock: Clock, silence: float, silence_error: Callable[[], ModelError]) -> None:
        self._clock = clock
        self._silence = silence
        self._silence_error = silence_error
        self._queue: asyncio.Queue[ModelEvent | ModelError | None] = asyncio.Queue(_QUEUE_SIZE)
        self._last_data = clock.now()

    def reset_silence(self) -> None:
        """Start the silence limit anew: data arrived from the provider."""
        self._last_data = self._clock.now()

    async def put(self, event: ModelEvent | ModelError | None) -> None:
        """Add an event, the error that ends the stream, or None for its regular end."""
        await self._queue.put(event)

    async def next(self) -> ModelEvent | None:
        """Return the next event, or None at the end. Raises ModelError."""
        event = await self._wait() if self._queue.empty() else self._queue.get_nowait()
        if isinstance(event, ModelError):
            raise event
        return event

    async def _wait(self) -> ModelEvent | ModelError | None:
        self.reset_silence()  # the time that the reader took does not count as silence
        next_event = asyncio.ensure_future(self._queue.get())
        timed_out = False

        def check() -> None:
            nonlocal timer, timed_out
            remaining = self._last_data + self._silence - self._clock.now()
            if remaining > 0:
                timer = self._clock.call_later(remaining, check)
            else:
                timed_out = True
                next_event.cancel()

        timer = self._clock.call_later(self._silence, check)
        try:
            return await next_event
        except asyncio.CancelledError:
            if timed_out:
                return self._silence_error()
            raise
        finally:
            timer.cancel()
            next_event.cancel()


async def run_in_task(
    queue: ModelEventQueue, work: Callable[[], Awaitable[None]]
) -> AsyncGenerator[ModelEvent, None]:
    """Run the work in its own task and yield the events it puts into the queue.

    The HTTP client needs one task from start to end; the reader of the stream may change. Closing the
    stream cancels the task and waits for its end.
    """
    task = asyncio.ensure_future(work())
    try:
        while (event := await queue.next()) is not None:
            yield event
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
