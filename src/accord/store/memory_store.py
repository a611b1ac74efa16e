"""A store in memory, for tests and for programs that do not save sessions: SQLite without a file.

Imported on first use.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from accord.store.database import Checkpoints, Database, upgrade
from accord.store.session_summary import now_micros
from accord.store.sqlite_store import Leases, SqliteStore


class SharedMemory(Database):
    """The content that several memory stores share, as several processes share a file."""

    def __init__(self) -> None:
        self.path: Path = Path(":memory:")
        self.read_only: bool = False
        self.connection: sqlite3.Connection = sqlite3.connect(":memory:", isolation_level=None)
        upgrade(self.connection)
        self.owners: set[str] = set()
        """The open stores that have written."""

    def close(self) -> None:
        """Do nothing: another store may share the content."""


class MemoryLeases(Leases):
    """The leases in a shared memory. An owner is alive until it is closed."""

    def __init__(self, memory: SharedMemory) -> None:
        super().__init__(memory.path)
        self._owners = memory.owners

    def close(self) -> None:
        self._owners.discard(self._token)
        self._token = ""

    def is_alive(self, owner: str) -> bool:
        return owner in self._owners

    def _register_owner(self) -> None:
        self._token = self._token or uuid4().hex
        self._owners.add(self._token)


class NoCheckpoints(Checkpoints):
    """A memory has no write-ahead log."""

    def start(self) -> None:
        pass


class MemoryStore(SqliteStore):
    """A store in memory. Stores with the same `SharedMemory` see the same sessions."""

    def __init__(self, memory: SharedMemory | None = None, *, now: Callable[[], int] = now_micros) -> None:
        memory = memory or SharedMemory()
        self._attach(memory, MemoryLeases(memory), NoCheckpoints(memory.path), now)
