"""The sessions of one agent, by id: where its updates go, and what its requests are about.

Updates for a session that is not known (yet) are kept, within a bound, until its answer names it: some agents send the
first updates before they answer `session/new`.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from accord.client.inbox import Ledger
from accord.errors import NotFound
from accord.schema import SessionNotification
from accord.schema.reader import Several

if TYPE_CHECKING:
    from accord.client.session import ClientSession

EARLY_BYTES: Final = 4 * 1024 * 1024
EARLY_UPDATES: Final = 10_000


class Sessions:
    """The table."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.ledger = Ledger()
        """What lies unread of them all."""
        self._report = report
        self._known: dict[str, ClientSession] = {}
        self._early: deque[tuple[SessionNotification, int]] = deque()
        self._early_bytes = 0

    def __iter__(self) -> "Iterator[ClientSession]":
        return iter(list(self._known.values()))

    def find(self, session_id: str) -> "ClientSession | None":
        """The session of this id, if it is one of ours."""
        return self._known.get(session_id)

    def get(self, session_id: str) -> "ClientSession":
        """The session that a request of the agent names."""
        session = self._known.get(session_id)
        if session is None:
            raise NotFound("Session not found", {"sessionId": session_id})
        return session

    def active(self) -> str | None:
        """The session of the one running turn; None where there are none or several."""
        running = [session.id for session in self._known.values() if session.running]
        return running[0] if len(running) == 1 else None

    def add(self, session: "ClientSession") -> None:
        """Take a session in, and give it the updates that came before it."""
        self._known[session.id] = session
        if not self._early:
            return
        waiting, self._early, self._early_bytes = self._early, deque(), 0
        for note, size in waiting:
            if note.session_id == session.id:
                session.take(note.update, size)
            else:
                self._keep(note, size)

    def remove(self, session: "ClientSession") -> None:
        """Forget a session; what the agent still sends for it is nobody's."""
        if self._known.get(session.id) is session:
            del self._known[session.id]

    def update(self, note: SessionNotification | Several) -> None:
        """One `session/update`, in its place in the order of the wire."""
        if isinstance(note, Several):
            for part in note:
                self.update(part)
            return
        session = self._known.get(note.session_id)
        wire = self.ledger.wire
        size = 0 if wire is None else wire.frame_size
        if session is not None:
            session.take(note.update, size)
        else:
            self._keep(note, size)

    def _keep(self, note: SessionNotification, size: int) -> None:
        early = self._early
        early.append((note, size))
        self._early_bytes += size
        while self._early_bytes > EARLY_BYTES or len(early) > EARLY_UPDATES:
            dropped, its_size = early.popleft()
            self._early_bytes -= its_size
            self._report(f"dropped an update of the unknown session {dropped.session_id!r}")
