"""The log of one session: `SessionLog` of `accord.gateway.contracts`, and its entry in the session list."""

import asyncio
from contextlib import suppress
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, structs

from accord.clock import with_timeout
from accord.cluster.connection import NatsUnavailable
from accord.cluster.jetstream import StoredMessage, with_retries
from accord.cluster.log_message import OWNER, RELEASED, OwnerRecord, is_released, read_head
from accord.cluster.log_reader import ClusterLogReader
from accord.cluster.log_writer import LogFull, LogPosition, LogWriter, SessionMoved
from accord.cluster.session_index import IndexEntry, IndexTaken, SessionDeleted
from accord.errors import SessionInUse, StoreError
from accord.gateway.contracts import OnCommit, close_open_items
from accord.schema import AgentMessageChunk, AgentThoughtChunk, SessionUpdate, UserMessageChunk
from accord.schema.codec import encode
from accord.session import Event
from accord.store.records import SESSION, as_event, event_payload, value_payload
from accord.store.session_summary import (
    SessionPatch,
    SessionSummary,
    SummaryEffect,
    changes_summary,
    checked_title,
    effect_of,
    now_micros,
    updated_summary,
)

if TYPE_CHECKING:
    from accord.cluster.book import ClusterBook

LOG = getLogger("accord.cluster")

CLOSE_SECONDS: Final = 10.0
"""How long the end of a log, or of all, may take."""
_RELEASE_SECONDS: Final = 1.0
"""How long a claim waits for an owner that has just closed the session."""
_RELEASE_PAUSE: Final = 0.05
_INDEX_PAUSE: Final = 1.0
"""Before the list entry of a session is written again, when no server answered."""
_TEXT: Final = frozenset({AgentMessageChunk, AgentThoughtChunk, UserMessageChunk})


