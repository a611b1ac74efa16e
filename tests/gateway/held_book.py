"""A book whose commits the test controls: slow ones, and ones that fail."""

import asyncio
from typing import Any

from accord.errors import StoreError
from accord.gateway.session_log import FileBook, FileLogReader, FileSessionLog
from accord.schema import AgentMessageChunk
from accord.session import Event
from accord.store import Journal, MemoryStore


class HeldBook(FileBook):
    """Commits at once, until a test holds it."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.may_read: asyncio.Event = asyncio.Event()
        """Set unless a test makes the closing of open items wait."""
        self.may_read.set()

    def open_log(self, *values: Any, **options: Any) -> FileSessionLog:
        log = super().open_log(*values, **options)
        assert log.journal is not None
        return _HeldLog(self, values[0], values[1], log.journal)

    def hold(self) -> None:
        """Begin commits, but do not end them."""
        self.uncommitted = True

    def release(self) -> None:
        """End the commits that were begun, and all later ones at once."""
        self.uncommitted = False
        self.commit()

    def fail(self, reason: str) -> None:
        """Fail the commits that were begun. Their records are lost."""
        unwritten, self._unwritten = self._unwritten, []
        for log in unwritten:
            log.drop_pending()
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(StoreError(reason))

    def commit(self) -> None:
        if not self.uncommitted:
            super().commit()


class _HeldLog(FileSessionLog):
    def __init__(self, book: HeldBook, agent: str, session_id: str, journal: Journal) -> None:
        super().__init__(book, agent, session_id, journal)
        self.may_read: asyncio.Event = book.may_read

    def reader(self, after: int = 0) -> FileLogReader:
        return _HeldReader(self, self._book, self._book.find(self._agent, self._session_id), after)

    @property
    def pending(self) -> list[Any]:
        return self._pending


class _HeldReader(FileLogReader):
    """Reads the texts that wait for a commit as well, as the log of a cluster does."""

    def __init__(self, log: _HeldLog, *values: Any) -> None:
        super().__init__(*values)
        self._log = log
        self._given = 0

    async def read_state(self) -> None:
        await self._log.may_read.wait()
        await super().read_state()

    async def page(self) -> list[Event]:
        if page := await super().page():
            return page
        waiting: list[Event] = [item for item in self._log.pending if isinstance(item, AgentMessageChunk)]
        new, self._given = waiting[self._given :], len(waiting)
        return new
