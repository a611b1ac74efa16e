"""The gateway's own log of every session, in the store of this machine: written before clients see anything,
replayed when a client joins.

A session whose log cannot be opened is refused, for example because another gateway writes to it. A log that
cannot be written later is reported once. That never stops a turn, but no answer reaches an agent without its
record.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from hashlib import blake2b
from logging import getLogger
from typing import Any, Final, NamedTuple, cast

from accord.errors import InvalidRequest, NotFound, StoreError, UsageError
from accord.frontend.recording import RecordedSession, RecordedSessions
from accord.gateway.contracts import OnCommit, SessionNode, SessionOwner, close_open_items
from accord.gateway.log_pages import LogPages
from accord.gateway.running_gateways import list_running_gateways
from accord.schema import SessionUpdate
from accord.schema.codec import to_builtins
from accord.session import Event
from accord.store import Journal, SessionSummary, Store, iso_time, open_store, store_path

LOG = getLogger("accord.gateway")

STORE_NAME: Final = "gateway"
_MAX_UNWRITTEN: Final = 4096
"""Records of one session that are kept while the store cannot be written."""


class _Note(NamedTuple):
    """A record of the gateway's own kind that is not written yet."""

    kind: str
    value: Any


class FileBook:
    """The logs of all sessions of all agents."""

    def __init__(self, store: Store) -> None:
        self.store: Store = store
        self.records: RecordedSessions = RecordedSessions(store)
        self.uncommitted: bool = False
        self.names: None = None
        """Agents name their sessions."""
        self._error: StoreError | None = None
        self._unwritten: list[FileSessionLog] = []
        self._waiting: list[OnCommit] = []

    @staticmethod
    def open() -> "FileBook":
        """Open the user's store. Raises StoreError."""
        return FileBook(open_store(store_path(STORE_NAME)))

    def open_log(
        self,
        agent: str,
        session_id: str,
        cwd: str,
        additional_folders: Iterable[str] = (),
        *,
        new: bool = False,
    ) -> "FileSessionLog":
        if new:
            self._free_session_id(agent, session_id)
        try:
            journal = self.records.journal(
                session_id, agent=agent, cwd=cwd, additional_directories=tuple(additional_folders)
            )
        except StoreError as error:
            self.require_unowned(agent, session_id)
            raise _not_logged(agent, session_id, error) from None
        return FileSessionLog(self, agent, session_id, journal)

    def find(self, agent: str, session_id: str) -> RecordedSession | None:
        try:
            return self.records.find(session_id, agent=agent)
        except StoreError as error:
            LOG.error("%s", error)
            return None

    def pages(
        self, agent: str | None = None, cwd: str | None = None, before: int | None = None
    ) -> Iterator[Sequence[RecordedSession]]:
        try:
            yield from self.records.pages(cwd, agent=agent, before=before)
        except StoreError as error:
            LOG.error("%s", error)

    async def delete(self, agent: str, session_id: str) -> bool:
        recorded = self.find(agent, session_id)
        return recorded is not None and self.records.delete(recorded)

    def owners(self) -> dict[str, SessionOwner]:
        try:
            leases = {id: lease for id, lease in self.store.writers().items() if not lease.ours}
        except StoreError as error:
            LOG.error("%s", error)
            return {}
        urls = {gateway.pid: gateway.url for gateway in list_running_gateways()} if leases else {}
        return {
            id: SessionOwner(lease.pid, iso_time(lease.since), urls.get(lease.pid))
            for id, lease in leases.items()
        }

    def node_of(self, agent: str, session_id: str) -> SessionNode | None:
        return None

    def require_unowned(self, agent: str, session_id: str) -> None:
        recorded = self.find(agent, session_id)
        owner = None if recorded is None else self.owners().get(recorded.summary.session_id)
        if owner is not None:
            raise InvalidRequest(
                f"session {session_id} is open in {owner}; use it there, or close it there first",
                {"sessionId": session_id, "owner": to_builtins(owner)},
            )

    def _free_session_id(self, agent: str, session_id: str) -> None:
        """Move the stored log with this id to another id, because a new session uses the id.

        Raises InvalidRequest if that fails, for example while another gateway writes to that log.
        """
        recorded = self.find(agent, session_id)
        if recorded is None:
            return
        self.require_unowned(agent, session_id)
        summary = recorded.summary
        copy_id = f"{summary.session_id}~{summary.created}"
        try:
            self.store.fork(
                summary.session_id, copy_id, additional_directories=summary.additional_directories
            )
            try:
                self.store.delete(summary.session_id)
            except StoreError:
                self.store.delete(copy_id)
                raise
        except (StoreError, UsageError) as error:
            raise _not_logged(agent, session_id, error) from None

    def commit(self) -> None:
        try:
            if self._error is not None:
                self.store.commit()  # the records of the commit that failed come first
            unwritten, self._unwritten = self._unwritten, []
            for log in unwritten:
                log.write()
            self.store.commit()
        except StoreError as error:
            if self._error is None:
                LOG.error("cannot write the session logs: %s", error)
            self._error = error
            for log in self._unwritten:
                log.drop_pending(beyond=_MAX_UNWRITTEN)
        else:
            self._error = None
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for then in waiting:
                then(self._error)

    def add_unwritten(self, log: "FileSessionLog") -> None:
        """Remember a log that has pending records."""
        self._unwritten.append(log)

    def when_committed(self, then: OnCommit) -> None:
        """Call `then` with the outcome of the next commit."""
        self._waiting.append(then)

    @property
    def error(self) -> StoreError | None:
        """Why the last commit failed; None if it succeeded."""
        return self._error

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        """Commit and close the store. Raises StoreError."""
        self.commit()
        self.store.close()


