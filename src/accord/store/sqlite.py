"""The store in a file: SQLite with a write-ahead log, safe for several processes, one short transaction a commit.

A process that is killed loses nothing that was committed. After a loss of power those commits are missing that the system had
not put on the disk yet, never a part of one; `durable` waits for the disk at every commit instead.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType

from accord.session import Event
from accord.store import branches, catalogue, ledger, runs
from accord.store.branches import Branch, Part
from accord.store.checkpoint import PAGES, Checkpoints
from accord.store.contract import Lease, Page
from accord.store.cursor import place_of, question
from accord.store.database import Database
from accord.store.heads import (
    Head,
    SessionPatch,
    changes_head,
    chosen_title,
    micros,
    no_session,
    opening,
    plain,
)
from accord.store.journal import Batch, Entry, Journal
from accord.store.lease import Leases
from accord.store.records import LogRecord, Run, events_in, records_in

_List = list  # `list` names a method below


class _Open:
    """A session that this store writes to."""

    __slots__ = ("branch", "journals", "updated")

    def __init__(self, branch: Branch, updated: int) -> None:
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
        self._batch = Batch(self._write)
        self._leases = Leases(self.path)
        self._checkpoints = Checkpoints(self.path, checkpoint_pages)
        self._open: dict[str, _Open] = {}

    # -- writing ------------------------------------------------------------------------------------------------

    def create(
        self, session_id: str, cwd: str, *, additional_directories: Iterable[str] = (), agent: str = ""
    ) -> Head:
        patch = opening(cwd, agent, additional_directories)
        with self._file.writing() as connection:
            return ledger.create(connection, plain(session_id), self._now(), patch)

    def journal(self, session_id: str) -> Journal:
        session_id = plain(session_id)
        opened = self._open.get(session_id)
        if opened is None:
            with self._file.writing() as connection:
                branch = ledger.branch_of(connection, session_id)
                self._leases.take(connection, session_id, self._now())
                opened = _Open(branch, catalogue.of_log(connection, branch.log).updated)
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
            return branches.last_seq(connection, ledger.branch_of(connection, plain(session_id)))

    # -- the list -----------------------------------------------------------------------------------------------

    def head(self, session_id: str) -> Head:
        self.commit()
        with self._file.reading() as connection:
            head = catalogue.of_session(connection, plain(session_id))
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
    ) -> Page:
        self.commit()
        asked = question(cwd, agent, archived, limit)
        below = None if cursor is None else place_of(asked, cursor)
        with self._file.reading() as connection:
            return catalogue.page(connection, asked, below, limit)

    def newest(self, cwd: str, *, agent: str | None = None) -> Head | None:
        return next(iter(self.list(cwd, agent=agent, limit=1).heads), None)

    def writer(self, session_id: str) -> Lease | None:
        with self._file.reading() as connection:
            return self._leases.of(connection, plain(session_id))

    def rebuild(self) -> None:
        self.commit()
        with self._file.writing() as connection:
            catalogue.rebuild(connection)

    # -- changing -----------------------------------------------------------------------------------------------

    def fork(
        self,
        source: str,
        session_id: str,
        *,
        cwd: str | None = None,
        additional_directories: Iterable[str] = (),
        up_to: int | None = None,
    ) -> Head:
        self.commit()
        asked = opening(cwd, "", additional_directories)
        with self._file.writing() as connection:
            return ledger.fork(connection, plain(source), plain(session_id), self._now(), up_to, asked)

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
            branch = branches.of_session(connection, session_id)
            if branch is None:
                return False
            self._leases.only_ours(connection, session_id)
            self._leases.forget(connection, session_id)
            ledger.delete(connection, branch)
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
            branch = ledger.branch_of(connection, plain(session_id))
            ledger.add(connection, branch, self._now(), [ledger.note(patch)])

    def _write(self, batch: dict[str, _List[Entry]]) -> None:
        time = self._now()
        size = 0
        moved: list[tuple[_Open, int]] = []
        with self._file.writing() as connection:
            for session_id, entries in batch.items():
                opened = self._open[session_id]
                if changes_head(opened.updated, time, [entry.news for entry in entries]):
                    moved.append((opened, ledger.add(connection, opened.branch, time, entries)))
                else:
                    first = branches.last_seq(connection, opened.branch) + 1
                    size += runs.write(connection, opened.branch.log, first, time, entries)
        for opened, updated in moved:
            opened.updated = updated
        self._checkpoints.written(size)

    def _parts(self, session_id: str, after: int) -> _List[Part]:
        self.commit()
        with self._file.reading() as connection:
            return branches.parts(connection, ledger.branch_of(connection, plain(session_id)), max(after, 0))

    def _records(self, parts: _List[Part]) -> Iterator[LogRecord]:
        for part in parts:
            for page in runs.read(self._page, *part):
                yield from records_in(page, part.first, part.last)

    def _events(self, parts: _List[Part]) -> Iterator[Event]:
        for part in parts:
            for page in runs.read(self._page, *part):
                yield from events_in(page, part.first, part.last)

    def _page(self, first: int, last: int) -> _List[Run]:
        with self._file.trouble():
            return runs.page(self._file.connection, first, last)

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