class ClusterLog:
    """The log of one session."""

    def __init__(self, book: "ClusterBook", entry: IndexEntry) -> None:
        self._book = book
        self._entry = entry
        self._address = book.address(entry)
        self._writer: LogWriter | None = None
        self._lost = 0  # records that were appended without a writer: they are never committed
        self._failure: StoreError | None = None
        self._index_task: asyncio.Task[None] | None = None
        self._index_is_stale = False
        self.closed: bool = False

    # -- what the gateway sees

    @property
    def id(self) -> str:
        return self._entry.log

    @property
    def entry(self) -> IndexEntry:
        """Its entry in the list of sessions."""
        return self._entry

    @property
    def stream(self) -> str:
        """The stream that holds the log."""
        return self._address.stream

    def place_before(self, number: int) -> tuple[int, int]:
        """A place in the log not after this record: its number, and the message that it ends with."""
        return (0, 0) if self._writer is None else self._writer.place_before(number)

    @property
    def epoch(self) -> int:
        return self._entry.epoch if self._writer is None else self._writer.epoch

    @property
    def noted(self) -> int:
        return (0 if self._writer is None else self._writer.noted) + self._lost

    @property
    def committed(self) -> int:
        return 0 if self._writer is None else self._writer.committed

    @property
    def unwritten_bytes(self) -> int:
        return 0 if self._writer is None else self._writer.unwritten_bytes

    @property
    def summary(self) -> SessionSummary | None:
        return self._entry.summary

    @property
    def writable(self) -> bool:
        return self._writer is not None and self._writer.failure is None and not self.closed

    def append(self, *items: Event | SessionUpdate, by: str = "") -> None:
        for item in items:
            event = as_event(item)
            if event is not None:  # a notice is not part of the history
                self._add("event", event_payload(event), effect_of(event), text=type(item) in _TEXT, by=by)

    def append_one(self, item: Event | SessionUpdate) -> None:
        self.append(item)

    def note(self, kind: str, value: Any) -> None:
        self._add(kind, value_payload(kind, value), None)

    def change_entry(self, *, title: str | None = None, archived: bool | None = None) -> None:
        if not self.writable:
            raise self._failure or StoreError(f"session {self._entry.session_id} is not open for writing")
        patch = SessionPatch(
            title=UNSET if title is None else checked_title(title),
            title_set=title is not None,
            archived=UNSET if archived is None else archived,
        )
        self._add(SESSION, encode(patch), patch)

    def _add(
        self, kind: str, payload: bytes, effect: SummaryEffect, *, text: bool = False, by: str = ""
    ) -> None:
        writer = self._writer
        if writer is None or self.closed or writer.failure is not None:
            self._lost += 1
            self._book.add_dirty(self)  # so that no frame goes without its record
            return
        number = writer.add(kind, payload, text=text, author=by or None)
        self._book.add_dirty(self)
        if effect is None:
            return
        now = now_micros()
        summary = self._entry.summary
        if changes_summary(summary.updated, now, [effect]):
            self._show(structs.replace(self._entry, summary=updated_summary(summary, now, [effect])))
            if effect != "activity":
                writer.when(number, self._on_summary_committed)

    def commit(self) -> None:
        if self._writer is not None:
            self._writer.commit()

    def when(self, number: int, then: OnCommit) -> None:
        if self._writer is None or number > self._writer.noted:
            then(self._failure or StoreError(f"session {self._entry.session_id} is not open for writing"))
        else:
            self._writer.when(number, then)

    async def claim(self) -> list[Event]:
        if not self.writable:
            await self._become_writer()
        return await close_open_items(self)

    def reader(self, after: int = 0) -> ClusterLogReader:
        return ClusterLogReader(self._book.jetstream, self._address, lambda: self._writer, after)

    def close(self) -> None:
        """Give the session up: any node may claim it. What was appended is committed first."""
        if self.writable and self._writer is not None:
            number = self._writer.add(RELEASED, self._owner_payload(self._writer.epoch))
            self._book.add_dirty(self)
            self.commit()
            self.closed = True
            self._writer.when(number, self._on_released)
        else:
            self.closed = True
            self._on_released(None)

    def _on_released(self, error: StoreError | None) -> None:
        if self.closed:  # else it was opened again meanwhile
            self._book.forget(self)

    def refresh(self, entry: IndexEntry) -> None:
        """Take what other nodes have written to the list entry since this node had the session."""
        if not self.writable and entry.epoch > self._entry.epoch:
            self._entry = entry

    # -- becoming and ceasing to be the writer

    def create(self, patch: bytes, registering: asyncio.Task[None] | None = None) -> None:
        """Begin a new log: its first commit waits until the index has its entry."""
        writer = self._new_writer(LogPosition(epoch=1))
        writer.ready = registering
        if registering is not None:
            # The writer may be closed before it waits for this.
            registering.add_done_callback(lambda task: task.cancelled() or task.exception())
        writer.add(OWNER, self._owner_payload(1))
        writer.add(SESSION, patch)
        self._writer = writer
        self._book.add_dirty(self)

    async def register(self, *, replaced: IndexEntry | None) -> None:
        """Write the index entry of a new session. The entry that has its id gets another one first.

        Raises SessionMoved if another node was faster, and StoreError.
        """
        index = self._book.index
        try:
            if replaced is not None:
                aside = structs.replace(
                    replaced, session_id=f"{replaced.session_id}~{replaced.summary.created}", agent_id=""
                )
                await index.write(aside, new=True)
                await index.remove(replaced.agent, replaced.session_id, replaced.log)
                index.show(self._entry)
            await index.write(self._entry, new=True)
        except IndexTaken:
            raise SessionMoved(
                f"another node has just created a session with the id {self._entry.session_id}"
            ) from None

    async def _become_writer(self) -> None:
        """Claim the log: add the record that makes this node its owner. Raises SessionInUse, StoreError."""
        book = self._book
        if self._writer is not None and self._writer.failure is None:
            await self._writer.written()  # closed and opened again at this node
        deadline = book.clock.now() + _RELEASE_SECONDS
        lost = ""
        while True:
            last = await with_retries(
                lambda: book.jetstream.last(self._address.stream, self._address.subject), book.jetstream
            )
            if last is None and not await book.index.exists(self._entry):
                raise StoreError(f"session {self._entry.session_id} was deleted")
            position = end_of_log(last)
            if not position.writer or position.writer == book.writer_name or is_released(last):
                break
            node, _, incarnation = position.writer.partition(":")
            if await book.may_claim(node, incarnation):
                lost = node
                break
            if book.clock.now() < deadline:
                await book.clock.sleep(_RELEASE_PAUSE)  # its owner may be about to release it
            else:
                raise self._in_use(node)
        epoch = position.epoch + 1
        writer = self._new_writer(structs.replace(position, epoch=epoch))
        writer.add(OWNER, self._owner_payload(epoch))
        try:
            await writer.written()
        except SessionMoved:
            last = await with_retries(
                lambda: book.jetstream.last(self._address.stream, self._address.subject), book.jetstream
            )
            raise self._in_use(end_of_log(last).writer.partition(":")[0]) from None
        self._writer, self._failure, self.closed, self._lost = writer, None, False, 0
        if lost not in ("", book.node):
            book.takeovers += 1
        entry = structs.replace(
            self._entry,
            node=book.node,
            incarnation=book.incarnation,
            epoch=epoch,
            number=writer.noted,
            state="idle",
        )
        self._show(entry)
        try:
            await book.index.write(entry)
        except SessionDeleted as error:
            await self._purge(error)
            raise
        except StoreError:
            self._write_index()  # again, when the servers answer
        if writer.failure is not None:  # the lease has ended meanwhile
            raise writer.failure

    def _in_use(self, node: str) -> SessionInUse:
        what = f"session {self._entry.session_id} is open at {f'node {node}' if node else 'another node'}"
        return SessionInUse(f"{what}; try again in a few seconds, or connect to that node", node)

    async def _purge(self, error: StoreError) -> None:
        """Remove what this node has written to a session while another one deleted it."""
        book, address = self._book, self._address
        await self.settle()
        self.abandon(error)
        book.forget(self)
        try:
            await with_retries(lambda: book.jetstream.purge(address.stream, address.subject), book.jetstream)
        except StoreError as failure:
            LOG.warning("the log of deleted session %s is not removed: %s", self._entry.session_id, failure)

    async def release(self) -> None:
        """Commit what was appended and give the session up. Raises StoreError."""
        writer = self._writer
        if writer is None or writer.failure is not None:
            return
        self.close()
        await writer.written()
        if self._index_task is not None:
            await asyncio.wait((self._index_task,))

    async def settle(self) -> None:
        """Take no more records, and wait, in bounded time, until no append is under way."""
        self.closed = True
        if self._writer is not None and self._writer.failure is None:
            with suppress(TimeoutError, StoreError):  # after an error nothing is under way either
                await with_timeout(self._writer.written(), CLOSE_SECONDS, self._book.clock)

    def abandon(self, error: StoreError) -> None:
        """Write nothing more."""
        self.closed, self._failure = True, error
        if self._writer is not None:
            self._writer.close(error)

    def _new_writer(self, position: LogPosition) -> LogWriter:
        book = self._book
        return LogWriter(
            book.jetstream, self._address, position, book.writer_name, book.fence, self, book.tasks
        )

    def _owner_payload(self, epoch: int) -> bytes:
        entry = self._entry
        owner = OwnerRecord(
            self._book.node,
            self._book.incarnation,
            epoch,
            entry.agent,
            entry.session_id,
            entry.placement,
            entry.agent_id,
        )
        return encode(owner)

    # -- the index entry

    def _show(self, entry: IndexEntry) -> None:
        self._entry = entry
        self._book.index.update(entry)

    def show_state(self, state: str) -> None:
        """Tell other nodes what the session does."""
        if state != self._entry.state and self.writable:
            self._show(structs.replace(self._entry, state=state))
            if self._writer is not None:
                self._writer.when(self._writer.noted, self._on_summary_committed)

    def _on_summary_committed(self, error: StoreError | None) -> None:
        if error is None:
            self._write_index()

    def _write_index(self) -> None:
        self._index_is_stale = True
        if self._index_task is None or self._index_task.done():
            self._index_task = self._book.tasks.start(self._update_index())

    async def _update_index(self) -> None:
        while self._index_is_stale and self._failure is None:
            self._index_is_stale = False
            entry = structs.replace(self._entry, number=self.committed)
            try:
                await self._book.index.write(entry)
            except SessionDeleted as error:
                self.failed(error)
                await self._purge(error)
            except NatsUnavailable as error:
                LOG.debug("session %s: its list entry is updated later: %s", entry.session_id, error)
                self._index_is_stale = True
                await self._book.clock.sleep(_INDEX_PAUSE)
            except StoreError as error:
                LOG.warning("session %s: its list entry is not updated: %s", entry.session_id, error)

    # -- what the writer reports

    def paused(self, paused: bool) -> None:
        if self._book.listener is not None:
            self._book.listener.log_paused(self._entry.agent, self._entry.session_id, paused)

    def waits(self, waits: bool) -> None:
        if self._book.listener is not None:
            self._book.listener.log_waits(self._entry.agent, self._entry.session_id, waits)

    def failed(self, error: StoreError) -> None:
        self._failure = error
        if isinstance(error, LogFull) and self._writer is not None and not self._writer.committed:
            self._book.tasks.start(self._remove_entry())  # else the list names a session without a record
        if self._book.listener is not None:
            self._book.listener.log_failed(self._entry.agent, self._entry.session_id, error)

    async def _remove_entry(self) -> None:
        entry = self._entry
        self._book.forget(self)
        try:
            await self._book.index.remove(entry.agent, entry.session_id, entry.log)
        except StoreError as error:
            LOG.warning("session %s stays in the list, but has no log: %s", entry.session_id, error)


def end_of_log(last: StoredMessage | None) -> LogPosition:
    """The position after the last message of a log. Raises StoreError."""
    if last is None:
        return LogPosition()
    head = read_head(last)
    return LogPosition(last.sequence, head.last, head.epoch, head.writer)
