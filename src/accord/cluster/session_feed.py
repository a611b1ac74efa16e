"""The feed of a session: the records that its owner commits, as updates for the clients of this node.

One feed serves all clients of this node that look at the session. The servers publish each record that they
have stored. A message can be missed; the sequence of the one before it shows that, and a read of the log
fills the gap. So each client sees each record once and in order.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from logging import getLogger
from typing import Final, NamedTuple, Protocol, cast

from accord.clock import OwnedTasks
from accord.cluster.connection import NatsMessage, NatsRefused, NatsSubscription
from accord.cluster.jetstream import JetStream, StoredMessage, read_message, with_retries
from accord.cluster.link_message import AttachedLog
from accord.cluster.log_message import Commit, CommitReader
from accord.cluster.streams import StreamNames
from accord.errors import StoreError
from accord.gateway.client_connection import LoggedFrame, OutgoingFrame
from accord.gateway.client_features import event_body
from accord.gateway.contracts import HIDDEN_FROM_ALL
from accord.schema import SessionNotification, SessionUpdate
from accord.schema.codec import encode
from accord.session import Event, ReplayEnded, ReplayStarted, SessionEvent
from accord.session.plain_updates import is_plain
from accord.session.protocol_v1 import updates_of
from accord.store.records import EVENT, events_in
from accord.wire.envelope import Notification

LOG = getLogger("accord.cluster")

_RECENT_BYTES: Final = 1 << 20
"""How much of the latest records is kept for clients that attach."""
_HELD_SECONDS: Final = 0.2
"""How long a frame, or the end of the log, waits for its record before the log is read."""
_RETRY_SECONDS: Final = 0.05
_SPREAD_SECONDS: Final = 1.0
"""How long a new subscription may take to reach all NATS servers."""


class FeedUpdate(NamedTuple):
    """One update of a record, encoded once for all clients."""

    update: Event | SessionUpdate
    """An event if updates of version 1 cannot say it. Clients that take no events get what they can show of
    it from the node that has the session.
    """
    frame: OutgoingFrame

    @property
    def is_event(self) -> bool:
        """Whether it is only for clients that take events."""
        return isinstance(self.update, SessionEvent)


class FeedRecord(NamedTuple):
    """One record, and the client that must not get it back."""

    number: int
    updates: list[FeedUpdate]
    author: str
    size: int


class FeedClient(Protocol):
    """A client that is attached to a session at another node."""

    def on_feed_updates(self, session_id: str, records: list[FeedRecord]) -> None:
        """Show records that were just committed."""
        ...

    def on_feed_frame(self, frame: OutgoingFrame, stream: str | None) -> None:
        """Show a frame whose record was shown."""
        ...

    def on_feed_lost(self, session_id: str, error: StoreError) -> None:
        """Handle a log that cannot be read any more."""
        ...


class FeedCursor:
    """How far one client is in a session."""

    def __init__(self, feed: "SessionFeed", client: FeedClient, last: int) -> None:
        self.feed: SessionFeed = feed
        self.client: FeedClient = client
        self.last: int = last
        """The number of the last record that the client has."""
        self.behind: bool = False
        """Whether it reads the log itself, until it reaches the feed."""
        self._held: deque[tuple[int, OutgoingFrame, str | None]] = deque()

    def hold(self, after: int, frame: OutgoingFrame, stream: str | None) -> None:
        """Show a frame after the record with this number."""
        if not self._held and after <= self.last:
            self.client.on_feed_frame(frame, stream)
            return
        self._held.append((after, frame, stream))
        self.feed.read_soon()

    def take(self, records: list[FeedRecord]) -> None:
        """Show the records that the client does not have, then the frames that waited for them."""
        new = [record for record in records if record.number > self.last]
        start = 0
        for place, record in enumerate(new):
            if self._held and self._held[0][0] < record.number:
                self._show(new[start:place])
                start = place
                self.advance(record.number - 1)
            self.last = record.number
        self._show(new[start:])
        self.advance(self.last)

    def advance(self, number: int) -> None:
        """Note that the feed has everything up to this record, shown or not."""
        self.last = max(self.last, number)
        while self._held and self._held[0][0] <= self.last:
            _, frame, stream = self._held.popleft()
            self.client.on_feed_frame(frame, stream)

    @property
    def waits(self) -> bool:
        return bool(self._held)

    def show_held(self) -> None:
        """Show the frames that wait, because the client follows the session no longer."""
        while self._held:
            _, frame, stream = self._held.popleft()
            self.client.on_feed_frame(frame, stream)

    def _show(self, records: list[FeedRecord]) -> None:
        if records:
            self.client.on_feed_updates(self.feed.session_id, records)


class SessionFeed:
    """Follows the log of one session for all clients of this node."""

    def __init__(
        self,
        jetstream: JetStream,
        names: StreamNames,
        session_id: str,
        attached: AttachedLog,
        tasks: OwnedTasks,
        on_unused: Callable[[str], None],
    ) -> None:
        shard = names.shard_of(attached.stream)
        self.log: str = attached.log
        self.session_id: str = session_id
        self.gaps: int = 0
        """How often records were missed and read later."""
        self._jetstream = jetstream
        self._stream = attached.stream
        self._subject = names.log_subject(shard, attached.log)
        self._feed = names.feed_subject(shard, attached.log)
        self._tasks = tasks
        self._on_unused = on_unused
        number, sequence = attached.place
        self._reader = _RecordReader(session_id, number, sequence)
        self._recent: deque[FeedRecord] = deque()
        self._recent_from = number
        """The records after this one are in `_recent`."""
        self._recent_bytes = 0
        self._cursors: list[FeedCursor] = []
        self._subscription: NatsSubscription | None = None
        self._reading: asyncio.Task[None] | None = None
        self._read_again = False
        self._is_current = False
        """Whether everything was read that was committed before this node followed the log."""
        self._closed = False

    def start(self) -> None:
        self._tasks.start(self._subscribe())
        self._jetstream.connection.on_change.append(self._on_connection)

    async def _subscribe(self) -> None:
        try:
            self._subscription = await self._jetstream.connection.subscribe(self._feed, self._on_message)
        except StoreError as error:
            self._lose(error)
            return
        if self._closed:
            await self._jetstream.connection.unsubscribe(self._subscription)
        else:
            self.read_now()  # what was committed before the subscription reached the servers
            self._jetstream.connection.clock.call_later(_SPREAD_SECONDS, self._read_if_open)

    def _read_if_open(self) -> None:
        if not self._closed:
            self.read_now()

    def note_end(self, number: int) -> None:
        """Read the log if it is known to have this record: the message with it may have been missed."""
        if number > self._reader.last and not self._closed:
            self.read_now()

    def expect_end(self, number: int) -> None:
        """Read the log if this record has not arrived a moment later."""
        if number > self._reader.last and not self._closed:
            self._jetstream.connection.clock.call_later(_HELD_SECONDS, lambda: self.note_end(number))

    # -- clients

    def attach(self, client: FeedClient, attached: AttachedLog) -> FeedCursor:
        """Show a client everything after the record that it has."""
        cursor = FeedCursor(self, client, attached.number)
        self._cursors.append(cursor)
        if attached.number >= self._recent_from:
            cursor.take(list(self._recent))
            cursor.advance(self._reader.last)
        else:
            cursor.behind = True
            self._tasks.start(self._catch_up(cursor, attached.place))
        return cursor

    def detach(self, cursor: FeedCursor) -> None:
        if cursor in self._cursors:
            self._cursors.remove(cursor)
        if not self._cursors and not self._closed:
            self._close()

    def _close(self) -> None:
        self._closed = True
        connection = self._jetstream.connection
        connection.on_change.remove(self._on_connection)
        if self._subscription is not None:
            self._tasks.start(connection.unsubscribe(self._subscription))
        self._on_unused(self.log)

    async def _catch_up(self, cursor: FeedCursor, place: tuple[int, int]) -> None:
        """Read the log for a client that is further behind than what is kept here."""
        reader = _RecordReader(self.session_id, *place)
        try:
            while reader.last < self._reader.last and cursor in self._cursors:
                page = await self._page(reader.sequence)
                cursor.take(reader.read(page))
                cursor.advance(reader.last)
                if not page:
                    await self._jetstream.connection.clock.sleep(_RETRY_SECONDS)
        except StoreError as error:
            cursor.client.on_feed_lost(self.session_id, error)
            return
        cursor.behind = False
        cursor.take(list(self._recent))
        cursor.advance(self._reader.last)

    # -- records

    def _on_message(self, message: NatsMessage) -> None:
        if self._closed:
            return
        try:
            stored = read_message(message)
        except NatsRefused as error:
            LOG.warning("%s", error)
            return
        if stored.sequence <= self._reader.sequence:
            return
        if stored.previous != self._reader.sequence:
            self.read_now()
            return
        try:
            self._take([stored])
        except StoreError as error:
            self._lose(error)

    def _take(self, messages: list[StoredMessage]) -> None:
        """Show the records of the next messages. Raises StoreError."""
        records = self._reader.read(messages)
        for record in records:
            self._recent.append(record)
            self._recent_bytes += record.size
        while self._recent_bytes > _RECENT_BYTES:
            oldest = self._recent.popleft()
            self._recent_bytes -= oldest.size
            self._recent_from = oldest.number
        for cursor in tuple(self._cursors):
            if not cursor.behind:
                cursor.take(records)
                cursor.advance(self._reader.last)

    def read_soon(self) -> None:
        """Read the log if a frame still waits for its record a moment later."""

        def check() -> None:
            if not self._closed and any(cursor.waits and not cursor.behind for cursor in self._cursors):
                self.read_now()

        self._jetstream.connection.clock.call_later(_HELD_SECONDS, check)

    def read_now(self) -> None:
        """Read what the log has after the last record; once more if that is under way."""
        self._read_again = True
        if self._reading is None:
            self._reading = self._tasks.start(self._read_log())

    async def _read_log(self) -> None:
        try:
            while self._read_again and not self._closed:
                self._read_again = False
                while not self._closed and (page := await self._page(self._reader.sequence)):
                    self.gaps += self._is_current and page[-1].sequence > self._reader.sequence
                    self._take(page)
                self._is_current = True
                if any(cursor.waits and not cursor.behind for cursor in self._cursors):
                    self._read_again = True  # the replica that answered is behind
                    await self._jetstream.connection.clock.sleep(_RETRY_SECONDS)
        except StoreError as error:
            self._lose(error)
        finally:
            self._reading = None

    async def _page(self, after: int) -> list[StoredMessage]:
        return await with_retries(
            lambda: self._jetstream.page(self._stream, self._subject, after), self._jetstream
        )

    def _on_connection(self, connected: bool) -> None:
        if connected:
            self.read_now()

    def _lose(self, error: StoreError) -> None:
        LOG.warning("the feed of session %s ends: %s", self.session_id, error)
        for cursor in tuple(self._cursors):
            cursor.client.on_feed_lost(self.session_id, error)


class _RecordReader:
    """Makes updates of the messages of a log."""

    def __init__(self, session_id: str, number: int, sequence: int) -> None:
        self._session_id = session_id
        self._commits = CommitReader(number, 0, sequence)
        self._in_replay = False

    @property
    def last(self) -> int:
        return self._commits.last

    @property
    def sequence(self) -> int:
        return self._commits.sequence

    def read(self, messages: list[StoredMessage]) -> list[FeedRecord]:
        """The records of the next messages. Raises StoreError."""
        return [record for commit in self._commits.feed(messages) for record in self._records(commit)]

    def _records(self, commit: Commit) -> list[FeedRecord]:
        records: list[FeedRecord] = []
        for group in commit.groups:
            if group.kind != EVENT:
                continue
            events = events_in([group], group.first, commit.head.last)
            for number, event in enumerate(events, group.first):
                author = commit.authors.get(number, "")
                updates = [] if author == HIDDEN_FROM_ALL else self._updates(event)
                if updates:
                    size = sum(len(update.frame.body) for update in updates)
                    records.append(FeedRecord(number, updates, author, size))
        return records

    def _updates(self, event: Event) -> list[FeedUpdate]:
        if isinstance(event, ReplayStarted):
            self._in_replay = True
        elif isinstance(event, ReplayEnded):
            self._in_replay = False
        if self._in_replay:
            return []  # a history that the clients have
        if not is_plain(event):
            return [FeedUpdate(event, LoggedFrame(event_body(self._session_id, event)))]
        found: list[FeedUpdate] = []
        for update in cast("list[SessionUpdate]", updates_of(event)):
            body = encode(Notification("session/update", SessionNotification(self._session_id, update)))
            found.append(FeedUpdate(update, LoggedFrame(body)))
        return found
