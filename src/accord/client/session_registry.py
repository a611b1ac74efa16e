"""Open, load, resume and fork sessions; find a session by id.

A new session is registered while its response is read, in wire order, so that no update of it gets lost. A
session that is loaded is registered before the request, because its replay comes before the response. Some
agents send the first updates before they answer `session/new`: updates for an unknown session are kept,
within a bound, until a response names it.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from accord.client import agent_connection
from accord.client.agent_connection import InitializedConnection
from accord.client.client_events import SessionLost, SessionReattached
from accord.client.event_stream import UnreadCounter
from accord.client.session_core import SessionCore, SessionSetup
from accord.errors import BadAnswer, LimitReached, NotFound, NotOffered, RpcError
from accord.schema import SessionNotification
from accord.schema.message_reader import SplitUpdate
from accord.session import ReplayEnded, ReplayStarted

if TYPE_CHECKING:
    from accord.client.agent_handle import AgentHandle

_EARLY_BYTES: Final = 4 * 1024 * 1024
_EARLY_UPDATES: Final = 10_000


class SessionRegistry:
    """The open sessions of one agent by id."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.unread: UnreadCounter = UnreadCounter()
        """Counts the unread events of all sessions."""
        self._report = report
        self._sessions: dict[str, SessionCore] = {}
        self._early: deque[tuple[SessionNotification, int]] = deque()
        self._early_bytes = 0

    def __iter__(self) -> Iterator[SessionCore]:
        return iter(list(self._sessions.values()))

    def find(self, session_id: str) -> SessionCore | None:
        """The open session with this id."""
        return self._sessions.get(session_id)

    def get(self, session_id: str) -> SessionCore:
        """The session that a request of the agent names; raises NotFound."""
        session = self._sessions.get(session_id)
        if session is None:
            raise NotFound("Session not found", {"sessionId": session_id})
        return session

    def active(self) -> str | None:
        """The id of the session whose turn runs; None if no turn runs, or several."""
        running = [session.id for session in self._sessions.values() if session.turn is not None]
        return running[0] if len(running) == 1 else None

    def add(self, session: SessionCore) -> None:
        """Register a session and give it the updates that arrived before."""
        self._sessions[session.id] = session
        if not self._early:
            return
        early, self._early, self._early_bytes = self._early, deque(), 0
        for notification, size in early:
            if notification.session_id == session.id:
                session.receive(notification.update, size)
            else:
                self._keep(notification, size)

    def remove(self, session: SessionCore) -> None:
        """Remove a session."""
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]

    def update(self, notification: SessionNotification | SplitUpdate) -> None:
        """Pass a `session/update` to its session. Called in wire order."""
        if isinstance(notification, SplitUpdate):
            for part in notification:
                self.update(part)
            return
        receiver = self.unread.receiver
        self.receive(notification, 0 if receiver is None else receiver.frame_size)

    def receive(self, notification: SessionNotification, size: int) -> None:
        """The same for a notification from a message of `size` bytes."""
        session = self._sessions.get(notification.session_id)
        if session is not None:
            session.receive(notification.update, size)
        else:
            self._keep(notification, size)

    def _keep(self, notification: SessionNotification, size: int) -> None:
        early = self._early
        early.append((notification, size))
        self._early_bytes += size
        while self._early_bytes > _EARLY_BYTES or len(early) > _EARLY_UPDATES:
            dropped, dropped_size = early.popleft()
            self._early_bytes -= dropped_size
            self._report(f"dropped an update of the unknown session {dropped.session_id!r}")


async def new_session(handle: "AgentHandle", setup: SessionSetup) -> SessionCore:
    """Call `session/new`."""
    connection = await _checked_connection(handle, "session/new", setup)
    read = _register_new(handle, connection, "session/new", setup)
    return await connection.call("session/new", setup.new_request(), read=read)


async def fork_session(handle: "AgentHandle", source: str, setup: SessionSetup) -> SessionCore:
    """Call `session/fork`. Unstable."""
    connection = await _checked_connection(handle, "session/fork", setup)
    read = _register_new(handle, connection, "session/fork", setup)
    return await connection.call("session/fork", setup.fork_request(source), read=read, key=source)


