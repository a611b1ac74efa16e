"""A store in memory, for tests and for programs that keep nothing. It does everything the plain way: forks are copies."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from accord.errors import SessionInUse, UsageError
from accord.schema.codec import encode
from accord.session import Event
from accord.store.contract import CursorPosition, Lease, SessionPage, cursor_of, place_of, question
from accord.store.journal import CommitBatch, Journal, PendingRecord
from accord.store.records import EVENT, SESSION, LogRecord, RecordGroup, array_of
from accord.store.session_summary import (
    ForkParent,
    SessionPatch,
    SessionSummary,
    begin,
    chosen_title,
    fold,
    folder_of,
    forked,
    micros,
    news_in,
    no_session,
    opening,
    plain,
)

_Records: TypeAlias = list[LogRecord]  # `list` names a method below
_Entries: TypeAlias = dict[str, list[PendingRecord]]


class _Log(Struct):
    number: int
    head: SessionSummary
    records: _Records
    inherited: int  # how many of them


class SharedMemory:
    """What several memory stores share, as several processes share a file."""

    def __init__(self) -> None:
        self.logs: dict[str, _Log] = {}
        self.leases: dict[str, tuple[MemoryStore, int]] = {}
        self.numbers = 0


class MemoryStore:
    """A store on a shelf."""

    def __init__(self, shelf: SharedMemory | None = None, *, now: Callable[[], int] = micros) -> None:
        self._shelf = shelf or SharedMemory()
        self._now = now
        self._batch = CommitBatch(self._write)
        self._journals: dict[str, list[Journal]] = {}

    def create(
        self, session_id: str, cwd: str, *, additional_directories: Iterable[str] = (), agent: str = ""
    ) -> SessionSummary:
        return self._begin(session_id, opening(cwd, agent, additional_directories))

    def journal(self, session_id: str) -> Journal:
        session_id = plain(session_id)
        self._log(session_id)
        self._only_ours(session_id)
        self._shelf.leases.setdefault(session_id, (self, self._now()))
        journal = Journal(session_id, self._batch, self._let_go)
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

    def head(self, session_id: str) -> SessionSummary:
        self.commit()
        return self._log(session_id).head

    def list(
        self,
        cwd: str | None = None,
        *,
        agent: str | None = None,
        archived: str | None = "exclude",
        cursor: str | None = None,
        limit: int = 50,
    ) -> SessionPage:
        self.commit()
        asked = question(cwd, agent, archived, limit)
        below = None if cursor is None else place_of(asked, cursor)
        found = sorted(
            [(CursorPosition(log.head.updated, log.number), log.head) for log in self._shelf.logs.values()],
            key=lambda entry: entry[0],
            reverse=True,
        )
        found = [
            (place, head)
            for place, head in found
            if (below is None or place < below)
            and asked.folder in (None, folder_of(head.cwd))
            and asked.agent in (None, head.agent)
            and (asked.archived == "include" or head.archived == (asked.archived == "only"))
        ]
        page = found[:limit]
        more = cursor_of(asked, page[-1][0]) if len(found) > limit else None
        return SessionPage(tuple([head for _, head in page]), more)

    def newest(self, cwd: str, *, agent: str | None = None) -> SessionSummary | None:
        return next(iter(self.list(cwd, agent=agent, limit=1).heads), None)

    def writer(self, session_id: str) -> Lease | None:
        holder = self._shelf.leases.get(plain(session_id))
        return None if holder is None else Lease(os.getpid(), holder[1], holder[0] is self)

    def rebuild(self) -> None:
        self.commit()
        for session_id, log in self._shelf.logs.items():
            first, *others = log.records[log.inherited :]
            head = begin(session_id, first.time, _patch(first), log.head.parent)
            for record in others:
                head = fold(head, record.time, news_in(_run(record)))
            log.head = head

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
            raise UsageError(f"session {source} cannot be forked at record {seq}: it has {last}")
        patch = forked(log.head, opening(cwd, "", additional_directories))
        return self._begin(session_id, patch, ForkParent(log.head.session_id, seq), log.records[:seq])

    def set_title(self, session_id: str, title: str) -> str:
        stored = chosen_title(title)
        self._note(session_id, SessionPatch(title=stored, title_set=True))
        return stored

    def archive(self, session_id: str) -> None:
        if not self.head(session_id).archived:
            self._note(session_id, SessionPatch(archived=True))

    def unarchive(self, session_id: str) -> None:
        if self.head(session_id).archived:
            self._note(session_id, SessionPatch(archived=False))

    def delete(self, session_id: str) -> bool:
        session_id = plain(session_id)
        self._only_ours(session_id)
        self._batch.drop(session_id)
        for journal in self._journals.pop(session_id, []):
            journal.cut_off()
        self._shelf.leases.pop(session_id, None)
        return self._shelf.logs.pop(session_id, None) is not None

    def close(self) -> None:
        self.commit()
        for journals in list(self._journals.values()):
            for journal in list(journals):
                journal.close()

    def _log(self, session_id: str) -> _Log:
        log = self._shelf.logs.get(plain(session_id))
        if log is None:
            raise no_session(session_id)
        return log

    def _begin(
        self,
        session_id: str,
        patch: SessionPatch,
        parent: ForkParent | None = None,
        inherited: _Records | None = None,
    ) -> SessionSummary:
        session_id = plain(session_id)
        if session_id in self._shelf.logs:
            raise UsageError(f"there is a session {session_id} already")
        self._shelf.numbers += 1
        time = self._now()
        head = begin(session_id, time, patch, parent)
        records = inherited or []
        first = LogRecord(len(records) + 1, time, SESSION, encode(patch))
        self._shelf.logs[session_id] = _Log(self._shelf.numbers, head, [*records, first], len(records))
        return head

    def _note(self, session_id: str, patch: SessionPatch) -> None:
        self.commit()
        self._log(session_id)
        self._write({plain(session_id): [PendingRecord(SESSION, encode(patch), patch)]})

    def _write(self, batch: _Entries) -> None:
        time = self._now()
        for session_id, entries in batch.items():
            log = self._log(session_id)
            for entry in entries:
                log.records.append(LogRecord(len(log.records) + 1, time, entry.kind, entry.data))
            log.head = fold(log.head, time, [entry.news for entry in entries])

    def _only_ours(self, session_id: str) -> None:
        holder = self._shelf.leases.get(session_id)
        if holder is not None and holder[0] is not self:
            raise SessionInUse(f"session {session_id} is open for writing in another store")

    def _let_go(self, journal: Journal) -> None:
        journals = self._journals[journal.session_id]
        journals.remove(journal)
        if not journals:
            del self._journals[journal.session_id]
            del self._shelf.leases[journal.session_id]


def _run(record: LogRecord) -> RecordGroup:
    return RecordGroup(record.seq, 1, record.time, record.kind, array_of([record.data]))


def _patch(record: LogRecord) -> SessionPatch:
    (patch,) = news_in(_run(record))
    assert isinstance(patch, SessionPatch)
    return patch
