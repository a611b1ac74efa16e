"""The line between a request, which runs in a task of its own, and the stream that is read from it.

The libraries below want one task from beginning to end; whoever reads the stream may be any, and may stop at any time.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from accord.clock import Clock
from accord.coder.models.model import ModelError, ModelEvent

_AHEAD = 64


class Line:
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


async def run_apart(line: Line, work: Callable[[], Awaitable[None]]) -> AsyncGenerator[ModelEvent, None]:
    """The events that the work puts on the line. Closing the stream ends the work, and waits until it has ended."""
    task = asyncio.ensure_future(work())
    try:
        while (event := await line.next()) is not None:
            yield event
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
