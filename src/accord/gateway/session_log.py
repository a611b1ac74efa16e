"""The gateway's own log of every session: written before clients see anything, replayed when a client
joins.

A session whose log cannot be opened is refused, for example because another gateway writes to it. A log that
cannot be written later is reported once. That never stops a turn.
"""

from collections.abc import Iterable, Iterator
from logging import getLogger
from typing import Final, cast

from accord.errors import InvalidRequest, NotFound, StoreError, UsageError
from accord.frontend.recording import RecordedSession, RecordedSessions
from accord.gateway.contracts import SessionOwner
from accord.gateway.running_gateways import list_running_gateways
from accord.schema import SessionUpdate
from accord.schema.codec import to_builtins
from accord.session import Event, SessionState
from accord.session.protocol_v1 import updates_of
from accord.store import Journal, SessionSummary, Store, iso_time, open_store, repair, store_path

LOG = getLogger("accord.gateway")

STORE_NAME: Final = "gateway"


class FileBook:
    """The logs of all sessions of all agents."""

    def __init__(self, store: Store) -> None:
        self.store: Store = store
        self.records: RecordedSessions = RecordedSessions(store)
        self._commit_failing = False
        self._unwritten_logs: list[FileSessionLog] = []

    @staticmethod
    def open() -> "FileBook":
        """Open the user's store. Raises StoreError."""
        return FileBook(open_store(store_path(STORE_NAME)))

    def open_log(
        self, agent: str, session_id: str, cwd: str, additional_folders: Iterable[str] = ()
    ) -> "FileSessionLog":
        """Return the log of a session, created if needed. Raises InvalidRequest if it cannot be written."""
        try:
            journal = self.records.journal(
                session_id, agent=agent, cwd=cwd, additional_directories=tuple(additional_folders)
            )
        except StoreError as error:
            self.require_unowned(agent, session_id)
            raise _not_logged(agent, session_id, error) from None
        log = FileSessionLog(self, agent, session_id, journal)
        log.close_open_items()  # a killed gateway left items open
        return log

    def find(self, agent: str, session_id: str) -> RecordedSession | None:
        """Return the stored session; None if there is none."""
        try:
            return self.records.find(session_id, agent=agent)
        except StoreError as error:
            LOG.error("%s", error)
            return None

    def list(self, agent: str | None = None, cwd: str | None = None) -> list[RecordedSession]:
        """List the stored sessions, most recently used first."""
        try:
            return list(self.records.list(cwd, agent=agent))
        except StoreError as error:
            LOG.error("%s", error)
            return []

    def delete(self, agent: str, session_id: str) -> bool:
        """Delete a stored session; return whether it existed."""
        recorded = self.find(agent, session_id)
        return recorded is not None and self.records.delete(recorded)

    def owners(self) -> dict[str, SessionOwner]:
        """Return which sessions another process writes to, by the id in the store."""
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

    def require_unowned(self, agent: str, session_id: str) -> None:
        """Raise InvalidRequest, with the owner, if another process writes to the session."""
        recorded = self.find(agent, session_id)
        owner = None if recorded is None else self.owners().get(recorded.summary.session_id)
        if owner is not None:
            raise InvalidRequest(
                f"session {session_id} is open in {owner}; use it there, or close it there first",
                {"sessionId": session_id, "owner": to_builtins(owner)},
            )

    def free_session_id(self, agent: str, session_id: str) -> None:
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
        """Write and commit all pending events."""
        if self._unwritten_logs:
            unwritten, self._unwritten_logs = self._unwritten_logs, []
            for log in unwritten:
                log.write()
        try:
            self.store.commit()
        except StoreError as error:
            if not self._commit_failing:
                LOG.error("cannot write the session logs: %s", error)
            self._commit_failing = True
        else:
            self._commit_failing = False

    def add_unwritten(self, log: "FileSessionLog") -> None:
        """Remember a log that has pending events."""
        self._unwritten_logs.append(log)

    def close(self) -> None:
        """Commit and close the store."""
        self.commit()
        self.store.close()


