"""Event queues with back-pressure, the iterators over them, and the list of listeners.

Every queue has one reader. Bytes in a queue count as unread at the connection, so a slow reader slows the
agent down.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar

from accord.client.client_events import ClientEvent

E = TypeVar("E")

EVENT_OVERHEAD: Final = 512
"""The approximate size of an event in a queue, in addition to the bytes of its message."""

_REPORT_STEP: Final = 32 * 1024
"""The connection gets the number of unread bytes in steps of this size, not with every event."""
_KEPT_EVENTS: Final = 256
_KEPT_BYTES: Final = 1024 * 1024


class UnreadReceiver(Protocol):
    """The part of a connection that counts unread bytes."""

    frame_size: int
    """The size of the message that is being handled."""

    def hold(self, size: int) -> None:
        """Count bytes as unread."""

    def release(self, size: int) -> None:
        """Count bytes as read."""


class UnreadCounter:
    """Counts the unread bytes in the queues of one agent, and reports them to its current connection."""

    __slots__ = ("_unread_bytes", "new_waiter", "receiver")

    def __init__(self) -> None:
        self.receiver: UnreadReceiver | None = None
        self.new_waiter: Callable[[], asyncio.Future[None]] = asyncio.Future
        """Returns a future for the next event."""
        self._unread_bytes = 0

    def attach(self, receiver: UnreadReceiver, new_waiter: Callable[[], asyncio.Future[None]]) -> None:
        """Use a new connection; the bytes that are still unread count there."""
        self.receiver = receiver
        self.new_waiter = new_waiter
        receiver.hold(self._unread_bytes)

    def hold(self, size: int) -> None:
        """Count bytes as unread."""
        self._unread_bytes += size
        if self.receiver is not None:
            self.receiver.hold(size)

    def release(self, size: int) -> None:
        """Count bytes as read."""
        self._unread_bytes -= size
        if self.receiver is not None:
            self.receiver.release(size)


class EventQueue(Generic[E]):
    """A queue with one writer, on the event loop, and one reader.

    A closed queue still yields what it holds.
    """

    __slots__ = ("_closed", "_counter", "_waiter", "events", "reported", "unread")

    def __init__(self, counter: UnreadCounter) -> None:
        self._counter = counter
        self.events: deque[tuple[E, int]] = deque()
        """The events with their sizes; `EventStream` takes them out."""
        self.unread: int = 0
        """The number of bytes in the queue."""
        self.reported: int = 0
        """How many of them the connection knows."""
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def put(self, event: E, size: int) -> None:
        """Add an event of `size` bytes; does nothing once the queue is closed."""
        if self._closed:
            return
        self.events.append((event, size))
        self.unread = unread = self.unread + size
        if unread - self.reported >= _REPORT_STEP:
            self.report()
        if self._waiter is not None:
            self._wake()

    async def wait(self) -> bool:
        """Wait for an event; False once the queue is closed and empty."""
        while not self.events:
            if self._closed:
                return False
            self._waiter = waiter = self._counter.new_waiter()
            try:
                await waiter
            finally:
                self._waiter = None
        return True

    def close(self) -> None:
        """End the queue after the events that it holds."""
        self._closed = True
        self._wake()

    def discard(self) -> None:
        """Close the queue, discard unread events and release their back-pressure."""
        self._closed = True
        self.events.clear()
        self.unread = 0
        self.report()
        self._wake()

    def report(self) -> None:
        """Tell the connection how many bytes are unread."""
        difference = self.unread - self.reported
        self.reported = self.unread
        if difference > 0:
            self._counter.hold(difference)
        elif difference < 0:
            self._counter.release(-difference)

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class EventStream(Generic[E]):
    """An async iterator over events. `aclose` leaves it, and so does dropping it, as `break` in a loop does.

    It is not an async generator: the event loop would close that some time later, and until then it would
    still count as a listener.
    """

    __slots__ = ("_closed", "_error", "_leave", "_loop", "_queue", "_start")

    def __init__(
        self,
        queue: EventQueue[E] | None,
        leave: Callable[[], None],
        *,
        start: Callable[[], Awaitable[EventQueue[E]]] | None = None,
        error: Callable[[], Exception | None] = lambda: None,
    ) -> None:
        """Iterate over a queue. `start` creates the queue when the first event is requested.

        `leave` is called at the end of the iteration, possibly twice. `error` returns the exception to raise
        after the last event.
        """
        self._queue = queue
        self._start = start
        self._leave = leave
        self._error = error
        self._closed = False
        self._loop = asyncio.get_running_loop()

    @property
    def has_events(self) -> bool:
        """Whether the next event is already there."""
        return self._queue is not None and bool(self._queue.events)

    def __aiter__(self) -> "EventStream[E]":
        return self

    async def __anext__(self) -> E:
        queue = self._queue
        if queue is None or not queue.events:
            queue = await self._wait_for_event()
        event, size = queue.events.popleft()
        queue.unread = unread = queue.unread - size
        if queue.reported - unread >= _REPORT_STEP:
            queue.report()
        return event

    async def aclose(self) -> None:
        """Leave the iteration."""
        self._closed = True
        self._leave()

    async def _wait_for_event(self) -> EventQueue[E]:
        if self._closed:
            raise StopAsyncIteration
        try:
            if self._queue is None and self._start is not None:
                start, self._start = self._start, None
                self._queue = await start()
            if self._queue is not None and await self._queue.wait():
                return self._queue
        except BaseException:
            await self.aclose()
            raise
        await self.aclose()
        raise self._error() or StopAsyncIteration

    def __del__(self) -> None:
        # Dropped in another thread or after the loop has ended, the stream has nothing left to leave.
        try:
            on_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            on_loop = False
        if on_loop:
            self._leave()


class EventListeners:
    """The open queues of one session.

    Events that arrive while no turn runs and no queue is open (commands, a title, usage) are kept, within a
    bound, for the next stream. The session's state has all of them anyway.
    """

    __slots__ = ("_closed", "_counter", "_kept", "_kept_bytes", "queues")

    def __init__(self, counter: UnreadCounter) -> None:
        self.queues: tuple[EventQueue[ClientEvent], ...] = ()
        self._counter = counter
        self._kept: deque[tuple[ClientEvent, int]] = deque()
        self._kept_bytes = 0
        self._closed = False

    def put(self, event: ClientEvent) -> None:
        """Put an event into every queue."""
        for queue in self.queues:
            queue.put(event, EVENT_OVERHEAD)

    def put_unless_behind(self, event: ClientEvent, size: int) -> None:
        """Put an event only into the queues that are not long already. For senders that cannot be slowed."""
        for queue in self.queues:
            if queue.unread < _KEPT_BYTES:
                queue.put(event, size + EVENT_OVERHEAD)

    def keep(self, event: ClientEvent, size: int) -> None:
        """Keep an event for the next stream."""
        self._kept.append((event, size))
        self._kept_bytes += size
        while self._kept_bytes > _KEPT_BYTES or len(self._kept) > _KEPT_EVENTS:
            _, dropped = self._kept.popleft()
            self._kept_bytes -= dropped

    def open_queue(self) -> EventQueue[ClientEvent]:
        """Add a queue for every event from now on."""
        queue: EventQueue[ClientEvent] = EventQueue(self._counter)
        if self._closed:
            queue.close()
        else:
            self.queues += (queue,)
        return queue

    def remove(self, queue: EventQueue[ClientEvent]) -> None:
        """Remove a queue."""
        self.queues = tuple(other for other in self.queues if other is not queue)

    def close(self) -> None:
        """Close all queues; each still yields what it holds."""
        self._closed = True
        for queue in self.queues:
            queue.close()

    def stream(self) -> EventStream[ClientEvent]:
        """Iterate over the kept events and then every event, until the session is closed."""
        queue = self.open_queue()
        kept, self._kept, self._kept_bytes = self._kept, deque(), 0
        for event, size in kept:
            queue.put(event, size)

        def leave() -> None:
            self.remove(queue)
            queue.discard()

        return EventStream(queue, leave)
