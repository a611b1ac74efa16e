"""What a client remembers of the sessions it drove: a log of each, in a store of its own, beside the agent's.

An agent that cannot list or load its sessions leaves only this. Two agents may well use the same session id, so a log is
kept under the agent's name and the id. Recording never costs a turn: what cannot be written is told once and left out.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, get_args

from accord.client.client_events import ClientEvent
from accord.client.client_session import ClientSession
from accord.errors import NotFound, StoreError
from accord.paths import private_folder
from accord.session import Event
from accord.store import Journal, SessionSummary, Store, open_store, store_path

NAME: Final = "client"
"""The name of the store."""

_LOGGED: Final = frozenset(kind for kind in get_args(Event) if isinstance(kind, type))


class RecordedSession(NamedTuple):
    """One session of one agent, as it was recorded."""

    agent: str
    """The agent's name in `acp.json`, or its command."""
    session_id: str
    """The agent's own id of it."""
    head: SessionSummary
    """What a list shows: folder, title, times. Its `session_id` is the key in the store."""


class RecordedSessions:
    """All recorded sessions. Every method may raise StoreError."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @staticmethod
    def open() -> "RecordedSessions":
        """The user's own."""
        path = store_path(NAME)
        private_folder(path.parent)
        return RecordedSessions(open_store(path))

    def list(self, cwd: str | None = None, *, agent: str | None = None) -> Iterator[RecordedSession]:
        """Those of a folder and an agent, or all; the ones used last first."""
        cursor: str | None = None
        while True:
            page = self.store.list(cwd, agent=agent, archived="include", cursor=cursor)
            yield from map(_recorded, page.sessions)
            cursor = page.next_cursor
            if cursor is None:
                return

    def newest(self, cwd: str, *, agent: str) -> RecordedSession | None:
        """The session of this folder and agent that was used last."""
        return next(self.list(cwd, agent=agent), None)

    def find(self, session_id: str, *, agent: str) -> RecordedSession | None:
        """A session by its agent and the agent's id of it; None if it was never recorded."""
        try:
            return _recorded(self.store.summary(_key(agent, session_id)))
        except NotFound:
            return None

    def events(self, recorded: RecordedSession) -> Iterator[Event]:
        """Everything that happened in it, as far as it happened here."""
        return self.store.events(recorded.head.session_id)

    def delete(self, recorded: RecordedSession) -> bool:
        """Forget it; whether it was there. Raises SessionInUse while somebody records it."""
        return self.store.delete(recorded.head.session_id)

    def journal(
        self, session_id: str, *, agent: str, cwd: str, additional_directories: tuple[str, ...] = ()
    ) -> Journal:
        """The log of a session, open for writing; begun if there was none. Raises SessionInUse."""
        key = _key(agent, session_id)
        try:
            return self.store.journal(key)
        except NotFound:
            self.store.create(key, cwd, additional_directories=additional_directories, agent=agent)
            return self.store.journal(key)

    def record(
        self, session: ClientSession, *, agent: str, failed: Callable[[str], None]
    ) -> "SessionRecording":
        """Write down what happens in a session from now on. `failed` is told, once, when that cannot be done."""
        return SessionRecording(self.store, session, agent, failed)

    def close(self) -> None:
        """Commit, and let the store go."""
        self.store.close()


class SessionRecording:
    """The log of one session being written. Give it every event of the session, in order."""

    def __init__(
        self, store: Store, session: ClientSession, agent: str, failed: Callable[[str], None]
    ) -> None:
        self._failed = failed
        self._journal: Journal | None = None
        try:
            self._journal, known = _journal(store, session, agent)
            whole = session.state.snapshot()
            self._journal.append(*(whole[:1] if known else whole))  # the first says how it was opened
        except StoreError as error:
            self._give_up(error)

    def take(self, event: ClientEvent) -> None:
        """One event; what is not the session's own is left out."""
        if self._journal is None or type(event) not in _LOGGED:
            return
        item: Any = event
        try:
            self._journal.append(item)
        except StoreError as error:
            self._give_up(error)

    def close(self) -> None:
        """Write what is left."""
        journal, self._journal = self._journal, None
        if journal is not None:
            try:
                journal.close()
            except StoreError as error:
                self._give_up(error)

    def _give_up(self, error: StoreError) -> None:
        self._journal = None
        self._failed(f"this session is not recorded: {error}")


class Recorder:
    """The records, and the log of the session that is driven now. What cannot be done is told, and costs nothing else."""

    def __init__(self, agent: str, failed: Callable[[str], None]) -> None:
        self.records: RecordedSessions | None = None
        """None where they cannot be opened."""
        self.recording: SessionRecording | None = None
        self._agent = agent
        self._failed = failed
        try:
            self.records = RecordedSessions.open()
        except StoreError as error:
            failed(f"this session is not recorded: {error}")

    def begin(self, session: ClientSession) -> None:
        """Write down what happens in this session from now on, and no longer in the one before."""
        if self.recording is not None:
            self.recording.close()
        if self.records is not None:
            self.recording = self.records.record(session, agent=self._agent, failed=self._failed)

    def close(self) -> None:
        """Write what is left, and let the store go."""
        if self.recording is not None:
            self.recording.close()
        if self.records is not None:
            try:
                self.records.close()
            except StoreError as error:
                self._failed(str(error))


def _journal(store: Store, session: ClientSession, agent: str) -> tuple[Journal, bool]:
    """The log of a session, and whether there was one before."""
    key = _key(agent, session.id)
    try:
        return store.journal(key), True
    except NotFound:
        store.create(key, session.cwd, additional_directories=session.additional_directories, agent=agent)
        return store.journal(key), False


def _key(agent: str, session_id: str) -> str:
    return f"{agent}/{session_id}"


def _recorded(head: SessionSummary) -> RecordedSession:
    return RecordedSession(head.agent, head.session_id.removeprefix(f"{head.agent}/"), head)
