"""Open, load, resume and fork sessions; find a session by id."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from accord.client import agent_connection
from accord.client.agent_connection import InitializedConnection
from accord.client.client_events import SessionLost, SessionReattached
from accord.client.client_session import ClientSession, SessionSetup
from accord.client.event_stream import UnreadCounter
from accord.errors import BadAnswer, LimitReached, NotFound, NotOffered, RpcError
from accord.schema import SessionNotification
from accord.schema.message_reader import SplitUpdate
from accord.session import ReplayEnded, ReplayStarted

if TYPE_CHECKING:
    from accord.client.agent_handle import AgentHandle


# MERGED client.opening: Opening sessions: new, load, resume, fork, and taking them up again after a restart.
#
# A session is in the table the moment its answer is read, in the order of the wire, so that no update of it gets lost. A
# session that is loaded is there before the request, because its replay comes before the answer.


async def new_session(life: "AgentHandle", setup: SessionSetup) -> ClientSession:
    """`session/new`."""
    link = await _checked(life, "session/new", setup)
    return await link.call("session/new", setup.new(), read=_born(life, link, "session/new", setup))


async def fork_session(life: "AgentHandle", source: str, setup: SessionSetup) -> ClientSession:
    """`session/fork`. Unstable."""
    link = await _checked(life, "session/fork", setup)
    read = _born(life, link, "session/fork", setup)
    return await link.call("session/fork", setup.fork(source), read=read, key=source)


async def load_session(life: "AgentHandle", session_id: str, setup: SessionSetup) -> ClientSession:
    """`session/load`: the history is replayed into the session's state."""
    link = await _checked(life, "session/load", setup)
    session, known = _session(life, session_id, setup)
    try:
        await _load(session, link, setup)
    except BaseException:
        if not known:
            life.sessions.remove(session)
        raise
    return session


async def resume_session(life: "AgentHandle", session_id: str, setup: SessionSetup) -> ClientSession:
    """`session/resume`: the session goes on, without a replay."""
    link = await _checked(life, "session/resume", setup)
    session, known = _session(life, session_id, setup)
    try:
        await _resume(session, link, setup)
    except BaseException:
        if not known:
            life.sessions.remove(session)
        raise
    return session


async def reattach(life: "AgentHandle", session: ClientSession, link: InitializedConnection) -> None:
    """Take a session up again on a new connection; by resume, else by load, else it is lost."""
    reason = "the agent offers neither session/resume nor session/load"
    for by, take_up in (("resume", _resume), ("load", _load)):
        method = f"session/{by}"
        try:
            agent_connection.require(method, link.capabilities)
            session.setup.check(link.capabilities)
            await take_up(session, link, session.setup)
        except NotOffered:
            continue
        except (RpcError, BadAnswer, LimitReached) as error:
            reason = f"{method}: {error}"
            continue
        event = SessionReattached(session.id, "resume" if by == "resume" else "load")
        session.tell(event)
        life.tell(event)
        return
    session.lost = reason
    lost = SessionLost(session.id, reason)
    session.tell(lost)
    life.tell(lost)
    # Out of the table: the agent has forgotten it, and may well give the same id to the next session.
    await session.shut("it was lost when the agent was restarted")


async def _checked(life: "AgentHandle", method: str, setup: SessionSetup) -> InitializedConnection:
    link = await life.ready()
    agent_connection.require(method, link.capabilities)
    setup.check(link.capabilities)
    agent_connection.insist_on_validity("session/new", setup.new())
    return link


def _session(life: "AgentHandle", session_id: str, setup: SessionSetup) -> tuple[ClientSession, bool]:
    """The session of this id, and whether it was open before."""
    session = life.sessions.find(session_id)
    if session is not None:
        return session, True
    session = ClientSession(life, session_id, setup)
    life.sessions.add(session)
    return session, False


def _born(life: "AgentHandle", link: InitializedConnection, method: str, setup: SessionSetup) -> Any:
    """Reads the answer that names a new session, and puts the session into the table on the spot."""
    result = link.result_of(method)

    def read(raw: Raw) -> ClientSession:
        answer = result(raw)
        session = life.sessions.find(answer.session_id) or ClientSession(life, answer.session_id, setup)
        session.opened(setup, answer)
        life.sessions.add(session)
        return session

    return read


async def _load(session: ClientSession, link: InitializedConnection, setup: SessionSetup) -> None:
    result = link.result_of("session/load")

    def read(raw: Raw) -> Any:
        answer = result(raw)
        session.replaying = False
        session.publish(ReplayEnded())
        session.opened(setup, answer)
        return answer

    session.replaying = True
    session.publish(ReplayStarted())
    try:
        await link.streaming_call(
            "session/load", setup.load(session.id), read=read, key=session.id, still=lambda: session.busy
        )
    finally:
        if session.replaying:
            # It failed half-way: what was known before is more than what came.
            session.replaying = False
            if session.state.set_aside is not None:
                session.state.history, session.state.set_aside = session.state.set_aside, None


async def _resume(session: ClientSession, link: InitializedConnection, setup: SessionSetup) -> None:
    result = link.result_of("session/resume")

    def read(raw: Raw) -> Any:
        answer = result(raw)
        session.opened(setup, answer)
        return answer

    await link.streaming_call(
        "session/resume", setup.resume(session.id), read=read, key=session.id, still=lambda: session.busy
    )


# MERGED client.sessions: The sessions of one agent, by id: where its updates go, and what its requests are about.
#
# Updates for a session that is not known (yet) are kept, within a bound, until its answer names it: some agents send the
# first updates before they answer `session/new`.

EARLY_BYTES: Final = 4 * 1024 * 1024
EARLY_UPDATES: Final = 10_000


class SessionRegistry:
    """The table."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.ledger = UnreadCounter()
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

    def update(self, note: SessionNotification | SplitUpdate) -> None:
        """One `session/update`, in its place in the order of the wire."""
        if isinstance(note, SplitUpdate):
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
