"""The SQLite file: open, migrate, transactions, checkpoints.

Imported on first use.
"""

import errno
import os
import shutil
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final, TypeVar

import msgspec

from accord.errors import StoreError, UsageError
from accord.file_format import newer_format
from accord.paths import HOME_VARIABLE, data_dir
from accord.private_files import create_private_file, private_folder

# A migration is a tuple of statements. The version of a file is the number of migrations it has had.
#
# `records` is the log. One row holds the records of one kind that one commit added to one session. The upper
# half of its key is the number of the log, the lower half the first sequence number of the row: the rows of a
# log lie together. `logs` says which log belongs to which session, and the log it is a branch of. The log of
# a deleted session stays as long as forks read it. `heads` is computed from these two. `leases` says which
# process writes to a session.

APPLICATION_ID: Final = 0x41434C47  # "ACLG"
"""In the header of the file: distinguishes a store from the databases of other programs."""

SEQ_BITS: Final = 32

_VERSION_1: Final = (
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

MIGRATIONS: Final[Sequence[Sequence[str]]] = (_VERSION_1,)
"""The statements that lead from each version to the next. Entries are only ever added.

A new column of `heads` needs a default; `Store.rebuild` computes it for older sessions.
"""


def version_of(connection: Connection) -> int | None:
    """The version of a store file: 0 for a new file, None for the database of another program."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id == APPLICATION_ID:
        return version
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not (application_id or version or tables):
        return 0
    # Another process may have created the store between these reads; it does so in one transaction.
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return version if application_id == APPLICATION_ID else None


def upgrade(connection: Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Apply the missing migrations, all of them or none. An existing file is kept beside it first."""
    version = version_of(connection)
    if version == len(migrations):
        return
    if version:
        _back_up(connection, version)
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(connection)  # another process may have upgraded it meanwhile
        if version is not None:
            for migration in migrations[version:]:
                for statement in migration:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _back_up(connection: Connection, version: int) -> None:
    """Copy the store to `NAME.format-VERSION`, unless another process or an earlier start did."""
    (_, _, path) = connection.execute("PRAGMA database_list").fetchone()
    backup = Path(f"{path}.format-{version}")
    if not path or backup.exists():
        return
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=backup.parent) as work:  # mode 0700
        copy = Path(work, "copy")
        connection.execute("VACUUM INTO ?", (str(copy),))
        copy.chmod(0o600)
        copy.replace(backup)


T = TypeVar("T")

_SMALLEST_FILE: Final = 512
"""SQLite takes a file of one byte for an empty database. Its smallest page has this size."""
_AUTOCHECKPOINT_PAGES: Final = 4_000  # SQLite itself checkpoints a write-ahead log of this size


class Database:
    """One connection to a store file. Every failure is raised as a StoreError of one line.

    Never open the file itself while a process has a connection to it: closing a descriptor releases the locks
    that SQLite holds in this process, and the last other process then deletes the write-ahead log.
    """

    def __init__(self, path: Path, *, durable: bool = False, busy_seconds: float = 5.0) -> None:
        self.path: Path = path.absolute()
        self.read_only: bool = False
        """Whether the file cannot be written to and was opened to be read."""
        self._busy_seconds = busy_seconds
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        with self.translate_errors():
            if self.path.parent == data_dir() or not self.path.parent.exists():
                private_folder(self.path.parent)
            create_private_file(self.path)
            if 0 < self.path.stat().st_size < _SMALLEST_FILE and self.path.is_file():
                raise StoreError(_MESSAGES[sqlite3.SQLITE_NOTADB].format(path=self.path))
            self.connection: Connection = sqlite3.connect(
                self.path, timeout=busy_seconds, isolation_level=None
            )
            try:
                self._prepare(durable)
            except BaseException as error:
                self.connection.close()
                if not _is_write_error(error) or not self.path.stat().st_size:
                    raise
                self.connection = self._open_to_read()

    @contextmanager
    def write_transaction(self) -> Generator[sqlite3.Connection]:
        """A write transaction. Waits at most the busy timeout while another process writes."""
        with self.translate_errors():
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
    def read_transaction(self) -> Generator[sqlite3.Connection]:
        """A read transaction: it sees one state of the file."""
        with self.translate_errors():
            connection = self.connection
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def translate_errors(self) -> Generator[None]:
        """Raise errors of the file as StoreError or UsageError, in one line that names the file."""
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise UsageError(
                f"the session store {self.path} is closed, or used from another thread"
            ) from error
        except sqlite3.Error as error:
            raise StoreError(_message(self.path, error)) from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StoreError(_MESSAGES[sqlite3.SQLITE_CORRUPT].format(path=self.path)) from error
        except OSError as error:
            raise StoreError(
                f"the session store {self.path} cannot be used ({error.strerror}): "
                f"check that it is yours, or {_other_place(self.path)}"
            ) from error

    def close(self) -> None:
        """May be called twice."""
        with self.translate_errors():
            self.connection.close()
            if self._copy is not None:
                self._copy.cleanup()

    def _open_to_read(self) -> Connection:
        """Open a file that cannot be written to. What its write-ahead log holds is part of it."""
        self.read_only = True
        path, wal = self.path, Path(f"{self.path}-wal")
        if wal.exists() and wal.stat().st_size:
            # SQLite reads a write-ahead log only next to files that it can write to.
            self._copy = tempfile.TemporaryDirectory(prefix="accord-store-")
            path = Path(shutil.copyfile(path, Path(self._copy.name, path.name)))
            shutil.copyfile(wal, f"{path}-wal")
        mode = "mode=rw" if self._copy is not None else "mode=ro&immutable=1"
        connection = sqlite3.connect(
            f"{path.as_uri()}?{mode}", uri=True, timeout=self._busy_seconds, isolation_level=None
        )
        try:
            self._check_version(version_of(connection))
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_version(self, version: int | None) -> None:
        if version is None:
            raise StoreError(
                f"{self.path} is a database of another program, not a session store: give another path"
            )
        if version > len(MIGRATIONS):
            raise StoreError(f"the session store {newer_format(self.path, version, len(MIGRATIONS))}")
        if self.read_only and version < len(MIGRATIONS):
            raise StoreError(
                f"the session store {self.path} is of an older format and cannot be written to: "
                "copy it to a writable folder"
            )

    def _prepare(self, durable: bool) -> None:
        connection = self.connection
        self._check_version(version_of(connection))
        if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            os.chmod(self.path, 0o600)
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            self._retry_while_busy(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_AUTOCHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_AUTOCHECKPOINT_PAGES * 4096}")
        connection.execute("PRAGMA secure_delete = ON")
        upgrade(connection)

    def _retry_while_busy(self, attempt: Callable[[], T]) -> T:
        """Retry. SQLite itself does not wait when two processes switch a new file to the write-ahead log."""
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                return attempt()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)


