"""The store in a SQLite file, and its write leases.

Imported on first use.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection
from types import TracebackType
from uuid import uuid4

from accord.errors import SessionInUse
from accord.paths import private_folder
from accord.session import Event
from accord.store import log_table, session_table
from accord.store.contract import Lease, SessionPage, place_of, question
from accord.store.database import PAGES, Checkpoints, Database
from accord.store.journal import CommitBatch, Journal, PendingRecord
from accord.store.log_table import LogBranch, LogSegment
from accord.store.records import LogRecord, RecordGroup, events_in, records_in
from accord.store.session_summary import (
    SessionPatch,
    SessionSummary,
    changes_head,
    chosen_title,
    iso_time,
    micros,
    no_session,
    opening,
    plain,
)

# MERGED store.lease: Who writes to which session: leases in the file, each of an owner that is alive as long as it holds its lock.
#
# An owner is one open store. It keeps a file of its own locked, which the system lets go of when the process ends, however it
# ends: no clock, no process number that somebody else may have by now, and it works from one container to the next wherever
# SQLite's own locks do. A lease whose owner is dead is taken over.


class Leases:
    """The leases of one store's file, as this owner sees them. Changes happen in the caller's transaction."""

    def __init__(self, store: Path) -> None:
        self._folder = store.with_name(store.name + "-owners")
        self._token = ""
        self._lock = -1

    def take(self, connection: Connection, session_id: str, now: int) -> None:
        """Become the writer of a session. Raises SessionInUse."""
        self.only_ours(connection, session_id)
        self._come_alive()
        connection.execute(
            "INSERT OR REPLACE INTO leases (session, owner, pid, since) VALUES (?, ?, ?, ?)",
            (session_id, self._token, os.getpid(), now),
        )

    def only_ours(self, connection: Connection, session_id: str) -> None:
        """Refuse a session that another owner writes to."""
        lease = self.of(connection, session_id)
        if lease is not None and not lease.ours:
            raise SessionInUse(
                f"session {session_id} is open for writing in process {lease.pid} since {iso_time(lease.since)}: "
                "close it there, or go on with a fork of it"
            )

    def of(self, connection: Connection, session_id: str) -> Lease | None:
        """The lease on a session whose owner is alive."""
        row = connection.execute(
            "SELECT owner, pid, since FROM leases WHERE session = ?", (session_id,)
        ).fetchone()
        if row is None:
            return None
        owner, pid, since = row
        ours = owner == self._token
        return Lease(pid, since, ours) if ours or self._is_alive(owner) else None

    def let_go(self, connection: Connection, session_id: str) -> None:
        """Give back what is ours."""
        connection.execute("DELETE FROM leases WHERE session = ? AND owner = ?", (session_id, self._token))

    def forget(self, connection: Connection, session_id: str) -> None:
        """The session is gone."""
        connection.execute("DELETE FROM leases WHERE session = ?", (session_id,))

    def close(self) -> None:
        """This owner is no more."""
        if self._lock >= 0:
            with suppress(OSError):
                self._path(self._token).unlink()
            os.close(self._lock)
            self._lock, self._token = -1, ""

    def _come_alive(self) -> None:
        if self._lock >= 0:
            return
        private_folder(self._folder)
        self._sweep()
        while True:
            token = f"{os.getpid()}-{uuid4().hex}"
            path = self._path(token)
            lock = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            # Between the two calls somebody may have taken it for a dead one's: then another is made.
            if _locked(lock) and path.exists():
                self._token, self._lock = token, lock
                return
            os.close(lock)

    def _sweep(self) -> None:
        """Remove what dead owners left. Their leases are found dead one by one."""
        for path in self._folder.iterdir():
            self._is_alive(path.name)

    def _is_alive(self, token: str) -> bool:
        path = self._path(token)
        try:
            lock = os.open(path, os.O_RDWR)
        except OSError:
            return False
        try:
            if not _locked(lock):
                return True
            with suppress(OSError):
                path.unlink()
            return False
        finally:
            os.close(lock)

    def _path(self, token: str) -> Path:
        return self._folder / Path(token).name


if sys.platform == "win32":
    import msvcrt

    def _locked(descriptor: int) -> bool:
        """Lock the file, unless somebody else has."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _locked(descriptor: int) -> bool:
        """Lock the file, unless somebody else has."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


# MERGED store.sqlite: The store in a file: SQLite with a write-ahead log, safe for several processes, one short transaction a commit.
#
# A process that is killed loses nothing that was committed. After a loss of power those commits are missing that the system had
# not put on the disk yet, never a part of one; `durable` waits for the disk at every commit instead.

_List = list  # `list` names a method below


class _Open:
    """A session that this store writes to."""

    __slots__ = ("branch", "journals", "updated")

    def __init__(self, branch: LogBranch, updated: int) -> None:
        self.branch = branch
        self.updated = updated  # as its head has it: only the writer of a session moves it on
        self.journals: list[Journal] = []


class SqliteStore:
    """Session logs in one file."""

    def __init__(
        self,
        path: Path,
        *,
        durable: bool = False,
        busy: float = 5.0,
        checkpoint_pages: int = PAGES,
        now: Callable[[], int] = micros,
    ) -> None:
        self._file = Database(path, durable=durable, busy=busy)
        self.path = self._file.path
        self._now = now
        self._batch = CommitBatch(self._write)
        self._leases = Leases(self.path)
        self._checkpoints = Checkpoints(self.path, checkpoint_pages)
        self._open: dict[str, _Open] = {}

    # -- writing ------------------------------------------------------------------------------------------------

    def create(
        self, session_id: str, cwd: str, *, additional_directories: Iterable[str] = (), agent: str = ""
    ) -> SessionSummary:
        patch = opening(cwd, agent, additional_directories)
        with self._file.writing() as connection:
            return session_table.create_session(connection, plain(session_id), self._now(), patch)

    def journal(self, session_id: str) -> Journal:
        session_id = plain(session_id)
        opened = self._open.get(session_id)
        if opened is None:
            with self._file.writing() as connection:
                branch = session_table.branch_of(connection, session_id)
                self._leases.take(connection, session_id, self._now())
                opened = _Open(branch, session_table.summary_of_log(connection, branch.log).updated)
            self._open[session_id] = opened
        journal = Journal(session_id, self._batch, self._let_go)
        opened.journals.append(journal)
        return journal

    def commit(self) -> None:
        self._batch.commit()

    @property
    def dirty(self) -> bool:
        return not self._batch.empty

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, session_id: str, after: int = 0) -> Iterator[LogRecord]:
        return self._records(self._parts(session_id, after))

    def events(self, session_id: str, after: int = 0) -> Iterator[Event]:
        return self._events(self._parts(session_id, after))

    def last(self, session_id: str) -> int:
        self.commit()
        with self._file.reading() as connection:
            return log_table.branch_last_seq(
                connection, session_table.branch_of(connection, plain(session_id))
            )

    # -- the list -----------------------------------------------------------------------------------------------

    def head(self, session_id: str) -> SessionSummary:
        self.commit()
        with self._file.reading() as connection:
            head = session_table.summary_of_session(connection, plain(session_id))
        if head is None:
            raise no_session(session_id)
        return head

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
        with self._file.reading() as connection:
            return session_table.summary_page(connection, asked, below, limit)

    def newest(self, cwd: str, *, agent: str | None = None) -> SessionSummary | None:
        return next(iter(self.list(cwd, agent=agent, limit=1).heads), None)

    def writer(self, session_id: str) -> Lease | None:
        with self._file.reading() as connection:
            return self._leases.of(connection, plain(session_id))

    def rebuild(self) -> None:
        self.commit()
        with self._file.writing() as connection:
            session_table.rebuild_summaries(connection)

    # -- changing -----------------------------------------------------------------------------------------------

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
        asked = opening(cwd, "", additional_directories)
        with self._file.writing() as connection:
            return session_table.fork_session(
                connection, plain(source), plain(session_id), self._now(), up_to, asked
            )

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
        with self._file.writing() as connection:
            branch = log_table.branch_of_session(connection, session_id)
            if branch is None:
                return False
            self._leases.only_ours(connection, session_id)
            self._leases.forget(connection, session_id)
            session_table.delete_session(connection, branch)
        self._batch.drop(session_id)
        opened = self._open.pop(session_id, None)
        for journal in opened.journals if opened else ():
            journal.cut_off()
        self._checkpoints.start()  # until then the write-ahead log still has what was deleted
        return True

    def close(self) -> None:
        try:
            self.commit()
            self._release(*self._open)
        finally:
            for opened in self._open.values():
                for journal in opened.journals:
                    journal.cut_off()
            self._open = {}
            self._leases.close()
            self._checkpoints.close()
            self._file.close()

    def __enter__(self) -> "SqliteStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- within -------------------------------------------------------------------------------------------------

    def _note(self, session_id: str, patch: SessionPatch) -> None:
        self.commit()
        with self._file.writing() as connection:
            branch = session_table.branch_of(connection, plain(session_id))
            session_table.append_records(connection, branch, self._now(), [session_table.patch_entry(patch)])

    def _write(self, batch: dict[str, _List[PendingRecord]]) -> None:
        time = self._now()
        size = 0
        moved: list[tuple[_Open, int]] = []
        with self._file.writing() as connection:
            for session_id, entries in batch.items():
                opened = self._open[session_id]
                if changes_head(opened.updated, time, [entry.news for entry in entries]):
                    moved.append(
                        (opened, session_table.append_records(connection, opened.branch, time, entries))
                    )
                else:
                    first = log_table.branch_last_seq(connection, opened.branch) + 1
                    size += log_table.write_records(connection, opened.branch.log, first, time, entries)
        for opened, updated in moved:
            opened.updated = updated
        self._checkpoints.written(size)

    def _parts(self, session_id: str, after: int) -> _List[LogSegment]:
        self.commit()
        with self._file.reading() as connection:
            return log_table.branch_segments(
                connection, session_table.branch_of(connection, plain(session_id)), max(after, 0)
            )

    def _records(self, parts: _List[LogSegment]) -> Iterator[LogRecord]:
        for part in parts:
            for page in log_table.read_records(self._page, *part):
                yield from records_in(page, part.first, part.last)

    def _events(self, parts: _List[LogSegment]) -> Iterator[Event]:
        for part in parts:
            for page in log_table.read_records(self._page, *part):
                yield from events_in(page, part.first, part.last)

    def _page(self, first: int, last: int) -> _List[RecordGroup]:
        with self._file.trouble():
            return log_table.record_page(self._file.connection, first, last)

    def _let_go(self, journal: Journal) -> None:
        opened = self._open[journal.session_id]
        opened.journals.remove(journal)
        if not opened.journals:
            del self._open[journal.session_id]
            self._release(journal.session_id)

    def _release(self, *session_ids: str) -> None:
        if session_ids:
            with self._file.writing() as connection:
                for session_id in session_ids:
                    self._leases.let_go(connection, session_id)
