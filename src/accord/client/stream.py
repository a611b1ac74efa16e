"""What `prompt` and `events` give to iterate over: leaving it in any way, a plain `break` included, takes effect at once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from accord.client.inbox import Inbox

E = TypeVar("E")


class EventStream(Generic[E]):
    """Events as they come. `aclose` leaves it, and so does dropping it: a loop that is broken off does just that.

    (An async generator would be closed by the event loop some time later, and until then still count as listening.)
    """

    __slots__ = ("_begin", "_closed", "_inbox", "_leave", "_loop", "_outcome")

    def __init__(
        self,
        inbox: Inbox[E] | None,
        leave: Callable[[], None],
        *,
        begin: Callable[[], Awaitable[Inbox[E]]] | None = None,
        outcome: Callable[[], Exception | None] = lambda: None,
    ) -> None:
        """`begin` stands for a queue that is there only once the first event has been asked for.

        `leave` is called when nobody wants more, perhaps twice; `outcome` gives what to raise behind the last event.
        """
        self._inbox = inbox
        self._begin = begin
        self._leave = leave
        self._outcome = outcome
        self._closed = False
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> "EventStream[E]":
        return self

    async def __anext__(self) -> E:
        inbox = self._inbox
        if inbox is None or not inbox.filled:
            inbox = await self._next_filled()
        return inbox.take()

    async def aclose(self) -> None:
        """Leave it."""
        self._closed = True
        self._leave()

    async def _next_filled(self) -> Inbox[E]:
        if self._closed:
            raise StopAsyncIteration
        try:
            if self._inbox is None and self._begin is not None:
                begin, self._begin = self._begin, None
                self._inbox = await begin()
            if self._inbox is not None and await self._inbox.ready():
                return self._inbox
        except BaseException:
            await self.aclose()
            raise
        await self.aclose()
        raise self._outcome() or StopAsyncIteration

    def __del__(self) -> None:
        # Dropped elsewhere (another thread, a loop that is gone), there is nobody left to tell.
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            self._leave()
