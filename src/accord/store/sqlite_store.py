"""The store in a SQLite file, and its write leases.

The file has a write-ahead log. Several processes may use it; each commit is one short transaction. A killed
process loses nothing that was committed. After a power failure the commits that were not on the disk yet are
missing, each as a whole; `durable` waits for the disk at every commit instead.

Imported on first use.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection
from uuid import uuid4

from accord.errors import SessionInUse
from accord.private_files import is_owned, private_folder, try_lock
from accord.session import Event
from accord.store import log_table, session_table
from accord.store.contract import Lease, SessionPage, parse_cursor, session_query
from accord.store.database import CHECKPOINT_PAGES, Checkpoints, Database
from accord.store.journal import CommitBatch, Journal, PendingRecords
from accord.store.log_table import LogBranch, LogSegment
from accord.store.records import LogRecord, RecordGroup, events_in, records_in
from accord.store.session_summary import (
    SessionPatch,
    SessionSummary,
    changes_summary,
    checked_title,
    iso_time,
    now_micros,
    opening_patch,
    session_not_found,
    storable_text,
)


class Leases:
    """The leases of one store file, as this store sees them. Changes happen in the caller's transaction.

    The owner of a lease is an open store. It keeps a file of its own locked. The system releases that lock
    when the process ends, so a lease of a dead owner is recognized without clocks and process numbers, also
    across containers. Such a lease is taken over.
    """

    def __init__(self, store: Path) -> None:
        self._folder = store.with_name(store.name + "-owners")
        self._token = ""
        self._lock = -1

    def acquire(self, connection: Connection, session_id: str, now: int) -> None:
        """Make this store the writer of a session. Raises SessionInUse."""
        self.require_free(connection, session_id)
        self._register_owner()
        connection.execute(
            "INSERT OR REPLACE INTO leases (session, owner, pid, since) VALUES (?, ?, ?, ?)",
            (session_id, self._token, os.getpid(), now),
        )

    def require_free(self, connection: Connection, session_id: str) -> None:
        """Raise SessionInUse if another store writes to the session."""
        lease = self.find(connection, session_id)
        if lease is not None and not lease.ours:
            raise SessionInUse(
                f"session {session_id} is open for writing in process {lease.pid} "
                f"since {iso_time(lease.since)}: close it there, or continue with a fork of it"
            )

    def find(self, connection: Connection, session_id: str) -> Lease | None:
        """The lease on a session, if its owner is alive."""
        return self._living(
            connection.execute(
                "SELECT session, owner, pid, since FROM leases WHERE session = ?", (session_id,)
            )
        ).get(session_id)

    def all(self, connection: Connection) -> dict[str, Lease]:
        """All leases whose owners are alive, by session."""
        return self._living(connection.execute("SELECT session, owner, pid, since FROM leases"))

    def _living(self, rows: Iterable[tuple[str, str, int, int]]) -> dict[str, Lease]:
        alive: dict[str, bool] = {self._token: True}
        leases: dict[str, Lease] = {}
        for session_id, owner, pid, since in rows:
            if owner not in alive:
                alive[owner] = self.is_alive(owner)
            if alive[owner]:
                leases[session_id] = Lease(pid, since, owner == self._token)
        return leases

    def is_alive(self, owner: str) -> bool:
        """Whether the owner of a lease still runs."""
        return is_owned(self._path(owner))

    def release(self, connection: Connection, session_id: str) -> None:
        """Release the lease on a session if this store holds it."""
        connection.execute("DELETE FROM leases WHERE session = ? AND owner = ?", (session_id, self._token))

    def delete_lease(self, connection: Connection, session_id: str) -> None:
        connection.execute("DELETE FROM leases WHERE session = ?", (session_id,))

    def close(self) -> None:
        """Release the owner file of this store."""
        if self._lock >= 0:
            with suppress(OSError):
                self._path(self._token).unlink()
            os.close(self._lock)
            self._lock, self._token = -1, ""

    def _register_owner(self) -> None:
        if self._lock >= 0:
            return
        private_folder(self._folder)
        self._remove_dead_owners()
        token, lock = "", None
        while lock is None:  # another process may check a new file and so lock it for a moment
            token = f"{os.getpid()}-{uuid4().hex}"
            lock = try_lock(self._path(token), create=True)
        self._token, self._lock = token, lock

    def _remove_dead_owners(self) -> None:
        """Remove the files of dead owners. Their leases are recognized when they are read."""
        for path in self._folder.iterdir():
            is_owned(path)

    def _path(self, token: str) -> Path:
        return self._folder / Path(token).name


_List = list  # `list` names a method below


class _OpenSession:
    """A session that this store writes to."""

    __slots__ = ("branch", "journals", "last", "updated")

    def __init__(self, branch: LogBranch, updated: int, last: int) -> None:
        self.branch = branch
        self.last = last
        self.updated = updated  # as in the summary: only the writer of a session changes it
        self.journals: list[Journal] = []


class SqliteStore:
    """Session logs in one file."""

    def __init__(
        self,
        path: Path,
        *,
        durable: bool = False,
        busy_seconds: float = 5.0,
        checkpoint_pages: int = CHECKPOINT_PAGES,
        now: Callable[[], int] = now_micros,
    ) -> None:
        database = Database(path, durable=durable, busy_seconds=busy_seconds)
        self._attach(database, Leases(database.path), Checkpoints(database.path, checkpoint_pages), now)

    def _attach(
        self, database: Database, leases: Leases, checkpoints: Checkpoints, now: Callable[[], int]
    ) -> None:
        self._database = database
        self.path: Path = database.path
        self.read_only: bool = database.read_only
        """Whether the file cannot be written to, as on a read-only file system."""
        self._now = now
        self._batch = CommitBatch(self._write)
        self._leases = leases
        self._checkpoints = checkpoints
        self._open_sessions: dict[str, _OpenSession] = {}

    # -- writing ---------------------------------------------------------------------------------------------

    def create(
        self, session_id: str, cwd: str, *, additional_directories: Iterable[str] = (), agent: str = ""
    ) -> SessionSummary:
        patch = opening_patch(cwd, agent, additional_directories)
        with self._database.write_transaction() as connection:
            return session_table.create_session(connection, storable_text(session_id), self._now(), patch)

    def journal(self, session_id: str) -> Journal:
        session_id = storable_text(session_id)
        open_session = self._open_sessions.get(session_id)
        if open_session is None:
            with self._database.write_transaction() as connection:
                branch = session_table.branch_of(connection, session_id)
                self._leases.acquire(connection, session_id, self._now())
                open_session = _OpenSession(
                    branch,
                    session_table.summary_of_log(connection, branch.log).updated,
                    log_table.branch_last_seq(connection, branch),
                )
            self._open_sessions[session_id] = open_session
        journal = Journal(session_id, self._batch, self._close_journal, open_session.last)
        open_session.journals.append(journal)
        return journal

    def commit(self) -> None:
        self._batch.commit()

    @property
    def dirty(self) -> bool:
        return not self._batch.empty

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, session_id: str, after: int = 0) -> Iterator[LogRecord]:
        return self._records(self._segments(session_id, after))

    def events(self, session_id: str, after: int = 0) -> Iterator[Event]:
        return self._events(self._segments(session_id, after))

    def last(self, session_id: str) -> int:
        self.commit()
        with self._database.read_transaction() as connection:
            return log_table.branch_last_seq(
                connection, session_table.branch_of(connection, storable_text(session_id))
            )

    # -- the list --------------------------------------------------------------------------------------------

    def summary(self, session_id: str) -> SessionSummary:
        self.commit()
        with self._database.read_transaction() as connection:
            summary = session_table.summary_of_session(connection, storable_text(session_id))
        if summary is None:
            raise session_not_found(session_id)
        return summary

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
        with self._database.read_transaction() as connection:
            return session_table.summary_page(connection, query, after, limit)

    def newest(self, cwd: str, *, agent: str | None = None) -> SessionSummary | None:
        return next(iter(self.list(cwd, agent=agent, limit=1).sessions), None)

    def writer(self, session_id: str) -> Lease | None:
        with self._database.read_transaction() as connection:
            return self._leases.find(connection, storable_text(session_id))

    def writers(self) -> dict[str, Lease]:
        with self._database.read_transaction() as connection:
            return self._leases.all(connection)

    def rebuild(self) -> None:
        self.commit()
        with self._database.write_transaction() as connection:
            session_table.rebuild_summaries(connection)

    # -- changing --------------------------------------------------------------------------------------------

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
        requested = opening_patch(cwd, "", additional_directories)
        with self._database.write_transaction() as connection:
            return session_table.fork_session(
                connection, storable_text(source), storable_text(session_id), self._now(), up_to, requested
            )

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

    def rename_agents(self, rename: Callable[[str], str]) -> None:
        """Replace the names of agents everywhere in the file, also where a session id starts with one.

        An agent whose session another process writes to keeps its name for now.
        """
        with self._database.read_transaction() as connection:
            names = {name: rename(name) for name in session_table.agent_names(connection)}
        for before, after in names.items():
            if before == after:
                continue
            with suppress(SessionInUse), self._database.write_transaction() as connection:
                for session_id in session_table.sessions_of_agent(connection, before):
                    self._leases.require_free(connection, session_id)
                session_table.rename_agent(connection, before, after)
            self._checkpoints.start()  # until then the file still holds the old name

    def delete(self, session_id: str) -> bool:
        session_id = storable_text(session_id)
        with self._database.write_transaction() as connection:
            branch = log_table.branch_of_session(connection, session_id)
            if branch is None:
                return False
            self._leases.require_free(connection, session_id)
            self._leases.delete_lease(connection, session_id)
            session_table.delete_session(connection, branch)
        self._batch.drop(session_id)
        open_session = self._open_sessions.pop(session_id, None)
        for journal in open_session.journals if open_session else ():
            journal.invalidate()
        self._checkpoints.start()  # until then the write-ahead log still holds the deleted records
        return True

    def close(self) -> None:
        try:
            self.commit()
            self._release(*self._open_sessions)
        finally:
            for open_session in self._open_sessions.values():
                for journal in open_session.journals:
                    journal.invalidate()
            self._open_sessions = {}
            self._leases.close()
            self._checkpoints.close()
            self._database.close()

    def __enter__(self) -> "SqliteStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- internals -------------------------------------------------------------------------------------------

    def _append_patch(self, session_id: str, patch: SessionPatch) -> None:
        self.commit()
        with self._database.write_transaction() as connection:
            branch = session_table.branch_of(connection, storable_text(session_id))
            first = log_table.branch_last_seq(connection, branch) + 1
            record = session_table.patch_record(patch)
            session_table.append_records(connection, branch, first, self._now(), [record])

    def _write(self, batch: dict[str, _List[PendingRecords]]) -> None:
        time = self._now()
        size = 0
        written: list[tuple[_OpenSession, int]] = []
        changed: list[tuple[_OpenSession, int]] = []
        with self._database.write_transaction() as connection:
            for session_id, entries in batch.items():
                open_session = self._open_sessions[session_id]
                last = log_table.branch_last_seq(connection, open_session.branch)
                if changes_summary(open_session.updated, time, [entry.effect for entry in entries]):
                    changed.append(
                        (
                            open_session,
                            session_table.append_records(
                                connection, open_session.branch, last + 1, time, entries
                            ),
                        )
                    )
                else:
                    size += log_table.write_records(
                        connection, open_session.branch.log, last + 1, time, entries
                    )
                written.append((open_session, last + sum([len(entry.payloads) for entry in entries])))
        for open_session, updated in changed:
            open_session.updated = updated
        for open_session, last in written:
            open_session.last = last
            for journal in open_session.journals:
                journal.committed = last
        self._checkpoints.count(size)

    def _segments(self, session_id: str, after: int) -> _List[LogSegment]:
        self.commit()
        with self._database.read_transaction() as connection:
            return log_table.branch_segments(
                connection, session_table.branch_of(connection, storable_text(session_id)), max(after, 0)
            )

    def _records(self, segments: _List[LogSegment]) -> Iterator[LogRecord]:
        for segment in segments:
            for page in log_table.read_records(self._page, *segment):
                yield from records_in(page, segment.first, segment.last)

    def _events(self, segments: _List[LogSegment]) -> Iterator[Event]:
        for segment in segments:
            for page in log_table.read_records(self._page, *segment):
                yield from events_in(page, segment.first, segment.last)

    def _page(self, first: int, last: int) -> _List[RecordGroup]:
        with self._database.translate_errors():
            return log_table.record_page(self._database.connection, first, last)

    def _close_journal(self, journal: Journal) -> None:
        open_session = self._open_sessions[journal.session_id]
        open_session.journals.remove(journal)
        if not open_session.journals:
            del self._open_sessions[journal.session_id]
            self._release(journal.session_id)

    def _release(self, *session_ids: str) -> None:
        if session_ids:
            with self._database.write_transaction() as connection:
                for session_id in session_ids:
                    self._leases.release(connection, session_id)
