"""A store in plain Python objects, which the SQLite store is compared with. A fork copies its source."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from accord.errors import SessionInUse, UsageError
from accord.schema.codec import encode
from accord.session import Event
from accord.store.contract import (
    CursorPosition,
    Lease,
    SessionPage,
    cursor_after,
    parse_cursor,
    session_query,
)
from accord.store.journal import CommitBatch, Journal, PendingRecords
from accord.store.records import EVENT, SESSION, LogRecord, RecordGroup, json_array
from accord.store.session_summary import (
    ForkParent,
    SessionPatch,
    SessionSummary,
    checked_title,
    effects_in,
    first_summary,
    fork_patch,
    normalized_folder,
    now_micros,
    opening_patch,
    session_not_found,
    storable_text,
    updated_summary,
)

_Records: TypeAlias = list[LogRecord]  # `list` names a method below
_Batch: TypeAlias = dict[str, list[PendingRecords]]


class _Log(Struct):
    creation_number: int
    summary: SessionSummary
    records: _Records
    inherited_count: int  # the number of records copied from the source of a fork


class ReferenceMemory:
    """The content that several reference stores share, as several processes share a file."""

    def __init__(self) -> None:
        self.logs: dict[str, _Log] = {}
        self.leases: dict[str, tuple[ReferenceStore, int]] = {}
        self.last_number = 0


class ReferenceStore:
    """A simple store. Stores with the same `ReferenceMemory` see the same sessions."""

    def __init__(self, memory: ReferenceMemory | None = None, *, now: Callable[[], int] = now_micros) -> None:
        self._memory = memory or ReferenceMemory()
        self._now = now
        self._batch = CommitBatch(self._write)
        self._journals: dict[str, list[Journal]] = {}

    def create(
        self, session_id: str, cwd: str, *, additional_directories: Iterable[str] = (), agent: str = ""
    ) -> SessionSummary:
        return self._create(session_id, opening_patch(cwd, agent, additional_directories))

    def journal(self, session_id: str) -> Journal:
        session_id = storable_text(session_id)
        self._log(session_id)
        self._require_free(session_id)
        self._memory.leases.setdefault(session_id, (self, self._now()))
        journal = Journal(session_id, self._batch, self._close_journal)
        self._journals.setdefault(session_id, []).append(journal)
        return journal

    def commit(self) -> None:
        self._batch.commit()

    @property
    def dirty(self) -> bool:
        return not self._batch.empty

    def read(self, session_id: str, after: int = 0) -> Iterator[LogRecord]:
        self.commit()
        return iter(self._log(session_id).records[max(after, 0) :])

    def events(self, session_id: str, after: int = 0) -> Iterator[Event]:
        return (record.event for record in self.read(session_id, after) if record.kind == EVENT)

    def last(self, session_id: str) -> int:
        self.commit()
        return len(self._log(session_id).records)

    def summary(self, session_id: str) -> SessionSummary:
        self.commit()
        return self._log(session_id).summary

    def list(
        self,
        cwd: str | None = None,
        *,
        agent: str | None = None,
        archived: str | None = "exclude",
        used_only: bool = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> SessionPage:
        self.commit()
        query = session_query(cwd, agent, archived, used_only, limit)
        after = None if cursor is None else parse_cursor(query, cursor)
        entries = sorted(
            [
                (CursorPosition(log.summary.updated, log.creation_number), log.summary)
                for log in self._memory.logs.values()
            ],
            key=lambda entry: entry[0],
            reverse=True,
        )
        entries = [
            (position, summary)
            for position, summary in entries
            if (after is None or position < after)
            and query.folder in (None, normalized_folder(summary.cwd))
            and query.agent in (None, summary.agent)
            and (summary.is_used or not used_only)
            and (query.archived == "include" or summary.archived == (query.archived == "only"))
        ]
        page = entries[:limit]
        next_cursor = cursor_after(query, page[-1][0]) if len(entries) > limit else None
        return SessionPage(tuple([summary for _, summary in page]), next_cursor)

    def newest(self, cwd: str, *, agent: str | None = None) -> SessionSummary | None:
        return next(iter(self.list(cwd, agent=agent, limit=1).sessions), None)

    def writer(self, session_id: str) -> Lease | None:
        lease = self._memory.leases.get(storable_text(session_id))
        return None if lease is None else Lease(os.getpid(), lease[1], lease[0] is self)

    def writers(self) -> dict[str, Lease]:
        return {
            session_id: Lease(os.getpid(), since, store is self)
            for session_id, (store, since) in self._memory.leases.items()
        }

    def rebuild(self) -> None:
        self.commit()
        for session_id, log in self._memory.logs.items():
            first, *others = log.records[log.inherited_count :]
            summary = first_summary(session_id, first.time, _session_patch(first), log.summary.parent)
            for record in others:
                summary = updated_summary(summary, record.time, effects_in(_as_group(record)))
            log.summary = summary

    def fork(
        self,
        source: str,
        session_id: str,
        *,
        cwd: str | None = None,
        additional_directories: Iterable[str] = (),
        up_to: int | None = None,
    ) -> SessionSummary:
        self.commit()
        log = self._log(source)
        last = len(log.records)
        seq = last if up_to is None else up_to
        if not 0 <= seq <= last:
            records = "1 record" if last == 1 else f"{last} records"
            raise UsageError(f"session {source} cannot be forked at record {seq}: it has {records}")
        patch = fork_patch(log.summary, opening_patch(cwd, "", additional_directories))
        return self._create(session_id, patch, ForkParent(log.summary.session_id, seq), log.records[:seq])

    def set_title(self, session_id: str, title: str) -> str:
        stored = checked_title(title)
        self._append_patch(session_id, SessionPatch(title=stored, title_set=True))
        return stored

    def archive(self, session_id: str) -> None:
        if not self.summary(session_id).archived:
            self._append_patch(session_id, SessionPatch(archived=True))

    def unarchive(self, session_id: str) -> None:
        if self.summary(session_id).archived:
            self._append_patch(session_id, SessionPatch(archived=False))

    def delete(self, session_id: str) -> bool:
        session_id = storable_text(session_id)
        self._require_free(session_id)
        self._batch.drop(session_id)
        for journal in self._journals.pop(session_id, []):
            journal.invalidate()
        self._memory.leases.pop(session_id, None)
        return self._memory.logs.pop(session_id, None) is not None

    def close(self) -> None:
        self.commit()
        for journals in list(self._journals.values()):
            for journal in list(journals):
                journal.close()

    def _log(self, session_id: str) -> _Log:
        log = self._memory.logs.get(storable_text(session_id))
        if log is None:
            raise session_not_found(session_id)
        return log

    def _create(
        self,
        session_id: str,
        patch: SessionPatch,
        parent: ForkParent | None = None,
        inherited_records: _Records | None = None,
    ) -> SessionSummary:
        session_id = storable_text(session_id)
        if session_id in self._memory.logs:
            raise UsageError(f"session {session_id} already exists")
        self._memory.last_number += 1
        time = self._now()
        summary = first_summary(session_id, time, patch, parent)
        records = inherited_records or []
        first = LogRecord(len(records) + 1, time, SESSION, encode(patch))
        self._memory.logs[session_id] = _Log(
            self._memory.last_number, summary, [*records, first], len(records)
        )
        return summary

    def _append_patch(self, session_id: str, patch: SessionPatch) -> None:
        self.commit()
        self._log(session_id)
        self._write({storable_text(session_id): [PendingRecords(SESSION, [encode(patch)], patch)]})

    def _write(self, batch: _Batch) -> None:
        time = self._now()
        for session_id, records in batch.items():
            log = self._log(session_id)
            for record in records:
                for payload in record.payloads:
                    log.records.append(LogRecord(len(log.records) + 1, time, record.kind, payload))
            log.summary = updated_summary(log.summary, time, [record.effect for record in records])

    def _require_free(self, session_id: str) -> None:
        lease = self._memory.leases.get(session_id)
        if lease is not None and lease[0] is not self:
            raise SessionInUse(f"session {session_id} is open for writing in another store")

    def _close_journal(self, journal: Journal) -> None:
        journals = self._journals[journal.session_id]
        journals.remove(journal)
        if not journals:
            del self._journals[journal.session_id]
            del self._memory.leases[journal.session_id]


def _as_group(record: LogRecord) -> RecordGroup:
    return RecordGroup(record.seq, 1, record.time, record.kind, json_array([record.data]))


def _session_patch(record: LogRecord) -> SessionPatch:
    (patch,) = effects_in(_as_group(record))
    assert isinstance(patch, SessionPatch)
    return patch
