"""A store's file: opened, recognised and brought up to date, with transactions, and every failure as one clear line."""

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from accord.errors import StoreError, UsageError
from accord.paths import private_file, private_folder
from accord.store.tables import STEPS, upgrade, version_of

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
