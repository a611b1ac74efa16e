"""Writing to session logs: what is appended in one turn of the event loop is committed together.

`append` is cheap and never touches the disk. The commit happens when it is asked for, at the latest when the running turn of
the loop is over. A commit that fails keeps what it could not write: it is tried again, and appending more raises the error
until one succeeds.
"""

import asyncio
from collections.abc import Callable
from logging import getLogger
from types import TracebackType
from typing import Any

from msgspec import Struct

from accord.errors import StoreError, UsageError
from accord.schema import SessionUpdate
from accord.session import Event
from accord.store.records import EVENT, as_event, payload_of, payload_of_value
from accord.store.session_summary import News, news_of

LOG = getLogger("accord.store")


class PendingRecord(Struct, gc=False):
    """A record in the making: it gets its sequence number and time when it is committed."""

    kind: str
    data: bytes
    news: News


class CommitBatch:
    """What was appended since the last commit, over all sessions of a store."""

    def __init__(self, write: Callable[[dict[str, list[PendingRecord]]], None]) -> None:
        self._write = write
        self._entries: dict[str, list[PendingRecord]] = {}
        self._scheduled = False
        self._failing = False

    @property
    def empty(self) -> bool:
        """Whether everything is committed."""
        return not self._entries

    def add(self, session_id: str, entries: list[PendingRecord]) -> None:
        """Add to what is committed next. Raises StoreError while commits fail."""
        if self._failing:
            self.commit()
        if not self._scheduled:
            self._schedule()
        known = self._entries.get(session_id)
        if known is None:
            self._entries[session_id] = entries
        else:
            known += entries

    def commit(self) -> None:
        """Write everything, in one transaction."""
        self._scheduled = False
        if self._entries:
            self._failing = True
            self._write(self._entries)
            self._failing = False
            self._entries = {}

    def drop(self, session_id: str) -> None:
        """Forget what was appended to a session that is no more."""
        self._entries.pop(session_id, None)

    def _schedule(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # no loop, no turn: whoever appends commits
        self._scheduled = True
        loop.call_soon(self._turn_over)

    def _turn_over(self) -> None:
        if not self._scheduled:
            return
        try:
            self.commit()
        except StoreError as error:
            LOG.error("%s", error)  # whoever appends next gets it raised


class Journal:
    """One session, open for writing. Close it to let others write."""

    __slots__ = ("_batch", "_let_go", "session_id")

    def __init__(self, session_id: str, batch: CommitBatch, let_go: Callable[["Journal"], None]) -> None:
        self.session_id = session_id
        self._batch = batch
        self._let_go: Callable[[Journal], None] | None = let_go

    @property
    def closed(self) -> bool:
        """Whether it can no longer be written to."""
        return self._let_go is None

    def append(self, *items: Event | SessionUpdate) -> None:
        """Log events, or updates as they go to the wire. They are read now: what changes them later is not logged."""
        entries: list[PendingRecord] = []
        for item in items:
            event = as_event(item)
            if event is not None:
                entries.append(PendingRecord(EVENT, payload_of(event), news_of(event)))
        self._add(entries)

    def record(self, kind: str, *values: Any) -> None:
        """Log values of your own kind, such as the model's history: anything that JSON can say."""
        self._add([PendingRecord(kind, payload_of_value(kind, value), None) for value in values])

    def commit(self) -> None:
        """See that everything appended so far, to this session and the others of its store, is in the file."""
        self._batch.commit()

    def close(self) -> None:
        """Commit and let the session go. May be called twice."""
        if self._let_go is not None:
            self._batch.commit()
            let_go, self._let_go = self._let_go, None
            let_go(self)

    def cut_off(self) -> None:
        """The session is gone, or its store closed: nothing can be written any more."""
        self._let_go = None

    def _add(self, entries: list[PendingRecord]) -> None:
        if self._let_go is None:
            raise UsageError(
                f"the journal of session {self.session_id} is closed: nothing can be written to it"
            )
        if entries:
            self._batch.add(self.session_id, entries)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
