"""The gateway object: hosted agents, connected clients and the sessions between them; the inbox and session
overview.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from logging import getLogger
from typing import Any, Final, TypeVar

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import AccordError, NotFound
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.resource_limits import GatewayLimitReached, LimitCounter, LimitLease
from accord.gateway.agent_events import AgentEvents
from accord.gateway.client_connection import ClientConnection, OutgoingFrame
from accord.gateway.gateway_client import GatewayClient
from accord.gateway.hosted_agent import AgentSource, HostedAgent
from accord.gateway.live_sessions import LiveSession, LiveSessions
from accord.gateway.methods.method_table import MethodTable
from accord.gateway.metrics import Metrics
from accord.gateway.pending_requests import WAITING, PendingRequest, PendingRequests
from accord.gateway.session_log import SessionLogs
from accord.schema import CloseSessionRequest, SessionNotification, SessionUpdate
from accord.schema.codec import encode
from accord.store import iso_time

# MERGED gateway.overview: What is open over all sessions: the inbox of questions that wait for a person, the list of sessions, and who watches them.


class SessionOverview:
    """The inbox and the list, as each token may see them."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway

    def in_inbox_of(self, visitor: GatewayClient, ask: PendingRequest) -> bool:
        """Whether this client may see it and answer it."""
        session = ask.session
        if ask.method not in WAITING or session is None or visitor.visa.read_only:
            return False
        return visitor.visa.covers(session.agent.name, session.folders)

    def ask_told(self, ask: PendingRequest, here: bool, reason: str) -> None:
        self._gateway.metrics.pending_approvals = sum(
            1 for other in self._gateway.asks if other.method in WAITING
        )
        if here:
            params = b'{"added":%s}' % ask.item
        else:
            params = encode({"removed": {"id": str(ask.number), "reason": reason}})
        told = tuple(
            visitor
            for visitor in self._gateway.visitors
            if visitor.wants_inbox and self.in_inbox_of(visitor, ask)
        )
        if told:
            frame = OutgoingFrame(b'{"jsonrpc":"2.0","method":"_accord/inbox","params":%s}' % params)
            self._gateway.post(told, frame, None)
        if ask.session is not None:
            self.changed(ask.session)

    def sessions(self, visa: TokenRights) -> list[dict[str, Any]]:
        """All sessions that were ever here and that the token covers, the ones used last first."""
        self._gateway.sessions.book.commit()
        told: list[dict[str, Any]] = []
        for recorded in self._gateway.sessions.book.list():
            agent = self._gateway.agents.get(recorded.agent)
            if agent is None:
                continue
            session = self._gateway.sessions.find(agent.name, recorded.session_id)
            if session is not None and not session.log.kept:
                session = None  # it only has the same id
            head = recorded.head
            folders = session.folders if session else (head.cwd, *head.additional_directories)
            if not visa.covers(agent.name, folders):
                continue
            told.append(
                _line(
                    agent.name,
                    recorded.session_id,
                    folders[0],
                    (session.title if session else None) or head.title,
                    iso_time(head.updated),
                    session,
                )
            )
        return told

    def changed(self, session: LiveSession) -> None:
        """Tell those who watch the sessions how this one stands."""
        self._gateway.metrics.sessions.clear()
        self._gateway.metrics.sessions.update(each.state for each in self._gateway.sessions)
        told = tuple(
            visitor
            for visitor in self._gateway.visitors
            if visitor.wants_sessions and visitor.visa.covers(session.agent.name, session.folders)
        )
        if told:
            head = session.log.head
            updated = iso_time(head.updated) if head is not None else None
            title = session.title or (head.title if head is not None else None)
            entry = _line(session.agent.name, session.id, session.cwd, title, updated, session)
            body = b'{"jsonrpc":"2.0","method":"_accord/sessions","params":%s}' % encode({"changed": entry})
            self._gateway.post(told, OutgoingFrame(body), None)

    def removed(self, agent: str, session_id: str, folders: Sequence[str]) -> None:
        """Tell those who watch the sessions that one is no more."""
        params = encode({"removed": {"agent": agent, "sessionId": session_id}})
        told = tuple(
            visitor
            for visitor in self._gateway.visitors
            if visitor.wants_sessions and visitor.visa.covers(agent, folders)
        )
        if told:
            body = b'{"jsonrpc":"2.0","method":"_accord/sessions","params":%s}' % params
            self._gateway.post(told, OutgoingFrame(body), None)


