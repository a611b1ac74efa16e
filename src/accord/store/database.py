"""The SQLite file: open, migrate, transactions, checkpoints.

Imported on first use.
"""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final, TypeVar

import msgspec

from accord.errors import StoreError, UsageError
from accord.paths import private_file, private_folder

# MERGED store.tables: The tables of a store's file, as the steps that lead to them: a file's version is the number of steps it has taken.
#
# `records` is the log: one row for the records that one commit added to one session and that are of one kind. Its key is
# the number of the log in the upper half and the first sequence number of the row in the lower, so that a log lies together.
# `logs` says which log belongs to which session and where it branched off; a log whose session was deleted stays as
# long as forks read it. `heads` is folded from these two, and `leases` says which process writes to a session.

APPLICATION_ID: Final = 0x41434C47  # "ACLG"
"""In the header of the file: tells a store from other programs' databases."""

SEQ_BITS: Final = 32

_FIRST: Final = (
    """
    CREATE TABLE logs (
        log INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT UNIQUE,
        base INTEGER,
        base_last INTEGER NOT NULL,
        parent TEXT,
        parent_seq INTEGER,
        format INTEGER NOT NULL
    )
    """,
    "CREATE INDEX logs_by_base ON logs (base, base_last)",
    """
    CREATE TABLE records (
        key INTEGER PRIMARY KEY,
        length INTEGER NOT NULL,
        time INTEGER NOT NULL,
        kind TEXT NOT NULL,
        data BLOB NOT NULL
    )
    """,
    """
    CREATE TABLE heads (
        log INTEGER PRIMARY KEY,
        session TEXT NOT NULL UNIQUE,
        cwd TEXT NOT NULL,
        folder TEXT NOT NULL,
        agent TEXT NOT NULL,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        title TEXT,
        title_set INTEGER NOT NULL,
        additional_directories TEXT NOT NULL,
        archived INTEGER NOT NULL
    )
    """,
    "CREATE INDEX heads_by_time ON heads (updated, log)",
    "CREATE INDEX heads_by_folder ON heads (folder, updated, log)",
    """
    CREATE TABLE leases (
        session TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        pid INTEGER NOT NULL,
        since INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
)

STEPS: Final[Sequence[Sequence[str]]] = (_FIRST,)
"""What leads from each version to the next. Steps are only ever added."""


def version_of(connection: Connection) -> int | None:
    """The version of the file: 0 for a new one, None for one of another program."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id == APPLICATION_ID:
        return version
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return None if application_id or version or tables else 0


def upgrade(connection: Connection, steps: Sequence[Sequence[str]] = STEPS) -> None:
    """Take the steps that the file lacks, all of them or none."""
    if version_of(connection) == len(steps):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(connection)  # another process may have been faster
        if version is not None:
            for step in steps[version:]:
                for statement in step:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


# MERGED store.database: A store's file: opened, recognised and brought up to date, with transactions, and every failure as one clear line.

T = TypeVar("T")

_MAGIC: Final = b"SQLite format 3\x00"
_BACKSTOP: Final = 4_000  # pages of the write-ahead log at which SQLite itself steps in, should nobody else


class Database:
    """One connection to a store's file."""

    def __init__(self, path: Path, *, durable: bool = False, busy: float = 5.0) -> None:
        self.path = path.absolute()
        self._busy = busy
        with self.trouble():
            if not self.path.exists():
                if not self.path.parent.exists():
                    private_folder(self.path.parent)
                private_file(self.path)
            if self.path.is_file():  # of what is no file SQLite has the better word
                with self.path.open("rb") as file:
                    if file.read(len(_MAGIC)) not in (b"", _MAGIC):
                        raise StoreError(_SENTENCES[sqlite3.SQLITE_NOTADB].format(path=self.path))
            self.connection = sqlite3.connect(self.path, timeout=busy, isolation_level=None)
            try:
                self._prepare(durable)
            except BaseException:
                self.connection.close()
                raise

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """A transaction that writes: all of it or nothing. Waits while another process writes, so long at most."""
        with self.trouble():
            connection = self.connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """A transaction that only reads: it sees one state of the file."""
        with self.trouble():
            connection = self.connection
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def trouble(self) -> Generator[None]:
        """Say in one line what went wrong with the file."""
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise UsageError(
                f"the session store {self.path} is closed, or used from another thread"
            ) from error
        except sqlite3.Error as error:
            raise StoreError(_sentence(self.path, error)) from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StoreError(_SENTENCES[sqlite3.SQLITE_CORRUPT].format(path=self.path)) from error
        except OSError as error:
            raise StoreError(
                f"the session store {self.path} cannot be used ({error.strerror}): check that it is yours, or give "
                "another path"
            ) from error

    def close(self) -> None:
        """Let the file go. May be called twice."""
        with self.trouble():
            self.connection.close()

    def _prepare(self, durable: bool) -> None:
        connection = self.connection
        version = version_of(connection)
        if version is None:
            raise StoreError(
                f"{self.path} is a database of another program, not a session store: give another path"
            )
        if version > len(STEPS):
            raise StoreError(
                f"the session store {self.path} was written by a newer Accord (format {version}, this one knows "
                f"{len(STEPS)}): update Accord, or give another path"
            )
        if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            os.chmod(self.path, 0o600)
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            self._patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_BACKSTOP}")
        connection.execute(f"PRAGMA journal_size_limit = {_BACKSTOP * 4096}")
        connection.execute("PRAGMA secure_delete = ON")
        upgrade(connection)

    def _patiently(self, attempt: Callable[[], T]) -> T:
        """SQLite does not wait by itself when two processes switch a new file to the write-ahead log at once."""
        deadline = time.monotonic() + self._busy
        while True:
            try:
                return attempt()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)


