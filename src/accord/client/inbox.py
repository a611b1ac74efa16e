"""Queues of events, each for one reader. What lies in one counts as unread at the connection: a slow reader slows the agent."""

import asyncio
from collections import deque
from typing import Final, Generic, Protocol, TypeVar

E = TypeVar("E")

_PORTION: Final = 32 * 1024
"""The connection is told in portions of this size, not event by event."""


class Wire(Protocol):
    """What the connection of the moment tells and takes."""

    @property
    def frame_size(self) -> int: ...

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

    __slots__ = ("_accounted", "_closed", "_events", "_ledger", "_unread", "_waiter")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._events: deque[tuple[E, int]] = deque()
        self._unread = 0
        self._accounted = 0
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def put(self, event: E, size: int) -> None:
        """Add an event that stands for so many bytes."""
        if self._closed:
            return
        self._events.append((event, size))
        self._unread = unread = self._unread + size
        if unread - self._accounted >= _PORTION:
            self._account()
        if self._waiter is not None:
            self._wake()

    def close(self) -> None:
        """Nothing more will be put."""
        self._closed = True
        self._wake()

    def abandon(self) -> None:
        """The reader is gone: forget what is left, so that it holds nobody up."""
        self._closed = True
        self._events.clear()
        self._unread = 0
        self._account()
        self._wake()

    @property
    def unread(self) -> int:
        """How many bytes lie in it."""
        return self._unread

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

    @property
    def filled(self) -> bool:
        """Whether there is something to take."""
        return bool(self._events)

    def take(self) -> E:
        """Take the next event; there must be one."""
        event, size = self._events.popleft()
        self._unread = unread = self._unread - size
        if self._accounted - unread >= _PORTION:
            self._account()
        return event

    def _account(self) -> None:
        difference = self._unread - self._accounted
        self._accounted = self._unread
        if difference > 0:
            self._ledger.hold(difference)
        elif difference < 0:
            self._ledger.release(-difference)

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
