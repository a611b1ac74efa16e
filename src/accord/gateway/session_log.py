"""The gateway's own log of every session: written before anybody is shown anything, read when somebody joins.

A log that cannot be written is told of once, and never stops a turn.
"""

from collections.abc import Iterable, Iterator
from logging import getLogger
from typing import Final, cast

from accord.errors import NotFound, StoreError, UsageError
from accord.frontend.recording import RecordedSession, RecordedSessions
from accord.paths import private_folder
from accord.schema import SessionUpdate
from accord.session import Event, SessionState
from accord.session.protocol_v1 import updates_of
from accord.store import Journal, SessionSummary, Store, open_store, repair, store_path

LOG = getLogger("accord.gateway")

NAME: Final = "gateway"
"""The name of the store."""


class SessionLogs:
    """The logs of all sessions of all agents."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.records = RecordedSessions(store)
        self._failing = False
        self._unwritten: list[SessionLog] = []

    @staticmethod
    def open() -> "SessionLogs":
        """The user's own. Raises StoreError."""
        path = store_path(NAME)
        private_folder(path.parent)
        return SessionLogs(open_store(path))

    def log(
        self, agent: str, session_id: str, cwd: str, additional: Iterable[str] = (), *, kept: bool = True
    ) -> "SessionLog":
        """The log of a session, begun if there is none. One that is not kept has the id of another session's log: it neither
        writes nor reads that.
        """
        journal: Journal | None = None
        if not kept:
            return SessionLog(self, agent, session_id, None, kept=False)
        try:
            journal = self.records.journal(
                session_id, agent=agent, cwd=cwd, additional_directories=tuple(additional)
            )
        except StoreError as error:
            LOG.error("session %s of %s is not logged: %s", session_id, agent, error)
        log = SessionLog(self, agent, session_id, journal)
        log.close_open()  # a gateway that was killed ended nothing
        return log

    def find(self, agent: str, session_id: str) -> RecordedSession | None:
        """What is known of a session that was here once."""
        try:
            return self.records.find(session_id, agent=agent)
        except StoreError as error:
            LOG.error("%s", error)
            return None

    def list(self, agent: str | None = None, cwd: str | None = None) -> list[RecordedSession]:
        """All that were here, the ones used last first."""
        try:
            return list(self.records.list(cwd, agent=agent))
        except StoreError as error:
            LOG.error("%s", error)
            return []

    def delete(self, agent: str, session_id: str) -> bool:
        """Forget one; whether it was there."""
        known = self.find(agent, session_id)
        return known is not None and self.records.delete(known)

    def set_aside(self, agent: str, session_id: str) -> bool:
        """Another session begins under this id: what was logged under it is kept under an id of its own. Whether the id is
        free now; it is not while another gateway writes there.
        """
        known = self.find(agent, session_id)
        if known is None:
            return True
        head = known.head
        aside = f"{head.session_id}~{head.created}"
        try:
            self.store.fork(head.session_id, aside, additional_directories=head.additional_directories)
            try:
                self.store.delete(head.session_id)
            except StoreError:
                self.store.delete(aside)
                raise
        except (StoreError, UsageError) as error:
            LOG.error("session %s of %s is not logged, its id is another one's: %s", session_id, agent, error)
            return False
        return True

    def commit(self) -> None:
        """Write what was noted in any log."""
        if self._unwritten:
            unwritten, self._unwritten = self._unwritten, []
            for log in unwritten:
                log.write()
        try:
            self.store.commit()
        except StoreError as error:
            if not self._failing:
                LOG.error("sessions are not logged at the moment: %s", error)
            self._failing = True
        else:
            self._failing = False

    def unwritten(self, log: "SessionLog") -> None:
        """This log has something to write."""
        self._unwritten.append(log)

    def close(self) -> None:
        """Commit, and let the store go."""
        self.commit()
        self.store.close()


class SessionLog:
    """The log of one session. Nothing here raises."""

    __slots__ = ("_agent", "_book", "_failed", "_journal", "_noted", "_session_id", "kept")

    def __init__(
        self, book: SessionLogs, agent: str, session_id: str, journal: Journal | None, *, kept: bool = True
    ) -> None:
        self.kept = kept
        """Whether what the store has under this id is of this session."""
        self._book = book
        self._agent = agent
        self._session_id = session_id
        self._journal = journal
        self._failed = False
        self._noted: list[Event | SessionUpdate] = []

    def append(self, *items: Event | SessionUpdate) -> None:
        """Note what happens; it is in the file after the next commit."""
        if not self._noted:
            self._book.unwritten(self)
        self._noted += items

    def note(self, item: Event | SessionUpdate) -> None:
        """The same for one, as fast as it can be."""
        if not self._noted:
            self._book.unwritten(self)
        self._noted.append(item)

    def write(self) -> None:
        """Hand what was noted to the store, all at once; it is committed next."""
        noted, self._noted = self._noted, []
        if self._journal is None:
            return
        try:
            self._journal.append(*noted)
        except StoreError as error:
            if not self._failed:
                LOG.error("session %s is not logged: %s", self._session_id, error)
            self._failed = True
        else:
            self._failed = False

    def close_open(self) -> list[Event]:
        """Nobody works on it any more: what was left open, such as a tool call, is closed in the log. Gives what was added."""
        if self._journal is None:
            return []
        self._book.commit()
        try:
            closing = repair(self._book.store.events(self._journal.session_id)).closing
        except StoreError as error:
            LOG.error("session %s: %s", self._session_id, error)
            return []
        self.append(*closing)
        return closing

    @property
    def head(self) -> SessionSummary | None:
        """What a list shows of it."""
        self._book.commit()
        known = self._book.find(self._agent, self._session_id) if self.kept else None
        return known.head if known else None

    def reading(self) -> "SessionLogReader":
        """Everything that happened so far, and then what happens on."""
        return SessionLogReader(
            self._book, self._book.find(self._agent, self._session_id) if self.kept else None
        )

    def close(self) -> None:
        """Let others write to it."""
        self._book.commit()
        journal, self._journal = self._journal, None
        if journal is not None:
            try:
                journal.close()
            except StoreError as error:
                LOG.error("session %s: %s", self._session_id, error)


class SessionLogReader:
    """A reader of a session's log: first the history in as few updates as say it all, then what came since."""

    def __init__(self, book: SessionLogs, known: RecordedSession | None) -> None:
        self.state = SessionState()
        self._book = book
        self._key = known.head.session_id if known is not None else None
        self._seen = 0

    def history(self) -> Iterator[SessionUpdate]:
        """What happened until now. Raises StoreError."""
        for _ in self._news():
            pass
        for event in self.state.history.events():
            yield from cast(list[SessionUpdate], updates_of(event))

    def skip(self) -> None:
        """Leave out what happened until now. Raises StoreError."""
        if self._key is not None:
            self._book.commit()
            try:
                self._seen = self._book.store.last(self._key)
            except NotFound:
                return

    def more(self) -> Iterator[SessionUpdate]:
        """What happened since; nothing once all has been read. Raises StoreError."""
        for event in self._news():
            yield from cast(list[SessionUpdate], updates_of(event))

    def _news(self) -> Iterator[Event]:
        if self._key is None:
            return
        self._book.commit()
        try:
            last = self._book.store.last(self._key)
            for event in self._book.store.events(self._key, self._seen):
                yield self.state.apply(event)
        except NotFound:
            return
        self._seen = last
