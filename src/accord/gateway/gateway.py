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
from accord.gateway.pending_requests import USER_REQUESTS, PendingRequest, PendingRequests
from accord.gateway.session_log import SessionLogs
from accord.schema import CloseSessionRequest, SessionNotification, SessionUpdate
from accord.schema.codec import encode
from accord.store import iso_time

# MERGED gateway.overview: What is open over all sessions: the inbox of questions that wait for a person, the list of sessions, and who watches them.


class SessionOverview:
    """The inbox and the list, as each token may see them."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway

    def is_in_inbox(self, client: GatewayClient, pending: PendingRequest) -> bool:
        """Whether this client may see it and answer it."""
        session = pending.session
        if pending.method not in USER_REQUESTS or session is None or client.rights.read_only:
            return False
        return client.rights.covers(session.agent.name, session.folders)

    def on_pending_change(self, pending: PendingRequest, is_pending: bool, reason: str) -> None:
        self._gateway.metrics.pending_approvals = sum(
            1 for other in self._gateway.pending_requests if other.method in USER_REQUESTS
        )
        if is_pending:
            params = b'{"added":%s}' % pending.inbox_item
        else:
            params = encode({"removed": {"id": str(pending.number), "reason": reason}})
        clients = tuple(
            client
            for client in self._gateway.clients
            if client.wants_inbox and self.is_in_inbox(client, pending)
        )
        if clients:
            frame = OutgoingFrame(b'{"jsonrpc":"2.0","method":"_accord/inbox","params":%s}' % params)
            self._gateway.post(clients, frame, None)
        if pending.session is not None:
            self.notify_changed(pending.session)

    def sessions(self, rights: TokenRights) -> list[dict[str, Any]]:
        """All sessions that were ever here and that the token covers, the ones used last first."""
        self._gateway.sessions.logs.commit()
        clients: list[dict[str, Any]] = []
        for recorded in self._gateway.sessions.logs.list():
            agent = self._gateway.agents.get(recorded.agent)
            if agent is None:
                continue
            session = self._gateway.sessions.find(agent.name, recorded.session_id)
            if session is not None and not session.log.is_kept:
                session = None  # it only has the same id
            head = recorded.head
            folders = session.folders if session else (head.cwd, *head.additional_directories)
            if not rights.covers(agent.name, folders):
                continue
            clients.append(
                _session_entry(
                    agent.name,
                    recorded.session_id,
                    folders[0],
                    (session.title if session else None) or head.title,
                    iso_time(head.updated),
                    session,
                )
            )
        return clients

    def notify_changed(self, session: LiveSession) -> None:
        """Tell those who watch the sessions how this one stands."""
        self._gateway.metrics.sessions.clear()
        self._gateway.metrics.sessions.update(session.state for session in self._gateway.sessions)
        clients = tuple(
            client
            for client in self._gateway.clients
            if client.wants_sessions and client.rights.covers(session.agent.name, session.folders)
        )
        if clients:
            head = session.log.summary
            updated = iso_time(head.updated) if head is not None else None
            title = session.title or (head.title if head is not None else None)
            entry = _session_entry(session.agent.name, session.id, session.cwd, title, updated, session)
            body = b'{"jsonrpc":"2.0","method":"_accord/sessions","params":%s}' % encode({"changed": entry})
            self._gateway.post(clients, OutgoingFrame(body), None)

    def notify_removed(self, agent: str, session_id: str, folders: Sequence[str]) -> None:
        """Tell those who watch the sessions that one is no more."""
        params = encode({"removed": {"agent": agent, "sessionId": session_id}})
        clients = tuple(
            client
            for client in self._gateway.clients
            if client.wants_sessions and client.rights.covers(agent, folders)
        )
        if clients:
            body = b'{"jsonrpc":"2.0","method":"_accord/sessions","params":%s}' % params
            self._gateway.post(clients, OutgoingFrame(body), None)


def _session_entry(
    agent: str, session_id: str, cwd: str, title: str | None, updated: str | None, session: LiveSession | None
) -> dict[str, Any]:
    clients: dict[str, Any] = {
        "agent": agent,
        "sessionId": session_id,
        "cwd": cwd,
        "state": session.state if session is not None else "idle",
        "clients": len(session.clients) if session is not None else 0,
        "live": session.live if session is not None else False,
    }
    if title:
        clients["title"] = title
    if updated:
        clients["updatedAt"] = updated
    return clients


# MERGED gateway.gateway: The gateway: agents on one side, clients on the other, the sessions between.
#
# What one read of an agent brought is logged in one transaction and then sent, encoded once for everybody who is attached.
# Nothing here waits for a client: a line that is slow is the front's to cut off.

T = TypeVar("T")

LOG = getLogger("accord.gateway")

IDLE_SECONDS: Final = 15 * 60.0
"""Seconds after which an agent that nobody needs is ended."""

_IDLE_CHECK_SECONDS: Final = 30.0


class Gateway:
    """Made with the agents it offers; `aclose` ends them all."""

    def __init__(
        self,
        sources: Sequence[AgentSource],
        session_logs: SessionLogs,
        *,
        limit_counter: LimitCounter | None = None,
        audit: AuditLog | None = None,
        metrics: Metrics | None = None,
        idle: float = IDLE_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        assert sources, "a gateway offers one agent at least"
        self.agent_events = AgentEvents(self)
        self.agents = {source.name: HostedAgent(source, self.agent_events, clock) for source in sources}
        self.default_agent = next(iter(self.agents.values()))
        self.sessions = LiveSessions(session_logs)
        self.overview = SessionOverview(self)
        self.pending_requests = PendingRequests(self.overview.on_pending_change)
        self.methods = MethodTable()
        self.limit_counter = limit_counter or LimitCounter()
        self.audit = audit or AuditLog()
        self.metrics = metrics or Metrics()
        self.clients: list[GatewayClient] = []
        self.stopping = False
        """Whether it only waits for the running turns to end."""
        self.clock = clock
        self._idle_seconds = idle
        self._queue: list[tuple[Iterable[GatewayClient], OutgoingFrame, str | None]] = []
        self._flushing = False
        self._session_locks: dict[tuple[str, str], asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._idle_timer: Any = None

    # -- clients ------------------------------------------------------------------------------------------------

    def open(self, connection: ClientConnection, rights: TokenRights, agent: str | None) -> GatewayClient:
        """The other end of a new line. Raises NotFound for an agent that is not here, or not for this token."""
        hosted = self.agents.get(agent) if agent is not None else self._default_for(rights)
        if hosted is None or not rights.may_use(hosted.name):
            raise NotFound(
                f"there is no agent {agent!r} here" if agent else "there is no agent for this token"
            )
        client = GatewayClient(self, connection, rights, hosted)
        self.clients.append(client)
        self.audit.record(rights, "connect", agent=hosted.name, connection=connection.id)
        if self._idle_timer is None:
            self._idle_timer = self.clock.call_later(_IDLE_CHECK_SECONDS, self._stop_idle)
        return client

    def _default_for(self, rights: TokenRights) -> HostedAgent | None:
        if rights.may_use(self.default_agent.name):
            return self.default_agent
        return next((agent for agent in self.agents.values() if rights.may_use(agent.name)), None)

    def remove_client(self, client: GatewayClient) -> None:
        """A client is gone for good; what it asked for goes on."""
        if client in self.clients:
            self.clients.remove(client)
        for session in tuple(client.sessions.values()):
            self.detach(client, session)
        self.pending_requests.remove_client(client)
        self.audit.record(client.rights, "disconnect", connection=client.connection.id)
        self.flush()

    def attach(self, client: GatewayClient, session: LiveSession) -> None:
        """From now on it sees what happens in the session, and what waits in it; unless it has left meanwhile."""
        if not client.connected:
            session.last_detached = self.clock.now()
            return
        client.sessions[session.id] = session
        if client not in session.clients:
            session.clients = (*session.clients, client)
            self.audit.record(client.rights, "attach", agent=session.agent.name, session=session.id)
        for pending in tuple(session.pending_requests.values()):
            self.pending_requests.show(pending, client)
        self.overview.notify_changed(session)

    def detach(self, client: GatewayClient, session: LiveSession) -> None:
        """It sees no more of the session."""
        client.sessions.pop(session.id, None)
        session.clients = tuple(other for other in session.clients if other is not client)
        self.pending_requests.remove_client(client, session)
        session.last_detached = self.clock.now()
        self.overview.notify_changed(session)

    def change_folders(self, session: LiveSession, additional: tuple[str, ...]) -> None:
        """It gets other additional folders: clients whose token does not cover them see no more of it."""
        session.additional = additional
        for client in session.clients:
            if not client.rights.covers(session.agent.name, session.folders):
                self.detach(client, session)

    # -- sending ------------------------------------------------------------------------------------------------

    def post(self, clients: Iterable[GatewayClient], frame: OutgoingFrame, stream: str | None) -> None:
        """Send a frame to these, once everything logged before it is in the file."""
        self._queue.append((clients, frame, stream))
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    def post_in_batch(
        self, clients: Iterable[GatewayClient], frame: OutgoingFrame, stream: str | None
    ) -> None:
        """The same within a batch, whose end flushes."""
        self._queue.append((clients, frame, stream))

    def flush(self) -> None:
        """Write the log, then send what waits for it."""
        self._flushing = False
        queue, self._queue = self._queue, []
        self.sessions.logs.commit()
        for clients, frame, stream in queue:
            for client in clients:
                if client.connected:
                    client.connection.send(frame, stream)

    def send_update(
        self, session: LiveSession, update: SessionUpdate, clients: Iterable[GatewayClient]
    ) -> OutgoingFrame:
        """Send an update of our own to some of those attached, as each of them takes it."""
        frame = _update_frame(session, update)
        for client in clients:
            adapted = client.adapt(update)
            self.post((client,), frame if adapted is update else _update_frame(session, adapted), session.id)
        return frame

    async def wait_until_sent(self, client: GatewayClient, below: int) -> None:
        """Return once less is unsent to this client, or it is gone."""
        pause = 0.001
        while client.connected and client.connection.unsent > below:
            await self.clock.sleep(pause)
            pause = min(pause * 2, 0.1)

    # -- sessions and agents that end ---------------------------------------------------------------------------

    @asynccontextmanager
    async def session_lock(self, agent: str, session_id: str) -> AsyncGenerator[None]:
        """One at a time opens a session."""
        key = (agent, session_id)
        lock = self._session_locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if (
                not lock.locked()
                and self._session_locks.get(key) is lock
                and not getattr(lock, "_waiters", None)
            ):
                del self._session_locks[key]

    def add_new_session(
        self, agent: HostedAgent, session_id: str, cwd: str, additional: tuple[str, ...]
    ) -> LiveSession:
        """The agent has named a new session. If the name was another one's, as with agents that count from one at each
        start, that one is set aside: who saw it does not see this one, and neither is its log continued.
        """
        old = self.sessions.find(agent.name, session_id)
        if old is not None:
            if old.live and old.folders == (cwd, *additional):
                return old  # one session for everybody, says the agent
            self._detach_all(old, "the agent began another session under this name")
            self.start_task(self._release(old))
            self.sessions.forget(old)
        logged = self.sessions.logs.set_aside(agent.name, session_id)
        return self.sessions.add(agent, session_id, cwd, additional, logged=logged)

    async def reserve_session(self, rights: TokenRights) -> LimitLease:
        """A place for one more live session. Where there is none left, sessions that can be loaded again and that nobody uses
        are closed, the longest unused first. Raises LimitReached.
        """
        while True:
            try:
                return self.limit_counter.session(rights)
            except GatewayLimitReached:
                unused_sessions = [
                    session
                    for session in self.sessions
                    if session.lease is not None and session.is_unused and session.agent.can_reopen_sessions
                ]
                if not unused_sessions:
                    raise
                own_unused = [session for session in unused_sessions if session.opened_by == rights.token]
                session = min(own_unused or unused_sessions, key=lambda session: session.last_detached)
                session.release_lease()
                await self.close_session(session)

    async def close_session(self, session: LiveSession) -> None:
        """Nobody needs it: end what runs in it, and let the agent forget it."""
        upstream = session.agent.upstream
        if upstream is not None and session.live:
            self.cancel(session, "the session was closed")
            if session.agent.offers("session/close"):
                try:
                    await upstream.request("session/close", CloseSessionRequest(session.id))
                except AccordError as error:
                    self.log_warning(
                        "session %s of %s was not closed: %s", session.id, session.agent.name, error
                    )
                session.live = False
        await self._release(session)
        self.overview.notify_changed(session)

    def cancel(self, session: LiveSession, reason: str) -> None:
        """What runs in it is to stop, and what waits for an answer is answered so."""
        upstream = session.agent.upstream
        if upstream is not None and session.live and session.running_turns:
            upstream.notify("session/cancel", encode({"sessionId": session.id}))
        self.pending_requests.dismiss(session, reason)

    async def drop_session(self, session: LiveSession) -> None:
        """It is deleted: everybody is detached from it."""
        self._detach_all(session, "the session was deleted")
        await self._release(session)
        self.sessions.forget(session)

    def _detach_all(self, session: LiveSession, reason: str) -> None:
        self.pending_requests.dismiss(session, reason)
        for client in session.clients:
            self.detach(client, session)

    async def _release(self, session: LiveSession) -> None:
        session.release_lease()
        workspace, session.workspace = session.workspace, None
        if workspace is not None:
            await workspace.aclose()

    def _stop_idle(self) -> None:
        """End agents that nobody has needed for long."""
        self._idle_timer = self.clock.call_later(_IDLE_CHECK_SECONDS, self._stop_idle)
        now = self.clock.now()
        for agent in self.agents.values():
            upstream = agent.upstream
            if (
                upstream is None
                or now - agent.last_used < self._idle_seconds
                or upstream.open_calls
                or agent.running_turns
            ):
                continue
            sessions = [session for session in self.sessions.of(agent) if session.live]
            waiting = any(session.pending_requests or session.running_turns for session in sessions)
            needed = any(session.clients for session in sessions)
            if not waiting and (agent.can_reopen_sessions or not needed):
                LOG.info("agent %s has been idle: it is ended", agent.name)
                self.start_task(agent.stop())
        for session in self.sessions:
            if session.is_unused and not session.live and session.key not in self._session_locks:
                self.sessions.forget(session)

    @property
    def busy(self) -> bool:
        """Whether any turn runs."""
        return any(session.running_turns for session in self.sessions)

    async def aclose(self) -> None:
        """End every agent. Bounded; lines are the front's to end."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        await asyncio.gather(*(agent.stop(for_good=True) for agent in self.agents.values()))
        for session in self.sessions:
            await self._release(session)
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.flush()
        for session in self.sessions:
            self.sessions.forget(session)

    def start_task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start some work that belongs to nobody else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def run_to_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work to its end, also if whoever wanted it leaves meanwhile."""
        return await asyncio.shield(self.start_task(work))

    def log_warning(self, text: str, *args: object) -> None:
        """Write a line of the gateway's log."""
        LOG.warning(text, *args)


def _update_frame(session: LiveSession, update: SessionUpdate) -> OutgoingFrame:
    body = encode(SessionNotification(session.id, update))
    return OutgoingFrame(b'{"jsonrpc":"2.0","method":"session/update","params":%s}' % body)
