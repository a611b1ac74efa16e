"""Event queues with back-pressure, the iterators over them, and the list of listeners."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar

from accord.client.client_events import ClientEvent

# MERGED client.inbox: Queues of events, each for one reader. What lies in one counts as unread at the connection: a slow reader slows the agent.

E = TypeVar("E")

_PORTION: Final = 32 * 1024
"""The connection is told in portions of this size, not event by event."""


class UnreadReceiver(Protocol):
    """What the connection of the moment tells and takes."""

    @property
    def frame_size(self) -> int: ...

    def hold(self, size: int) -> None: ...
    def release(self, size: int) -> None: ...


class UnreadCounter:
    """How much lies unread in the queues of one agent, accounted at its connection; a restart replaces that."""

    __slots__ = ("_held", "wire")

    def __init__(self) -> None:
        self.wire: UnreadReceiver | None = None
        self._held = 0

    def move_to(self, wire: UnreadReceiver) -> None:
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


class EventQueue(Generic[E]):
    """One writer, on the event loop, and one reader. Once closed it gives what is left, then ends."""

    __slots__ = ("_accounted", "_closed", "_events", "_ledger", "_unread", "_waiter")

    def __init__(self, ledger: UnreadCounter) -> None:
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


# MERGED client.stream: What `prompt` and `events` give to iterate over: leaving it in any way, a plain `break` included, takes effect at once.


class EventStream(Generic[E]):
    """Events as they come. `aclose` leaves it, and so does dropping it: a loop that is broken off does just that.

    (An async generator would be closed by the event loop some time later, and until then still count as listening.)
    """

    __slots__ = ("_begin", "_closed", "_inbox", "_leave", "_loop", "_outcome")

    def __init__(
        self,
        inbox: EventQueue[E] | None,
        leave: Callable[[], None],
        *,
        begin: Callable[[], Awaitable[EventQueue[E]]] | None = None,
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

    async def _next_filled(self) -> EventQueue[E]:
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


# MERGED client.listeners: Who hears the events of one session: the iterators that are open, and a short memory for the next one.
#
# What comes while no turn runs and nobody listens (commands, a title, usage) is kept, within a bound, for whoever listens
# first. All of it is in the session's state anyway.

KEPT_EVENTS: Final = 256
KEPT_BYTES: Final = 1024 * 1024

OVERHEAD: Final = 512
"""What an event costs beyond the bytes of its message, roughly, while it waits in a queue."""


class EventListeners:
    """The open queues of one session."""

    __slots__ = ("_closed", "_kept", "_kept_bytes", "_ledger", "inboxes")

    def __init__(self, ledger: UnreadCounter) -> None:
        self.inboxes: tuple[EventQueue[ClientEvent], ...] = ()
        self._ledger = ledger
        self._kept: deque[tuple[ClientEvent, int]] = deque()
        self._kept_bytes = 0
        self._closed = False

    def tell(self, event: ClientEvent, size: int = 0) -> None:
        """Put an event into every queue."""
        for inbox in self.inboxes:
            inbox.put(event, size + OVERHEAD)

    def tell_those_who_keep_up(self, event: ClientEvent, size: int) -> None:
        """Put an event into the queues that are not long already: nothing can make its sender wait."""
        for inbox in self.inboxes:
            if inbox.unread < KEPT_BYTES:
                inbox.put(event, size + OVERHEAD)

    def keep(self, event: ClientEvent, size: int) -> None:
        """Remember an event that nobody hears now."""
        self._kept.append((event, size))
        self._kept_bytes += size
        while self._kept_bytes > KEPT_BYTES or len(self._kept) > KEPT_EVENTS:
            _, dropped = self._kept.popleft()
            self._kept_bytes -= dropped

    def open(self) -> EventQueue[ClientEvent]:
        """A queue that hears everything from now on."""
        inbox: EventQueue[ClientEvent] = EventQueue(self._ledger)
        if self._closed:
            inbox.close()
        else:
            self.inboxes += (inbox,)
        return inbox

    def leave(self, inbox: EventQueue[ClientEvent]) -> None:
        """This queue hears nothing more."""
        self.inboxes = tuple(other for other in self.inboxes if other is not inbox)

    def close(self) -> None:
        """Nothing more will happen: the queues end behind what they hold."""
        self._closed = True
        for inbox in self.inboxes:
            inbox.close()

    def listen(self) -> EventStream[ClientEvent]:
        """What was kept, then every event as it comes, until the session is closed or the stream is left."""
        inbox = self.open()
        kept, self._kept, self._kept_bytes = self._kept, deque(), 0
        for event, size in kept:
            inbox.put(event, size)

        def leave() -> None:
            self.leave(inbox)
            inbox.abandon()

        return EventStream(inbox, leave)
