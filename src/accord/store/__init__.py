"""Session logs: the contract of a store, the store in a file, and one in memory.

`open_store()` gives the user's. Names are imported on first use: a program that has no session yet does not pay for them.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from accord.errors import UsageError
from accord.paths import data_dir, private_folder

if TYPE_CHECKING:
    from pathlib import Path

    from accord.store.contract import Lease, Page, Store
    from accord.store.gate import CommitFirst
    from accord.store.heads import Head, Parent, iso_time
    from accord.store.journal import Journal
    from accord.store.memory import MemoryStore, Shelf
    from accord.store.records import EVENT, SESSION, LogRecord
    from accord.store.repairing import INTERRUPTED, Repaired, repair, unfinished
    from accord.store.sqlite import SqliteStore

__all__ = [
    "EVENT",
    "INTERRUPTED",
    "SESSION",
    "CommitFirst",
    "Head",
    "Journal",
    "Lease",
    "LogRecord",
    "MemoryStore",
    "Page",
    "Parent",
    "Repaired",
    "Shelf",
    "Store",
    "iso_time",
    "open_store",
    "repair",
    "store_path",
    "unfinished",
]

SUFFIX: Final = ".db"

_HOMES: Final = {
    "contract": "Lease Page Store",
    "gate": "CommitFirst",
    "heads": "Head Parent iso_time",
    "journal": "Journal",
    "memory": "MemoryStore Shelf",
    "records": "EVENT SESSION LogRecord",
    "repairing": "INTERRUPTED Repaired repair unfinished",
}


def store_path(name: str = "sessions") -> "Path":
    """Where the store of this name lies in the user's data folder. Each program that logs has one of its own: an agent and
    a client that drives it know a session by the same id.
    """
    if os.path.basename(name) != name or name in ("", ".", ".."):
        raise UsageError(f"{name!r} is a path, not the name of a store")
    return data_dir() / (name + SUFFIX)


def open_store(path: "Path | str | None" = None, *, durable: bool = False) -> "SqliteStore":
    """Open a store, made if it is missing; without a path the user's own. `durable` waits for the disk at every commit.

    Raises StoreError, in one line that names the file, if it cannot be used.
    """
    from pathlib import Path

    from accord.store.sqlite import SqliteStore

    if path is None:
        path = store_path()
        private_folder(path.parent)
    return SqliteStore(Path(path).expanduser(), durable=durable)


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
