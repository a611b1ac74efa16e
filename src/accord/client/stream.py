"""What `prompt` and `events` give to iterate over: leaving it in any way, a plain `break` included, takes effect at once."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Generic, TypeVar

E = TypeVar("E")


class EventStream(Generic[E]):
    """Events as they come. `aclose` leaves it, and so does dropping it: a loop that is broken off does just that.

    An async generator alone would be closed by the event loop some time later, and until then still count as listening.
    """

    __slots__ = ("_events", "_leave", "_loop")

    def __init__(self, events: AsyncGenerator[E], leave: Callable[[], None]) -> None:
        """`leave` may be called twice, and before the first event was asked for."""
        self._events = events
        self._leave = leave
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> "EventStream[E]":
        return self

    async def __anext__(self) -> E:
        return await self._events.__anext__()  # a coroutine keeps the stream alive while it waits

    async def aclose(self) -> None:
        """Leave it."""
        self._leave()
        await self._events.aclose()

    def __del__(self) -> None:
        # Dropped elsewhere (another thread, a loop that is gone), there is nobody left to tell.
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            self._leave()