async def load_session(handle: "AgentHandle", session_id: str, setup: SessionSetup) -> SessionCore:
    """Call `session/load`: the agent replays the history into the session's state."""
    return await _reopen_session(handle, "session/load", _load, session_id, setup)


async def resume_session(handle: "AgentHandle", session_id: str, setup: SessionSetup) -> SessionCore:
    """Call `session/resume`: the session continues without a replay."""
    return await _reopen_session(handle, "session/resume", _resume, session_id, setup)


async def _reopen_session(
    handle: "AgentHandle",
    method: str,
    reopen: Callable[[SessionCore, InitializedConnection, SessionSetup], Awaitable[None]],
    session_id: str,
    setup: SessionSetup,
) -> SessionCore:
    connection = await _checked_connection(handle, method, setup)
    session = handle.sessions.find(session_id)
    was_open = session is not None
    if session is None:
        session = SessionCore(handle, session_id, setup)
        handle.sessions.add(session)
    try:
        await reopen(session, connection, setup)
    except BaseException:
        if not was_open:
            handle.sessions.remove(session)
        raise
    return session


async def reattach(handle: "AgentHandle", session: SessionCore, connection: InitializedConnection) -> None:
    """Reopen a session on a new connection: by resume, else by load, else it is lost."""
    reason = "the agent offers neither session/resume nor session/load"
    session.turn_requests.resume()  # the stopped turn ended with the old process
    for by, reopen in (("resume", _resume), ("load", _load)):
        method = f"session/{by}"
        try:
            agent_connection.require_method(method, connection.capabilities)
            session.setup.check(connection.capabilities)
            await reopen(session, connection, session.setup)
        except NotOffered:
            continue
        except (RpcError, BadAnswer, LimitReached) as error:
            reason = f"{method}: {error}"
            continue
        event = SessionReattached(session.id, "resume" if by == "resume" else "load")
        session.listeners.put(event)
        handle.put_event(event)
        return
    session.lost_reason = reason
    lost = SessionLost(session.id, reason)
    session.listeners.put(lost)
    handle.put_event(lost)
    # Remove it from the registry: the agent may give the same id to the next session.
    await session.end("it was lost when the agent was restarted")


async def _checked_connection(
    handle: "AgentHandle", method: str, setup: SessionSetup
) -> InitializedConnection:
    connection = await handle.ready()
    agent_connection.require_method(method, connection.capabilities)
    setup.check(connection.capabilities)
    agent_connection.require_valid("session/new", setup.new_request())
    return connection


def _register_new(
    handle: "AgentHandle", connection: InitializedConnection, method: str, setup: SessionSetup
) -> Callable[[Raw], SessionCore]:
    """A result reader that registers the new session while it reads the response."""
    read_result = connection.result_reader(method)

    def read(raw: Raw) -> SessionCore:
        response = read_result(raw)
        session = handle.sessions.find(response.session_id)
        if session is None:
            session = SessionCore(handle, response.session_id, setup)
        session.open(setup, response)
        handle.sessions.add(session)
        return session

    return read


async def _load(session: SessionCore, connection: InitializedConnection, setup: SessionSetup) -> None:
    read_result = connection.result_reader("session/load")

    def read(raw: Raw) -> Any:
        response = read_result(raw)
        session.replaying = False
        session.publish(ReplayEnded())
        session.open(setup, response)
        return response

    session.replaying = True
    session.publish(ReplayStarted())
    try:
        await connection.streaming_call(
            "session/load",
            setup.load_request(session.id),
            read=read,
            key=session.id,
            suspended=lambda: session.busy,
        )
    finally:
        if session.replaying:
            # The replay failed: restore the history from before it.
            session.replaying = False
            if session.state.history_before_replay is not None:
                session.state.history, session.state.history_before_replay = (
                    session.state.history_before_replay,
                    None,
                )


async def _resume(session: SessionCore, connection: InitializedConnection, setup: SessionSetup) -> None:
    read_result = connection.result_reader("session/resume")

    def read(raw: Raw) -> Any:
        response = read_result(raw)
        session.open(setup, response)
        return response

    await connection.streaming_call(
        "session/resume",
        setup.resume_request(session.id),
        read=read,
        key=session.id,
        suspended=lambda: session.busy,
    )