_SENTENCES: Final[dict[int, str]] = {
    sqlite3.SQLITE_BUSY: "another process has kept the session store {path} locked for too long: try again, or end that process",
    sqlite3.SQLITE_LOCKED: "another process has kept the session store {path} locked for too long: try again, or end that process",
    sqlite3.SQLITE_FULL: "the disk of the session store {path} is full: free some space; nothing written so far is lost",
    sqlite3.SQLITE_NOTADB: "{path} is no session store: move it away, or give another path",
    sqlite3.SQLITE_CORRUPT: "the session store {path} is damaged: move it away to begin a new one (`sqlite3 {path} .recover` may save the old one's content)",
    sqlite3.SQLITE_READONLY: "the session store {path} cannot be written to: make the file and its folder writable, or give another path",
    sqlite3.SQLITE_CANTOPEN: "the session store {path} cannot be opened: check that its folder exists and is yours, or give another path",
    sqlite3.SQLITE_PERM: "the session store {path} cannot be opened: check that it is yours, or give another path",
}


def _sentence(path: Path, error: Any) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    sentence = _SENTENCES.get(
        code, "the session store {path} failed: {error}; try again, or give another path"
    )
    return sentence.format(path=path, error=error)


# MERGED store.checkpoint: Moving the write-ahead log into the file, beside the event loop: it waits for the disk, and nobody should wait for it.

PAGE: Final = 4096
PAGES: Final = 1000
"""So many pages of the write-ahead log, about, are moved at a time."""

_PATIENCE: Final = 10.0  # seconds that closing waits for a move to end


class Checkpoints:
    """Counts what is written to one file and, every so often, starts a thread that moves it."""

    def __init__(self, path: Path, pages: int = PAGES) -> None:
        self._path = path
        self._limit = pages
        self._pages = 0
        self._thread: threading.Thread | None = None

    def written(self, size: int) -> None:
        """A commit added about so many bytes."""
        self._pages += 3 + size // PAGE  # a commit touches a few pages however little it adds
        if self._pages >= self._limit:
            self.start()

    def start(self) -> None:
        """Move what there is, unless that is going on already."""
        if self._thread is None or not self._thread.is_alive():
            self._pages = 0
            self._thread = threading.Thread(target=self._move, name="accord-store-checkpoint", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                self._thread = None  # no thread to be had right now: next time

    def close(self) -> None:
        """Wait for the thread; bounded."""
        if self._thread is not None:
            self._thread.join(_PATIENCE)
            self._thread = None

    def _move(self) -> None:
        # If it cannot be done now, it is done next time: nothing is lost, the write-ahead log only grows.
        with suppress(sqlite3.Error), closing(sqlite3.connect(self._path, timeout=0)) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