def _line(
    agent: str, session_id: str, cwd: str, title: str | None, updated: str | None, session: LiveSession | None
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "agent": agent,
        "sessionId": session_id,
        "cwd": cwd,
        "state": session.state if session is not None else "idle",
        "clients": len(session.visitors) if session is not None else 0,
        "live": session.live if session is not None else False,
    }
    if title:
        told["title"] = title
    if updated:
        told["updatedAt"] = updated
    return told


# MERGED gateway.gateway: The gateway: agents on one side, clients on the other, the sessions between.
#
# What one read of an agent brought is logged in one transaction and then sent, encoded once for everybody who is attached.
# Nothing here waits for a client: a line that is slow is the front's to cut off.

T = TypeVar("T")

LOG = getLogger("accord.gateway")

IDLE: Final = 15 * 60.0
"""Seconds after which an agent that nobody needs is ended."""

_EVERY: Final = 30.0


class Gateway:
    """Made with the agents it offers; `aclose` ends them all."""

    def __init__(
        self,
        sources: Sequence[AgentSource],
        book: SessionLogs,
        *,
        meter: LimitCounter | None = None,
        audit: AuditLog | None = None,
        metrics: Metrics | None = None,
        idle: float = IDLE,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        assert sources, "a gateway offers one agent at least"
        self.hearing = AgentEvents(self)
        self.agents = {source.name: HostedAgent(source, self.hearing, clock) for source in sources}
        self.default_agent = next(iter(self.agents.values()))
        self.sessions = LiveSessions(book)
        self.overview = SessionOverview(self)
        self.asks = PendingRequests(self.overview.ask_told)
        self.methods = MethodTable()
        self.meter = meter or LimitCounter()
        self.audit = audit or AuditLog()
        self.metrics = metrics or Metrics()
        self.visitors: list[GatewayClient] = []
        self.stopping = False
        """Whether it only waits for the running turns to end."""
        self.clock = clock
        self._idle = idle
        self._queue: list[tuple[Iterable[GatewayClient], OutgoingFrame, str | None]] = []
        self._flushing = False
        self._opening: dict[tuple[str, str], asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._watch: Any = None

    # -- clients ------------------------------------------------------------------------------------------------

    def open(self, line: ClientConnection, visa: TokenRights, agent: str | None) -> GatewayClient:
        """The other end of a new line. Raises NotFound for an agent that is not here, or not for this token."""
        hosted = self.agents.get(agent) if agent is not None else self._default_for(visa)
        if hosted is None or not visa.may_use(hosted.name):
            raise NotFound(
                f"there is no agent {agent!r} here" if agent else "there is no agent for this token"
            )
        visitor = GatewayClient(self, line, visa, hosted)
        self.visitors.append(visitor)
        self.audit.record(visa, "connect", agent=hosted.name, connection=line.id)
        if self._watch is None:
            self._watch = self.clock.call_later(_EVERY, self._look_around)
        return visitor

    def _default_for(self, visa: TokenRights) -> HostedAgent | None:
        if visa.may_use(self.default_agent.name):
            return self.default_agent
        return next((agent for agent in self.agents.values() if visa.may_use(agent.name)), None)

    def left(self, visitor: GatewayClient) -> None:
        """A client is gone for good; what it asked for goes on."""
        if visitor in self.visitors:
            self.visitors.remove(visitor)
        for session in tuple(visitor.sessions.values()):
            self.detach(visitor, session)
        self.asks.leave(visitor)
        self.audit.record(visitor.visa, "disconnect", connection=visitor.line.id)
        self.flush()

    def attach(self, visitor: GatewayClient, session: LiveSession) -> None:
        """From now on it sees what happens in the session, and what waits in it; unless it has left meanwhile."""
        if not visitor.here:
            session.left = self.clock.now()
            return
        visitor.sessions[session.id] = session
        if visitor not in session.visitors:
            session.visitors = (*session.visitors, visitor)
            self.audit.record(visitor.visa, "attach", agent=session.agent.name, session=session.id)
        for ask in tuple(session.asks.values()):
            self.asks.show(ask, visitor)
        self.overview.changed(session)

    def detach(self, visitor: GatewayClient, session: LiveSession) -> None:
        """It sees no more of the session."""
        visitor.sessions.pop(session.id, None)
        session.visitors = tuple(other for other in session.visitors if other is not visitor)
        self.asks.leave(visitor, session)
        session.left = self.clock.now()
        self.overview.changed(session)

    def move(self, session: LiveSession, additional: tuple[str, ...]) -> None:
        """It gets other additional folders: clients whose token does not cover them see no more of it."""
        session.additional = additional
        for visitor in session.visitors:
            if not visitor.visa.covers(session.agent.name, session.folders):
                self.detach(visitor, session)

    # -- sending ------------------------------------------------------------------------------------------------

    def post(self, visitors: Iterable[GatewayClient], frame: OutgoingFrame, stream: str | None) -> None:
        """Send a frame to these, once everything logged before it is in the file."""
        self._queue.append((visitors, frame, stream))
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    def later(self, visitors: Iterable[GatewayClient], frame: OutgoingFrame, stream: str | None) -> None:
        """The same within a batch, whose end flushes."""
        self._queue.append((visitors, frame, stream))

    def flush(self) -> None:
        """Write the log, then send what waits for it."""
        self._flushing = False
        queue, self._queue = self._queue, []
        self.sessions.book.commit()
        for visitors, frame, stream in queue:
            for visitor in visitors:
                if visitor.here:
                    visitor.line.send(frame, stream)

    def tell(
        self, session: LiveSession, update: SessionUpdate, visitors: Iterable[GatewayClient]
    ) -> OutgoingFrame:
        """Send an update of our own to some of those attached, as each of them takes it."""
        frame = _update(session, update)
        for visitor in visitors:
            told = visitor.fitting(update)
            self.post((visitor,), frame if told is update else _update(session, told), session.id)
        return frame

    async def drained(self, visitor: GatewayClient, below: int) -> None:
        """Return once less is unsent to this client, or it is gone."""
        pause = 0.001
        while visitor.here and visitor.line.unsent > below:
            await self.clock.sleep(pause)
            pause = min(pause * 2, 0.1)

    # -- sessions and agents that end ---------------------------------------------------------------------------

    @asynccontextmanager
    async def opening(self, agent: str, session_id: str) -> AsyncGenerator[None]:
        """One at a time opens a session."""
        key = (agent, session_id)
        lock = self._opening.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked() and self._opening.get(key) is lock and not getattr(lock, "_waiters", None):
                del self._opening[key]

    def begin(
        self, agent: HostedAgent, session_id: str, cwd: str, additional: tuple[str, ...]
    ) -> LiveSession:
        """The agent has named a new session. If the name was another one's, as with agents that count from one at each
        start, that one is set aside: who saw it does not see this one, and neither is its log continued.
        """
        old = self.sessions.find(agent.name, session_id)
        if old is not None:
            if old.live and old.folders == (cwd, *additional):
                return old  # one session for everybody, says the agent
            self._disband(old, "the agent began another session under this name")
            self.own(self._put_away(old))
            self.sessions.forget(old)
        logged = self.sessions.book.set_aside(agent.name, session_id)
        return self.sessions.add(agent, session_id, cwd, additional, logged=logged)

    async def room(self, visa: TokenRights) -> LimitLease:
        """A place for one more live session. Where there is none left, sessions that can be loaded again and that nobody uses
        are closed, the longest unused first. Raises LimitReached.
        """
        while True:
            try:
                return self.meter.session(visa)
            except GatewayLimitReached:
                unused = [
                    session
                    for session in self.sessions
                    if session.lease is not None and session.unused and session.agent.lasting
                ]
                if not unused:
                    raise
                own = [session for session in unused if session.opener == visa.token]
                session = min(own or unused, key=lambda one: one.left)
                session.uncount()
                await self.close_session(session)

    async def close_session(self, session: LiveSession) -> None:
        """Nobody needs it: end what runs in it, and let the agent forget it."""
        upstream = session.agent.upstream
        if upstream is not None and session.live:
            self.cancel(session, "the session was closed")
            if session.agent.offers("session/close"):
                try:
                    await upstream.ask("session/close", CloseSessionRequest(session.id))
                except AccordError as error:
                    self.note("session %s of %s was not closed: %s", session.id, session.agent.name, error)
                session.live = False
        await self._put_away(session)
        self.overview.changed(session)

    def cancel(self, session: LiveSession, reason: str) -> None:
        """What runs in it is to stop, and what waits for an answer is answered so."""
        upstream = session.agent.upstream
        if upstream is not None and session.live and session.turns:
            upstream.notify("session/cancel", encode({"sessionId": session.id}))
        self.asks.dismiss(session, reason)

    async def drop_session(self, session: LiveSession) -> None:
        """It is deleted: everybody is detached from it."""
        self._disband(session, "the session was deleted")
        await self._put_away(session)
        self.sessions.forget(session)

    def _disband(self, session: LiveSession, reason: str) -> None:
        self.asks.dismiss(session, reason)
        for visitor in session.visitors:
            self.detach(visitor, session)

    async def _put_away(self, session: LiveSession) -> None:
        session.uncount()
        place, session.workplace = session.workplace, None
        if place is not None:
            await place.aclose()

    def _look_around(self) -> None:
        """End agents that nobody has needed for long."""
        self._watch = self.clock.call_later(_EVERY, self._look_around)
        now = self.clock.now()
        for agent in self.agents.values():
            upstream = agent.upstream
            if upstream is None or now - agent.used < self._idle or upstream.busy or agent.running_turns:
                continue
            sessions = [session for session in self.sessions.of(agent) if session.live]
            waiting = any(session.asks or session.turns for session in sessions)
            needed = any(session.visitors for session in sessions)
            if not waiting and (agent.lasting or not needed):
                LOG.info("agent %s has been idle: it is ended", agent.name)
                self.own(agent.stop())
        for session in self.sessions:
            if session.unused and not session.live and session.key not in self._opening:
                self.sessions.forget(session)

    @property
    def busy(self) -> bool:
        """Whether any turn runs."""
        return any(session.turns for session in self.sessions)

    async def aclose(self) -> None:
        """End every agent. Bounded; lines are the front's to end."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        await asyncio.gather(*(agent.stop(for_good=True) for agent in self.agents.values()))
        for session in self.sessions:
            await self._put_away(session)
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.flush()
        for session in self.sessions:
            self.sessions.forget(session)

    def own(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start some work that belongs to nobody else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work to its end, also if whoever wanted it leaves meanwhile."""
        return await asyncio.shield(self.own(work))

    def note(self, text: str, *facts: object) -> None:
        """Write a line of the gateway's log."""
        LOG.warning(text, *facts)


def _update(session: LiveSession, update: SessionUpdate) -> OutgoingFrame:
    body = encode(SessionNotification(session.id, update))
    return OutgoingFrame(b'{"jsonrpc":"2.0","method":"session/update","params":%s}' % body)
