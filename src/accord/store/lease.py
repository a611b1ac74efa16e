"""Who writes to which session: leases in the file, each of an owner that is alive as long as it holds its lock.

An owner is one open store. It keeps a file of its own locked, which the system lets go of when the process ends, however it
ends: no clock, no process number that somebody else may have by now, and it works from one container to the next wherever
SQLite's own locks do. A lease whose owner is dead is taken over.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection
from uuid import uuid4

from accord.errors import SessionInUse
from accord.paths import private_folder
from accord.store.contract import Lease
from accord.store.heads import iso_time


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
