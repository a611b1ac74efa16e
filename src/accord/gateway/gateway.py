"""The gateway: agents on one side, clients on the other, the sessions between.

What one read of an agent brought is logged in one transaction and then sent, encoded once for everybody who is attached.
Nothing here waits for a client: a line that is slow is the front's to cut off.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from logging import getLogger
from typing import Any, Final, cast

from msgspec import UNSET, Raw

from accord.client.terminals import TerminalPrinted
from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import AccordError, InvalidParams, MethodNotFound, NotFound, RpcError, to_rpc_error
from accord.gateway.access.audit import Audit
from accord.gateway.access.limits import Lease, Meter
from accord.gateway.access.passes import Pass
from accord.gateway.asks import WAITING, Ask, Asks
from accord.gateway.hosted import AgentSource, HostedAgent
from accord.gateway.line import Line, Outgoing
from accord.gateway.logbook import Logbook
from accord.gateway.methods import Methods
from accord.gateway.methods.vendor import item_of
from accord.gateway.metrics import Metrics
from accord.gateway.official import plain
from accord.gateway.sessions import LiveSession, Sessions
from accord.gateway.upstream import CANCEL_REQUEST, Upstream
from accord.gateway.visitor import Visitor
from accord.gateway.workplace import SERVED, Workplace
from accord.schema import (
    CloseSessionRequest,
    CompactionSummaryChunk,
    CompactionUpdate,
    ElicitationFormMode,
    ElicitationUrlMode,
    Notice,
    SessionNotification,
    SessionUpdate,
)
from accord.schema.codec import encode
from accord.schema.dialects.names import Alias
from accord.schema.methods import notification, request
from accord.session import turn_failed
from accord.store import iso_time
from accord.wire.envelope import RequestId
from accord.wire.transport import End

LOG = getLogger("accord.gateway")

IDLE: Final = 15 * 60.0
"""Seconds after which an agent that nobody needs is ended."""

_ORPHANS_MOST: Final = 256
_EVERY: Final = 30.0
_GATED: Final = frozenset({Notice, CompactionUpdate, CompactionSummaryChunk})


class Gateway:
    """Made with the agents it offers; `aclose` ends them all."""

    def __init__(
        self,
        sources: Sequence[AgentSource],
        book: Logbook,
        *,
        meter: Meter | None = None,
        audit: Audit | None = None,
        metrics: Metrics | None = None,
        idle: float = IDLE,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        assert sources, "a gateway offers one agent at least"
        self.agents = {source.name: HostedAgent(source, self, clock) for source in sources}
        self.default_agent = next(iter(self.agents.values()))
        self.sessions = Sessions(book)
        self.asks = Asks(self._ask_told)
        self.methods = Methods()
        self.meter = meter or Meter()
        self.audit = audit or Audit()
        self.metrics = metrics or Metrics()
        self.visitors: list[Visitor] = []
        self._clock = clock
        self._idle = idle
        self._queue: list[tuple[Iterable[Visitor], Outgoing, str | None]] = []
        self._flushing = False
        self._opening: dict[tuple[str, str], asyncio.Lock] = {}
        self._orphans: dict[tuple[str, str], list[tuple[SessionNotification, bytes]]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._watch: Any = None

    # -- clients ------------------------------------------------------------------------------------------------

    def open(self, line: Line, visa: Pass, agent: str | None) -> Visitor:
        """The other end of a new line. Raises NotFound for an agent that is not here, or not for this token."""
        hosted = self.agents.get(agent) if agent is not None else self._default_for(visa)
        if hosted is None or not visa.may_use(hosted.name):
            raise NotFound(
                f"there is no agent {agent!r} here" if agent else "there is no agent for this token"
            )
        visitor = Visitor(self, line, visa, hosted)
        self.visitors.append(visitor)
        self.audit.record(visa, "connect", agent=hosted.name, connection=line.id)
        if self._watch is None:
            self._watch = self._clock.call_later(_EVERY, self._look_around)
        return visitor

    def _default_for(self, visa: Pass) -> HostedAgent | None:
        if visa.may_use(self.default_agent.name):
            return self.default_agent
        return next((agent for agent in self.agents.values() if visa.may_use(agent.name)), None)

    def left(self, visitor: Visitor) -> None:
        """A client is gone for good; what it asked for goes on."""
        if visitor in self.visitors:
            self.visitors.remove(visitor)
        for session in tuple(visitor.sessions.values()):
            self.detach(visitor, session)
        self.asks.leave(visitor)
        self.audit.record(visitor.visa, "disconnect", connection=visitor.line.id)
        self.flush()

    def attach(self, visitor: Visitor, session: LiveSession) -> None:
        """From now on it sees what happens in the session, and what waits in it."""
        visitor.sessions[session.id] = session
        if visitor not in session.visitors:
            session.visitors = (*session.visitors, visitor)
            self.audit.record(visitor.visa, "attach", agent=session.agent.name, session=session.id)
        for ask in tuple(session.asks.values()):
            self.asks.show(ask, visitor)
        self.changed(session)

    def detach(self, visitor: Visitor, session: LiveSession) -> None:
        """It sees no more of the session."""
        visitor.sessions.pop(session.id, None)
        session.visitors = tuple(other for other in session.visitors if other is not visitor)
        self.asks.leave(visitor, session)
        self.changed(session)

    # -- sending ------------------------------------------------------------------------------------------------

    def post(self, visitors: Iterable[Visitor], frame: Outgoing, stream: str | None) -> None:
        """Send a frame to these, once everything logged before it is in the file."""
        self._queue.append((visitors, frame, stream))
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write the log, then send what waits for it."""
        self._flushing = False
        queue, self._queue = self._queue, []
        self.sessions.book.commit()
        for visitors, frame, stream in queue:
            for visitor in visitors:
                if visitor.here:
                    visitor.line.send(frame, stream)

    batch_over = flush

    def tell(self, session: LiveSession, update: SessionUpdate, visitors: Iterable[Visitor]) -> Outgoing:
        """Send an update of our own to some of those attached."""
        body = encode(SessionNotification(session.id, update))
        frame = Outgoing(b'{"jsonrpc":"2.0","method":"session/update","params":%s}' % body)
        self.post(tuple(visitors), frame, session.id)
        return frame

    def unsent_of(self, visitor: Visitor) -> int:
        """Bytes that wait for this client, those not yet handed to its line included."""
        return visitor.line.unsent + sum([len(frame.body) for _, frame, _ in self._queue])

    async def drained(self, visitor: Visitor, below: int) -> None:
        """Return once less is unsent to this client, or it is gone."""
        pause = 0.001
        while visitor.here and visitor.line.unsent > below:
            await self._clock.sleep(pause)
            pause = min(pause * 2, 0.1)

    def shows(self, visitor: Visitor, update: object) -> bool:
        """Whether this client wants updates of this kind: some are sent only to those who said so."""
        kind = type(update)
        if kind not in _GATED:
            return True
        session = visitor.capabilities.session if visitor.capabilities else None
        if not session:
            return False
        said = session.notices if kind is Notice else session.compaction
        return said is not UNSET and said is not None

    # -- what agents say ----------------------------------------------------------------------------------------

    def update(self, agent: HostedAgent, notification: SessionNotification, frame: bytes) -> None:
        """An update: into the log, and to everybody attached."""
        session = self.sessions.find(agent.name, notification.session_id)
        if session is None:
            self._orphan(agent, notification, frame)
            return
        if session.silent:
            return
        out = Outgoing(frame)
        echo = session.heard(notification, out)
        visitors: Sequence[Visitor] = session.visitors
        if session.loader is not None:
            visitors = (session.loader,)
        elif echo:
            visitors = ()
        if type(notification.update) in _GATED:
            visitors = tuple(visitor for visitor in visitors if self.shows(visitor, notification.update))
        if visitors:
            self._queue.append((visitors, out, session.id))

    def _orphan(self, agent: HostedAgent, notification: SessionNotification, frame: bytes) -> None:
        """Some agents speak of a session before they have named it: kept until they do."""
        if sum(map(len, self._orphans.values())) < _ORPHANS_MOST:
            kept = self._orphans.setdefault((agent.name, notification.session_id), [])
            kept.append((notification, frame))

    def adopt(self, agent: HostedAgent, session: LiveSession) -> None:
        """A session got its name: what was said of it before is heard now."""
        for said, frame in self._orphans.pop(session.key, ()):
            self.update(agent, said, frame)

    def requested(
        self, agent: HostedAgent, id: RequestId, method: str, params: Raw | None, alias: Alias | None
    ) -> None:
        """A request of an agent: files and terminals are served here, all else by whoever is attached."""
        upstream = agent.upstream
        if upstream is None:
            return
        try:
            entry = request("client", method)
            if entry is None and not method.startswith("_"):
                raise MethodNotFound(data={"method": method})
            body, value = plain(params) if entry is None else upstream.official.params(entry, params, alias)
            if method in SERVED:
                self._serve(agent, upstream, id, method, value)
            else:
                self._ask(agent, upstream, id, method, body, value)
        except RpcError as error:
            upstream.refuse(id, error)

    def _serve(self, agent: HostedAgent, upstream: Upstream, id: RequestId, method: str, value: Any) -> None:
        session = self._session(agent, value.session_id)
        place = session.workplace
        if place is None or place.folders != session.folders:
            if place is not None:
                self.own(place.aclose())

            def printed(event: TerminalPrinted) -> None:
                self._printed(session, event)

            place = session.workplace = Workplace(session.folders, printed)

        async def work() -> None:
            try:
                result = encode(await SERVED[method](place, value))
            except Exception as error:  # noqa: BLE001 - the boundary of a request: whatever it was, it is answered
                upstream.refuse(id, to_rpc_error(error))
            else:
                upstream.answer(id, result)

        place.run(work())

    def _ask(
        self, agent: HostedAgent, upstream: Upstream, id: RequestId, method: str, body: bytes, value: Any
    ) -> None:
        if isinstance(value, ElicitationFormMode | ElicitationUrlMode) and not value.session_id:
            for visitor in self.visitors:
                own = visitor.client_id(upstream, value.request_id)
                if own is not None:
                    value.request_id = own
                    self.asks.put(None, upstream, id, method, encode(value), value, [visitor])
                    return
            raise InvalidParams("the request that this question belongs to is not open")
        named = _members(value).get("sessionId") or getattr(value, "session_id", None)
        if not isinstance(named, str):
            raise MethodNotFound(data={"method": method})
        session = self._session(agent, named)
        self.asks.put(session, upstream, id, method, body, value, list(session.visitors))
        self.changed(session)

    def notified(self, agent: HostedAgent, method: str, params: Raw | None, frame: bytes) -> None:
        """Any other notification: to those it concerns."""
        try:
            value = plain(params).value
        except RpcError:
            return
        facts = _members(value)
        if method == CANCEL_REQUEST:
            upstream = agent.upstream
            asked = facts.get("requestId")
            if upstream is not None and isinstance(asked, int | str):
                self.asks.withdraw(asked, upstream)
            return
        if not method.startswith("_") and notification("client", method) is None:
            LOG.info("agent %s sent an unknown notification: %s", agent.name, method)
            return
        named = facts.get("sessionId")
        session = self.sessions.find(agent.name, named) if isinstance(named, str) else None
        if session is not None:
            self.post(session.visitors, Outgoing(frame), session.id)
        elif named is None:
            here = tuple(
                visitor for visitor in self.visitors if visitor.agent is agent and visitor.capabilities
            )
            self.post(here, Outgoing(frame), None)

    def process(self, agent: HostedAgent) -> Lease:
        """A program is about to be started. Raises LimitReached."""
        return self.meter.process(agent.name)

    def agent_ended(self, agent: HostedAgent, end: End) -> None:
        """Its sessions are no longer live, and nobody waits for it any more. The prompts were answered before this."""
        for session in self.sessions.of(agent):
            session.live = False
            session.silent, session.loading, session.loader = False, None, None
            while session.turns:
                session.end_turn(turn_failed(RpcError(end.reason)))
            for ask in tuple(session.asks.values()):
                self.asks.lost(ask.upstream, "the agent ended")
            if session.workplace is not None:
                self.own(session.workplace.aclose())
                session.workplace = None
            self.changed(session)
        for key in [key for key in self._orphans if key[0] == agent.name]:
            del self._orphans[key]
        self.flush()

    def _session(self, agent: HostedAgent, session_id: str) -> LiveSession:
        session = self.sessions.find(agent.name, session_id)
        if session is None:
            raise NotFound("There is no such session", {"sessionId": session_id})
        return session

    def _printed(self, session: LiveSession, event: TerminalPrinted) -> None:
        knowing = tuple(visitor for visitor in session.visitors if visitor.announced.get("terminal"))
        if knowing:
            facts = {"sessionId": session.id, "terminalId": event.terminal_id, "data": event.text}
            body = b'{"jsonrpc":"2.0","method":"_accord/terminal","params":%s}' % encode(facts)
            self.post(knowing, Outgoing(body), session.id)

    # -- the inbox and the overview -----------------------------------------------------------------------------

    def in_inbox_of(self, visitor: Visitor, ask: Ask) -> bool:
        """Whether this client may see it and answer it."""
        session = ask.session
        if ask.method not in WAITING or session is None or visitor.visa.read_only:
            return False
        return visitor.visa.may_use(session.agent.name) and visitor.visa.may_enter(session.cwd)

    def _ask_told(self, ask: Ask, here: bool, reason: str) -> None:
        self.metrics.pending_approvals = sum(1 for other in self.asks if other.method in WAITING)
        if here:
            params = b'{"added":%s}' % item_of(ask)
        else:
            params = encode({"removed": {"id": str(ask.number), "reason": reason}})
        told = tuple(
            visitor for visitor in self.visitors if visitor.wants_inbox and self.in_inbox_of(visitor, ask)
        )
        if told:
            frame = Outgoing(b'{"jsonrpc":"2.0","method":"_accord/inbox","params":%s}' % params)
            self.post(told, frame, None)
        if ask.session is not None:
            self.changed(ask.session)

    def overview(self, visa: Pass) -> list[dict[str, Any]]:
        """All sessions that were ever here and that the token covers, the ones used last first."""
        self.sessions.book.commit()
        told: list[dict[str, Any]] = []
        for recorded in self.sessions.book.list():
            agent = self.agents.get(recorded.agent)
            if agent is None or not visa.may_use(agent.name) or not visa.may_enter(recorded.head.cwd):
                continue
            session = self.sessions.find(agent.name, recorded.session_id)
            told.append(
                _line(
                    agent.name,
                    recorded.session_id,
                    recorded.head.cwd,
                    (session.title if session else None) or recorded.head.title,
                    iso_time(recorded.head.updated),
                    session,
                )
            )
        return told

    def changed(self, session: LiveSession) -> None:
        """Tell those who watch the sessions how this one stands."""
        self.metrics.sessions.clear()
        self.metrics.sessions.update(each.state for each in self.sessions)
        told = tuple(
            visitor
            for visitor in self.visitors
            if visitor.wants_sessions
            and visitor.visa.may_use(session.agent.name)
            and visitor.visa.may_enter(session.cwd)
        )
        if told:
            head = session.log.head
            updated = iso_time(head.updated) if head is not None else None
            title = session.title or (head.title if head is not None else None)
            entry = _line(session.agent.name, session.id, session.cwd, title, updated, session)
            body = b'{"jsonrpc":"2.0","method":"_accord/sessions","params":%s}' % encode({"changed": entry})
            self.post(told, Outgoing(body), None)

    def removed(self, agent: str, session_id: str, cwd: str | None) -> None:
        """Tell those who watch the sessions that one is no more."""
        params = encode({"removed": {"agent": agent, "sessionId": session_id}})
        told = tuple(
            visitor
            for visitor in self.visitors
            if visitor.wants_sessions
            and visitor.visa.may_use(agent)
            and (cwd is None or visitor.visa.may_enter(cwd))
        )
        if told:
            body = b'{"jsonrpc":"2.0","method":"_accord/sessions","params":%s}' % params
            self.post(told, Outgoing(body), None)

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

    async def close_session(self, session: LiveSession) -> None:
        """Nobody needs it: end what runs in it, and let the agent forget it."""
        upstream = session.agent.upstream
        if upstream is not None and session.live:
            if session.turns:
                upstream.notify("session/cancel", encode({"sessionId": session.id}))
            self.asks.dismiss(session, "the session was closed")
            if session.agent.offers("session/close"):
                try:
                    await upstream.ask("session/close", CloseSessionRequest(session.id))
                except AccordError as error:
                    self.note("session %s of %s was not closed: %s", session.id, session.agent.name, error)
                session.live = False
        await self._put_away(session)
        self.changed(session)

    async def drop_session(self, session: LiveSession) -> None:
        """It is deleted: everybody is detached from it."""
        self.asks.dismiss(session, "the session was deleted")
        for visitor in session.visitors:
            self.detach(visitor, session)
        await self._put_away(session)
        self.sessions.forget(session)

    async def _put_away(self, session: LiveSession) -> None:
        if session.lease is not None:
            session.lease.release()
            session.lease = None
        place, session.workplace = session.workplace, None
        if place is not None:
            await place.aclose()

    def _look_around(self) -> None:
        """End agents that nobody has needed for long."""
        self._watch = self._clock.call_later(_EVERY, self._look_around)
        now = self._clock.now()
        for agent in self.agents.values():
            upstream = agent.upstream
            if upstream is None or now - agent.used < self._idle or upstream.busy or agent.running_turns:
                continue
            sessions = [session for session in self.sessions.of(agent) if session.live]
            waiting = any(session.asks or session.turns for session in sessions)
            needed = any(session.visitors for session in sessions)
            lasting = agent.offers("session/load") or agent.offers("session/resume")
            if not waiting and (lasting or not needed):
                LOG.info("agent %s has been idle: it is ended", agent.name)
                self.own(agent.stop())

    @property
    def busy(self) -> bool:
        """Whether any turn runs."""
        return any(session.turns for session in self.sessions)

    async def aclose(self) -> None:
        """End every agent. Bounded; lines are the front's to end."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        await asyncio.gather(*(agent.stop() for agent in self.agents.values()))
        for session in self.sessions:
            await self._put_away(session)
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.flush()
        for session in self.sessions:
            self.sessions.forget(session)

    def own(self, work: Any) -> None:
        """Start some work that belongs to nobody else."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def note(self, text: str, *facts: object) -> None:
        """Write a line of the gateway's log."""
        LOG.warning(text, *facts)


def _members(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


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