_LOCKED: Final = (
    "another process has kept the session store {path} locked for too long: try again, or end that process"
)
_MESSAGES: Final[dict[int, str]] = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_FULL: (
        "the disk of the session store {path} is full: free some space; nothing written so far is lost"
    ),
    sqlite3.SQLITE_NOTADB: "{path} is not a session store: move it away, or give another path",
    sqlite3.SQLITE_CORRUPT: (
        "the session store {path} is damaged: move it away to begin a new one "
        "(`sqlite3 {path} .recover` may save the old one's content)"
    ),
    sqlite3.SQLITE_READONLY: (
        "the session store {path} cannot be written to: "
        "make the file and its folder writable, or give another path"
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "the session store {path} cannot be opened: "
        "check that its folder exists and is yours, or give another path"
    ),
    sqlite3.SQLITE_PERM: (
        "the session store {path} cannot be opened: check that it is yours, or give another path"
    ),
}


def _is_write_error(error: BaseException) -> bool:
    """Return whether opening failed because the file or its folder cannot be written to."""
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
    return isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)


def _message(path: Path, error: Any) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    message = _MESSAGES.get(code, "the session store {path} failed: {error}; try again, or give another path")
    return message.format(path=path, error=error).replace("give another path", _other_place(path))


def _other_place(path: Path) -> str:
    """What to do to use another file."""
    return f"set {HOME_VARIABLE} to another folder" if path.parent == data_dir() else "give another path"


PAGE_BYTES: Final[int] = 4096
CHECKPOINT_PAGES: Final[int] = 1000
"""A checkpoint starts when the write-ahead log has grown by about this many pages."""

_CLOSE_SECONDS: Final = 10.0  # how long `close` waits for a running checkpoint


class Checkpoints:
    """Moves the write-ahead log of one file into the database, in a thread because the disk is slow."""

    def __init__(self, path: Path, pages: int = CHECKPOINT_PAGES) -> None:
        self._path = path
        self._limit = pages
        self._pages = 0
        self._thread: threading.Thread | None = None

    def count(self, size: int) -> None:
        """Count a commit of about `size` bytes."""
        self._pages += 3 + size // PAGE_BYTES  # a commit touches a few pages however little it adds
        if self._pages >= self._limit:
            self.start()

    def start(self) -> None:
        """Start a checkpoint unless one is running."""
        if self._thread is None or not self._thread.is_alive():
            self._pages = 0
            self._thread = threading.Thread(
                target=self._checkpoint, name="accord-store-checkpoint", daemon=True
            )
            try:
                self._thread.start()
            except RuntimeError:
                self._thread = None  # no thread can start now; a later commit tries again

    def close(self) -> None:
        """Wait for a running checkpoint, at most `_CLOSE_SECONDS`."""
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)
            self._thread = None

    def _checkpoint(self) -> None:
        # If a checkpoint fails, the write-ahead log grows until the next one succeeds.
        with suppress(sqlite3.Error), closing(sqlite3.connect(self._path, timeout=0)) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
