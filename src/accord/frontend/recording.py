"""Records the sessions that a client runs, in the client's own session store.

For an agent that cannot list or load its sessions, this is the only record. Two agents can use the same
session id, so the key of a log is the agent's name and the id. A failure to record is reported once and never
stops a turn.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, get_args

from accord.client.client_events import ClientEvent
from accord.client.client_session import ClientSession
from accord.errors import NotFound, StoreError
from accord.session import Event
from accord.store import Journal, Lease, SessionSummary, Store, open_store, store_path
from accord.store.contract import cursor_at
from accord.trace.redaction import redact_command_line

NAME: Final = "client"
"""The name of the store."""

_RECORDED_TYPES: Final = frozenset(kind for kind in get_args(Event) if isinstance(kind, type))


class RecordedSession(NamedTuple):
    """One recorded session of one agent."""

    agent: str
    """The agent's name in `acp.json`, or its command without secrets."""
    session_id: str
    """The id that the agent gave the session."""
    summary: SessionSummary
    """Directory, title and times. Its `session_id` is the key in the store."""
    writer: Lease | None = None
    """Who records it now."""


class RecordedSessions:
    """All recorded sessions. Every method can raise StoreError."""

    def __init__(self, store: Store) -> None:
        self.store: Store = store

    @staticmethod
    def open() -> "RecordedSessions":
        """Open the user's store."""
        store = open_store(store_path(NAME))
        with suppress(StoreError):  # a file that cannot be written can still be read
            store.rename_agents(redact_command_line)  # older versions stored commands with their keys
        return RecordedSessions(store)

    def list(
        self, cwd: str | None = None, *, agent: str | None = None, used_only: bool = False
    ) -> Iterator[RecordedSession]:
        """The sessions of a directory and an agent, or all; the most recently used first.

        `used_only` leaves out sessions without a prompt.
        """
        for page in self.pages(cwd, agent=agent):
            yield from (recorded for recorded in page if recorded.summary.is_used or not used_only)

    def pages(
        self, cwd: str | None = None, *, agent: str | None = None, before: int | None = None
    ) -> Iterator[Sequence[RecordedSession]]:
        """The same in pages, each read when it is asked for.

        `before`: only those that were last used at this time or earlier.
        """
        cursor = None if before is None else cursor_at(before, cwd, agent=agent, archived="include")
        writers = self.store.writers()
        while True:
            page = self.store.list(cwd, agent=agent, archived="include", cursor=cursor)
            yield [_recorded(summary, writers.get(summary.session_id)) for summary in page.sessions]
            cursor = page.next_cursor
            if cursor is None:
                return

    def newest(self, cwd: str, *, agent: str) -> RecordedSession | None:
        """The most recently used session of this directory and agent."""
        return next(self.list(cwd, agent=agent), None)

    def find(self, session_id: str, *, agent: str) -> RecordedSession | None:
        """The session of an agent with this id; None if it was not recorded."""
        try:
            key = _key(agent, session_id)
            return _recorded(self.store.summary(key), self.store.writer(key))
        except NotFound:
            return None

    def events(self, recorded: RecordedSession) -> Iterator[Event]:
        return self.store.events(recorded.summary.session_id)

    def delete(self, recorded: RecordedSession) -> bool:
        """Delete a recording; return whether it existed. Raises SessionInUse while it is being recorded."""
        return self.store.delete(recorded.summary.session_id)

    def journal(
        self, session_id: str, *, agent: str, cwd: str, additional_directories: tuple[str, ...] = ()
    ) -> Journal:
        """Open the log of a session for writing; create it if needed. Raises SessionInUse."""
        key = _key(agent, session_id)
        try:
            return self.store.journal(key)
        except NotFound:
            self.store.create(key, cwd, additional_directories=additional_directories, agent=agent)
            return self.store.journal(key)

    def record(
        self, session: ClientSession, *, agent: str, failed: Callable[[str], None]
    ) -> "SessionRecording":
        """Record a session from now on. `failed` is called once if that does not work."""
        return SessionRecording(self.store, session, agent, failed)

    def close(self) -> None:
        """Commit and close the store."""
        self.store.close()


class SessionRecording:
    """Writes the log of one session. Call `append` with every event, in order."""

    def __init__(
        self, store: Store, session: ClientSession, agent: str, failed: Callable[[str], None]
    ) -> None:
        self._failed = failed
        self._journal: Journal | None = None
        try:
            self._journal, existed = _journal(store, session, agent)
            events = session.state.snapshot()
            self._journal.append(
                *(events[:1] if existed else events)
            )  # the first event describes how it was opened
        except StoreError as error:
            self._stop(error)

    def append(self, event: ClientEvent) -> None:
        """Record one event; ignores events that are not part of the session."""
        if self._journal is None or type(event) not in _RECORDED_TYPES:
            return
        item: Any = event
        try:
            self._journal.append(item)
        except StoreError as error:
            self._stop(error)

    def close(self) -> None:
        """Write what is pending and close the log."""
        journal, self._journal = self._journal, None
        if journal is not None:
            try:
                journal.close()
            except StoreError as error:
                self._stop(error)

    def _stop(self, error: StoreError) -> None:
        self._journal = None
        self._failed(f"this session is not recorded: {error}")


class Recorder:
    """The recorded sessions and the log of the current session.

    Failures are reported and change nothing else.
    """

    def __init__(self, agent: str, failed: Callable[[str], None]) -> None:
        self.records: RecordedSessions | None = None
        """None if the store cannot be opened."""
        self.recording: SessionRecording | None = None
        self._agent = agent
        self._failed = failed
        self._failure = ""
        try:
            self.records = RecordedSessions.open()
        except StoreError as error:
            # Reported once there is a session: what keeps the agent from opening one is often the same.
            self._failure = f"this session is not recorded: {error}"

    def report_failure(self) -> None:
        """Report once that the store cannot be opened, if so."""
        if self._failure:
            self._failed(self._failure)
            self._failure = ""

    def begin(self, session: ClientSession) -> None:
        """Record this session from now on, and stop recording the previous one."""
        self.report_failure()
        if self.recording is not None:
            self.recording.close()
        if self.records is not None:
            self.recording = self.records.record(session, agent=self._agent, failed=self._failed)

    def close(self) -> None:
        """Write what is pending and close the store."""
        if self.recording is not None:
            self.recording.close()
        if self.records is not None:
            try:
                self.records.close()
            except StoreError as error:
                self._failed(str(error))


def _journal(store: Store, session: ClientSession, agent: str) -> tuple[Journal, bool]:
    """The log of a session, and whether it existed before."""
    key = _key(agent, session.id)
    try:
        return store.journal(key), True
    except NotFound:
        store.create(key, session.cwd, additional_directories=session.additional_directories, agent=agent)
        return store.journal(key), False


def _key(agent: str, session_id: str) -> str:
    return f"{agent}/{session_id}"


def _recorded(summary: SessionSummary, writer: Lease | None) -> RecordedSession:
    agent = redact_command_line(summary.agent)
    return RecordedSession(agent, summary.session_id.removeprefix(f"{summary.agent}/"), summary, writer)
