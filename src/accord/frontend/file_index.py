"""The files of a folder for `@` pickers: read in a thread, searched from memory at every key."""

import asyncio
from itertools import islice
from typing import Final, NamedTuple

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.workspace.file_search import MAX_FILES, NameIndex, paths_of

_MIN_AGE: Final = 5.0
_READING_SHARE: Final = 20
"""A folder is read again after this many times the duration of the last reading."""
_FIRST_PART: Final = 2_000
_FIRST_WAIT: Final = 0.03
"""How long a search waits for a reading that may end soon."""
_PART_WAIT: Final = 0.3
_MAX_FOLDERS: Final = 64


class FileMatches(NamedTuple):
    """What a search found."""

    paths: list[str]
    """Relative to the folder, best match first. Folders end with a slash."""
    complete: bool
    """Whether the whole folder was read; if not, a later search may find more."""


class FileIndex:
    """The names of the files and folders below one folder, without those that git ignores.

    The first search starts a reading in a thread. While it runs, a search finds what was read so far. A later
    search finds the names of the last reading at once and reads the folder again in the background if that
    reading is old.
    """

    def __init__(self, folder: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.folder: str = folder
        self._clock = clock
        self._names = NameIndex(())
        self.complete: bool = False
        """Whether the folder was read once."""
        self._read_at = 0.0
        self._duration = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._closed = False

    async def find(self, query: str, max_results: int = 20) -> FileMatches:
        """Return the best matches. Never waits for a long reading, and does not block the event loop."""
        reading = self.refresh()
        if not self.complete and reading is not None:
            await within(self._clock, _FIRST_WAIT, reading)
        names, complete = self._names, self.complete
        return FileMatches(await asyncio.to_thread(names.best, query, max_results), complete)

    def find_now(self, query: str, max_results: int = 20) -> list[str]:
        """Return the best matches of what was read so far. Takes milliseconds."""
        return self._names.best(query, max_results)

    def refresh(self) -> "asyncio.Task[None] | None":
        """Start a reading if it is time for one. Return the one that runs, if any."""
        if self._reading is not None and not self._reading.done():
            return self._reading
        age = self._clock.now() - self._read_at
        if self.complete and age < max(_MIN_AGE, self._duration * _READING_SHARE):
            return None
        self._reading = asyncio.get_running_loop().create_task(self._read())
        return self._reading

    async def wait_for_more(self) -> None:
        """Wait until the running reading has found more or has ended."""
        if self._reading is not None:
            await within(self._clock, _PART_WAIT, self._reading)

    def close(self) -> None:
        """Let a running reading end soon, so that the program can end."""
        self._closed = True

    async def _read(self) -> None:
        started = self._clock.now()
        try:
            await asyncio.to_thread(self._read_in_thread)
        finally:
            self._read_at = self._clock.now()
            self._duration = self._read_at - started
            self.complete = True

    def _read_in_thread(self) -> None:
        """Read the folder. In the first reading, publish parts that double in size."""
        paths: list[str] = []
        part = _FIRST_PART
        for path in islice(paths_of(self.folder), MAX_FILES):
            paths.append(path)
            if self._closed:
                return
            if len(paths) == part and not self.complete:
                self._names = NameIndex(paths)
                part *= 2
        self._names = NameIndex(paths)


class FileIndexes:
    """One index per folder. Forgets the folder that was searched least recently when there are too many."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._indexes: dict[str, FileIndex] = {}

    def __getitem__(self, folder: str) -> FileIndex:
        index = self._indexes.pop(folder, None) or FileIndex(folder, self._clock)
        self._indexes[folder] = index
        while len(self._indexes) > _MAX_FOLDERS:
            self._indexes.pop(next(iter(self._indexes))).close()
        return index

    def close(self) -> None:
        """Let all running readings end soon."""
        for index in self._indexes.values():
            index.close()
