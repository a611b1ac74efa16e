"""Moving the write-ahead log into the file, beside the event loop: it waits for the disk, and nobody should wait for it."""

import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

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
