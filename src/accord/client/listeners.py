"""Who hears the events of one session: the iterators that are open, and a short memory for the next one.

What comes while no turn runs and nobody listens (commands, a title, usage) is kept, within a bound, for whoever listens
first. All of it is in the session's state anyway.
"""

from collections import deque
from typing import Final

from accord.client.events import ClientEvent
from accord.client.inbox import Inbox, Ledger
from accord.client.stream import EventStream

KEPT_EVENTS: Final = 256
KEPT_BYTES: Final = 1024 * 1024

OVERHEAD: Final = 512
"""What an event costs beyond the bytes of its message, roughly, while it waits in a queue."""


class Listeners:
    """The open queues of one session."""

    __slots__ = ("_closed", "_kept", "_kept_bytes", "_ledger", "inboxes")

    def __init__(self, ledger: Ledger) -> None:
        self.inboxes: tuple[Inbox[ClientEvent], ...] = ()
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

    def open(self) -> Inbox[ClientEvent]:
        """A queue that hears everything from now on."""
        inbox: Inbox[ClientEvent] = Inbox(self._ledger)
        if self._closed:
            inbox.close()
        else:
            self.inboxes += (inbox,)
        return inbox

    def leave(self, inbox: Inbox[ClientEvent]) -> None:
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
