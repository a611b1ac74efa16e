"""Writes to session logs. Records appended in one turn of the event loop are committed together.

`append` is cheap and never touches the disk. The commit happens on request, at the latest when the current
turn of the event loop ends. A failed commit keeps its records and is retried; appending raises the error
until a commit succeeds.
"""

import asyncio
from collections.abc import Callable
from logging import getLogger
from typing import Any

from msgspec import Struct

from accord.errors import StoreError, UsageError
from accord.schema import SessionUpdate
from accord.schema.codec import encode, encode_all
from accord.session import Event
from accord.store.records import EVENT, as_event, event_payload, is_logged_unchanged, value_payload
from accord.store.session_summary import EFFECTS, SummaryEffect, effect_of

LOG = getLogger("accord.store")
_PLAIN_EFFECTS: dict[type, SummaryEffect] = {
    kind: effect for kind, effect in EFFECTS.items() if is_logged_unchanged(kind)
}
"""The effects of the frequent events, which are logged as they are."""


class PendingRecords(Struct, gc=False):
    """Records of one kind and effect that are not committed yet: they have no numbers and no time."""

    kind: str
    payloads: list[bytes]
    effect: SummaryEffect
    """How each of them changes the summary."""


class CommitBatch:
    """The records appended since the last commit, for all sessions of a store."""

    def __init__(self, write: Callable[[dict[str, list[PendingRecords]]], None]) -> None:
        self._write = write
        self._records: dict[str, list[PendingRecords]] = {}
        self._scheduled = False
        self._failing = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not self._records

    def add(self, session_id: str, records: list[PendingRecords]) -> None:
        """Queue records for the next commit. Raises StoreError while commits fail."""
        if self._failing:
            self.commit()
        if not self._scheduled:
            self._schedule()
        queued = self._records.get(session_id)
        if queued is None:
            self._records[session_id] = records
        else:
            queued += records

    def commit(self) -> None:
        """Write everything in one transaction."""
        self._scheduled = False
        if self._records:
            self._failing = True
            self._write(self._records)
            self._failing = False
            self._records = {}

    def drop(self, session_id: str) -> None:
        """Discard the queued records of a deleted session."""
        self._records.pop(session_id, None)

    def _schedule(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # without an event loop the caller commits
        self._scheduled = True
        loop.call_soon(self._commit_scheduled)

    def _commit_scheduled(self) -> None:
        if not self._scheduled:
            return
        try:
            self.commit()
        except StoreError as error:
            LOG.error("%s", error)  # the next append raises it


class Journal:
    """One session, open for writing. Close it to release the lease."""

    __slots__ = ("_batch", "_on_close", "committed", "session_id")

    def __init__(
        self, session_id: str, batch: CommitBatch, on_close: Callable[["Journal"], None], committed: int = 0
    ) -> None:
        self.session_id: str = session_id
        self.committed: int = committed
        """The number of the last record of the session when it was opened, then of the last one committed."""
        self._batch = batch
        self._on_close: Callable[[Journal], None] | None = on_close

    @property
    def closed(self) -> bool:
        """Whether it can no longer be written to."""
        return self._on_close is None

    def append(self, *items: Event | SessionUpdate) -> None:
        """Log events, or updates as they go to the wire.

        They are encoded now; later changes to them are not logged.
        """
        kinds = set(map(type, items))
        if len(kinds) == 1 and (effect := _PLAIN_EFFECTS.get(kinds.pop())) is not None:
            self._add([PendingRecords(EVENT, encode_all(items), effect)])  # a stream of text
            return
        records: list[PendingRecords] = []
        for item in items:
            effect = _PLAIN_EFFECTS.get(type(item))
            if effect is not None:
                records.append(PendingRecords(EVENT, [encode(item)], effect))
            elif (event := as_event(item)) is not None:
                records.append(PendingRecords(EVENT, [event_payload(event)], effect_of(event)))
        self._add(records)

    def record(self, kind: str, *values: Any) -> None:
        """Log JSON values of an application's own kind, such as the model history."""
        self._add([PendingRecords(kind, [value_payload(kind, value)], None) for value in values])

    def commit(self) -> None:
        """Write everything appended so far to this session and the other sessions of its store."""
        self._batch.commit()

    def close(self) -> None:
        """Commit and release the session. May be called twice."""
        if self._on_close is not None:
            self._batch.commit()
            on_close, self._on_close = self._on_close, None
            on_close(self)

    def invalidate(self) -> None:
        """Refuse further writes, because the session was deleted or its store closed."""
        self._on_close = None

    def _add(self, records: list[PendingRecords]) -> None:
        if self._on_close is None:
            raise UsageError(
                f"the journal of session {self.session_id} is closed: nothing can be written to it"
            )
        if records:
            self._batch.add(self.session_id, records)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