def _not_logged(agent: str, session_id: str, error: Exception) -> InvalidRequest:
    LOG.error("cannot log session %s of %s: %s", session_id, agent, error)
    return InvalidRequest(
        f"session {session_id} is refused because it cannot be logged: {error}", {"sessionId": session_id}
    )


class FileSessionLog:
    """The log of one session. No method raises."""

    __slots__ = ("_agent", "_journal", "_logs", "_pending", "_session_id", "_write_failing")

    def __init__(self, logs: FileBook, agent: str, session_id: str, journal: Journal) -> None:
        self._logs = logs
        self._agent = agent
        self._session_id = session_id
        self._journal: Journal | None = journal
        self._write_failing = False
        self._pending: list[Event | SessionUpdate] = []

    def append(self, *items: Event | SessionUpdate) -> None:
        """Add events; the next commit writes them."""
        if not self._pending:
            self._logs.add_unwritten(self)
        self._pending += items

    def append_one(self, item: Event | SessionUpdate) -> None:
        """Like `append` for one event, on the hot path."""
        if not self._pending:
            self._logs.add_unwritten(self)
        self._pending.append(item)

    def write(self) -> None:
        """Pass the pending events to the store; the caller commits."""
        pending, self._pending = self._pending, []
        if self._journal is None:
            return
        try:
            self._journal.append(*pending)
        except StoreError as error:
            if not self._write_failing:
                LOG.error("cannot log session %s: %s", self._session_id, error)
            self._write_failing = True
        else:
            self._write_failing = False

    def close_open_items(self) -> list[Event]:
        """Close what was left open, such as a tool call, and return the events that were added."""
        if self._journal is None:
            return []
        self._logs.commit()
        try:
            closing = repair(self._logs.store.events(self._journal.session_id)).closing
        except StoreError as error:
            LOG.error("session %s: %s", self._session_id, error)
            return []
        self.append(*closing)
        return closing

    @property
    def summary(self) -> SessionSummary | None:
        """The stored summary; None if there is none."""
        self._logs.commit()
        recorded = self._logs.find(self._agent, self._session_id)
        return recorded.summary if recorded else None

    @property
    def state(self) -> SessionState:
        """The state after all events so far. Reads the whole log."""
        reader = self.reader()
        try:
            reader.read_state()
        except StoreError as error:
            LOG.error("session %s: %s", self._session_id, error)
        return reader.state

    def reader(self) -> "FileLogReader":
        """Return a reader of the log from its beginning."""
        return FileLogReader(self._logs, self._logs.find(self._agent, self._session_id))

    def close(self) -> None:
        """Close the journal, so that another process can write."""
        self._logs.commit()
        journal, self._journal = self._journal, None
        if journal is not None:
            try:
                journal.close()
            except StoreError as error:
                LOG.error("session %s: %s", self._session_id, error)


class FileLogReader:
    """Reads a session's log: the history as few updates, then the new ones."""

    def __init__(self, logs: FileBook, recorded: RecordedSession | None) -> None:
        self.state: SessionState = SessionState()
        self._logs = logs
        self._stored_id = recorded.summary.session_id if recorded is not None else None
        self._last_read = 0

    def history(self) -> Iterator[SessionUpdate]:
        """Yield the history so far. Raises StoreError."""
        self.read_state()
        for event in self.state.history.events():
            yield from cast(list[SessionUpdate], updates_of(event))

    def read_state(self) -> None:
        """Apply the events so far to `state`. Raises StoreError."""
        for _ in self._new_events():
            pass

    def skip_history(self) -> None:
        """Skip everything so far. Raises StoreError."""
        if self._stored_id is not None:
            self._logs.commit()
            try:
                self._last_read = self._logs.store.last(self._stored_id)
            except NotFound:
                return

    def new_updates(self) -> Iterator[SessionUpdate]:
        """Yield the updates since the last read. Raises StoreError."""
        for event in self._new_events():
            yield from cast(list[SessionUpdate], updates_of(event))

    def _new_events(self) -> Iterator[Event]:
        if self._stored_id is None:
            return
        self._logs.commit()
        try:
            last = self._logs.store.last(self._stored_id)
            for event in self._logs.store.events(self._stored_id, self._last_read):
                yield self.state.apply(event)
        except NotFound:
            return
        self._last_read = last
