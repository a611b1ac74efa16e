"""Queues of events, each for one reader. What lies in one counts as unread at the connection: a slow reader slows the agent."""

import asyncio
from collections import deque
from typing import Final, Generic, Protocol, TypeVar

E = TypeVar("E")

_RELEASE: Final = 64 * 1024
"""Taken bytes are handed back to the connection in portions of this size, or when the queue is empty."""


class Wire(Protocol):
    """What the connection of the moment tells and takes."""

    frame_size: int

    def hold(self, size: int) -> None: ...
    def release(self, size: int) -> None: ...


class Ledger:
    """How much lies unread in the queues of one agent, accounted at its connection; a restart replaces that."""

    __slots__ = ("_held", "wire")

    def __init__(self) -> None:
        self.wire: Wire | None = None
        self._held = 0

    def move_to(self, wire: Wire) -> None:
        """From now on this is the connection; what is still unread counts there."""
        self.wire = wire
        wire.hold(self._held)

    def hold(self, size: int) -> None:
        """So many more bytes wait to be read."""
        self._held += size
        if self.wire is not None:
            self.wire.hold(size)

    def release(self, size: int) -> None:
        """They have been."""
        self._held -= size
        if self.wire is not None:
            self.wire.release(size)


class Inbox(Generic[E]):
    """One writer, on the event loop, and one reader. Once closed it gives what is left, then ends."""

    __slots__ = ("_closed", "_events", "_ledger", "_taken", "_waiter")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._events: deque[tuple[E, int]] = deque()
        self._taken = 0
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def put(self, event: E, size: int) -> None:
        """Add an event that stands for so many bytes."""
        if self._closed:
            return
        self._events.append((event, size))
        self._ledger.hold(size)
        waiter = self._waiter
        if waiter is not None:
            self._wake()

    def close(self) -> None:
        """Nothing more will be put."""
        self._closed = True
        self._wake()

    def abandon(self) -> None:
        """The reader is gone: forget what is left, so that it holds nobody up."""
        self._closed = True
        self._taken += sum(size for _, size in self._events)
        self._events.clear()
        self._give_back()
        self._wake()

    def take(self) -> E:
        """The next event of a queue that is not empty."""
        event, size = self._events.popleft()
        self._taken += size
        if self._taken >= _RELEASE or not self._events:
            self._give_back()
        return event

    def __len__(self) -> int:
        return len(self._events)

    async def ready(self) -> bool:
        """Wait until there is something to take; False once the queue is closed and empty."""
        while not self._events:
            if self._closed:
                return False
            self._waiter = waiter = asyncio.get_running_loop().create_future()
            try:
                await waiter
            finally:
                self._waiter = None
        return True

    def _give_back(self) -> None:
        taken, self._taken = self._taken, 0
        if taken:
            self._ledger.release(taken)

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
