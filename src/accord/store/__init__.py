"""Session logs: the store contract, a store in a SQLite file and a store in memory.

`open_store()` opens the store of the user. Loaded before `initialize` is answered: names are imported on
first use.
"""

import os
from typing import TYPE_CHECKING, Final

from accord.errors import UsageError
from accord.lazy_names import lazy_names
from accord.paths import data_dir

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from accord.store.commit_transport import CommitTransport
    from accord.store.contract import Lease, SessionPage, Store
    from accord.store.journal import Journal
    from accord.store.memory_store import MemoryStore, SharedMemory
    from accord.store.records import (
        EVENT,
        INTERRUPTED,
        SESSION,
        LogRecord,
        ResumedSession,
        repair,
        unfinished,
    )
    from accord.store.session_summary import ForkParent, SessionSummary, iso_time
    from accord.store.sqlite_store import SqliteStore

__all__ = [
    "EVENT", "INTERRUPTED", "SESSION", "CommitTransport", "ForkParent", "Journal", "Lease", "LogRecord",
    "MemoryStore", "ResumedSession", "SessionPage", "SessionSummary", "SharedMemory", "Store", "iso_time",
    "open_store", "repair", "store_path", "unfinished",
]  # fmt: skip

SUFFIX: Final[str] = ".db"


def store_path(name: str = "sessions") -> "Path":
    """The path of a store in the data folder of the user.

    Each program that logs needs its own store: an agent and its client use the same session ids.
    """
    if os.path.basename(name) != name or name in ("", ".", ".."):
        raise UsageError(f"{name!r} is a path, not the name of a store")
    return data_dir() / (name + SUFFIX)


def open_store(path: "Path | str | None" = None, *, durable: bool = False) -> "SqliteStore":
    """Open a store and create it if it is missing. Without a path, open the store of the user.

    A store that cannot be written to, because its file system is read-only, can still be read.

    `durable` waits for the disk at every commit. Raises StoreError, which names the file, if it cannot be
    used.
    """
    from pathlib import Path

    from accord.store.sqlite_store import SqliteStore

    return SqliteStore(Path(path or store_path()).expanduser(), durable=durable)


__getattr__: "Callable[[str], object]" = lazy_names(
    __name__,
    {
        "accord.store.commit_transport": "CommitTransport",
        "accord.store.contract": "Lease SessionPage Store",
        "accord.store.journal": "Journal",
        "accord.store.memory_store": "MemoryStore SharedMemory",
        "accord.store.records": "EVENT LogRecord SESSION INTERRUPTED ResumedSession repair unfinished",
        "accord.store.session_summary": "ForkParent SessionSummary iso_time",
        "accord.store.sqlite_store": "SqliteStore",
    },
)