def _not_logged(agent: str, session_id: str, error: Exception) -> InvalidRequest:
    LOG.error("cannot log session %s of %s: %s", session_id, agent, error)
    return InvalidRequest(
        f"session {session_id} is refused because it cannot be logged: {error}", {"sessionId": session_id}
    )


class FileSessionLog:
    """The log of one session."""

    __slots__ = ("_agent", "_book", "_pending", "_session_id", "epoch", "id", "journal")

    def __init__(self, book: FileBook, agent: str, session_id: str, journal: Journal) -> None:
        self._book = book
        self._agent = agent
        self._session_id = session_id
        self.journal: Journal | None = journal
        self._pending: list[Event | SessionUpdate | _Note] = []
        self.id: str = blake2b(journal.session_id.encode(), digest_size=8).hexdigest()
        self.epoch: int = journal.committed + 1  # grows: everything that is named by it has a record

    @property
    def noted(self) -> int:
        return self.committed + len(self._pending)

    @property
    def committed(self) -> int:
        return 0 if self.journal is None else self.journal.committed

    def append(self, *items: Event | SessionUpdate, by: str = "") -> None:
        if not self._pending:
            self._book.add_unwritten(self)
        self._pending += items

    def append_one(self, item: Event | SessionUpdate) -> None:
        if not self._pending:
            self._book.add_unwritten(self)
        self._pending.append(item)

    def note(self, kind: str, value: Any) -> None:
        if not self._pending:
            self._book.add_unwritten(self)
        self._pending.append(_Note(kind, value))

    def change_entry(self, *, title: str | None = None, archived: bool | None = None) -> None:
        self._book.commit()
        if self.journal is None:
            raise StoreError(f"session {self._session_id} is no longer logged")
        store, stored_id = self._book.store, self.journal.session_id
        if title is not None:
            store.set_title(stored_id, title)
        if archived is not None:
            (store.archive if archived else store.unarchive)(stored_id)

    def when(self, number: int, then: OnCommit) -> None:
        if number <= self.committed:
            then(None)
        elif self._pending:
            self._book.when_committed(then)
        else:
            then(self._book.error or StoreError(f"session {self._session_id} is no longer logged"))

    def write(self) -> None:
        """Pass the pending records to the store; the caller commits. Raises StoreError."""
        pending, self._pending = self._pending, []
        if self.journal is None:
            return
        if _Note in set(map(type, pending)):
            for item in pending:
                if isinstance(item, _Note):
                    self.journal.record(item.kind, item.value)
                else:
                    self.journal.append(item)
        else:
            self.journal.append(*cast("list[Event | SessionUpdate]", pending))

    def drop_pending(self, beyond: int = 0) -> None:
        """Drop the latest records that are not written, beyond a number."""
        del self._pending[beyond:]

    async def claim(self) -> list[Event]:
        if self.noted == 0:
            return []  # a new log
        return await close_open_items(self)

    @property
    def summary(self) -> SessionSummary | None:
        self._book.commit()
        recorded = self._book.find(self._agent, self._session_id)
        return recorded.summary if recorded else None

    def reader(self, after: int = 0) -> "FileLogReader":
        self._book.commit()
        return FileLogReader(self._book, self._book.find(self._agent, self._session_id), after)

    def close(self) -> None:
        self._book.commit()
        journal, self.journal = self.journal, None
        if journal is not None:
            try:
                journal.close()
            except StoreError as error:
                LOG.error("session %s: %s", self._session_id, error)


class FileLogReader(LogPages):
    """Reads the log of a session."""

    def __init__(self, book: FileBook, recorded: RecordedSession | None, after: int = 0) -> None:
        super().__init__(after)
        self._book = book
        self._stored_id = recorded.summary.session_id if recorded is not None else None
        self._last_read = after

    async def read_state(self) -> None:
        """Apply everything so far to `state`. Raises StoreError."""
        async for _ in self._new_events():
            pass

    async def _read_new(self) -> list[Event]:
        return [event async for event in self._new_events()]

    async def _new_events(self) -> AsyncIterator[Event]:
        """Yield the events since the last read until there are no more, and let other tasks run between."""
        if self._stored_id is None:
            return
        try:
            while True:
                self._book.commit()
                last = self._book.store.last(self._stored_id)
                if last <= self._last_read:
                    return
                events = self._book.store.events(self._stored_id, self._last_read)
                for event in events:  # one record can take as long as a whole slice
                    yield self.state.apply(event)
                    await self._slice.pause_if_due()
                self._last_read = last
        except NotFound:
            return
