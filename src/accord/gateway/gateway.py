"""The gateway: hosted agents, connected clients, the sessions between them, the inbox and the session list.

Everything that one read of an agent brings is logged in one transaction and then sent. A frame is encoded
once for all attached clients. Nothing here waits for a client: the HTTP server disconnects slow ones.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final, TypeVar

from accord.clock import SYSTEM_CLOCK, Clock, OwnedTasks
from accord.errors import AccordError, NotFound
from accord.frontend.file_index import FileIndexes
from accord.gateway.access.access_contracts import AuditSink, Browsers, Tokens
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.resource_limits import GatewayLimitReached, LimitCounter, LimitLease
from accord.gateway.agent_events import AgentEvents
from accord.gateway.client_connection import ClientConnection, LoggedFrame, OutgoingFrame
from accord.gateway.client_features import event_body
from accord.gateway.contracts import Book, Fence, close_open_items
from accord.gateway.gateway_client import GatewayClient
from accord.gateway.hosted_agent import AgentSource, HostedAgent
from accord.gateway.live_sessions import LiveSession, LiveSessions
from accord.gateway.mcp_providers import McpProviders
from accord.gateway.methods.method_table import MethodTable
from accord.gateway.metrics import Metrics
from accord.gateway.outbox import Outbox
from accord.gateway.pending_requests import PendingRequests
from accord.gateway.session_overview import SessionOverview
from accord.schema import (
    CloseSessionRequest,
    Notice,
    SessionNotification,
    SessionUpdate,
    ToolCall,
    ToolCallChange,
)
from accord.schema.codec import encode
from accord.session import Event, TurnCancelling, TurnEnded
from accord.session.plain_updates import is_plain, plain_updates
from accord.wire.envelope import Notification

if TYPE_CHECKING:
    from accord.gateway.notifications.notifier import Notifier

LOG = getLogger("accord.gateway")
T = TypeVar("T")

IDLE_SECONDS: Final = 15 * 60.0
"""How long an agent may be unused before it is stopped."""
_IDLE_CHECK_SECONDS: Final = 30.0


class Gateway:
    """Hosts agents for clients. `aclose` stops all agents."""

    def __init__(
        self,
        sources: Sequence[AgentSource],
        book: Book,
        *,
        limit_counter: LimitCounter | None = None,
        audit: AuditSink | None = None,
        metrics: Metrics | None = None,
        idle: float = IDLE_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
        fence: Fence | None = None,
    ) -> None:
        """Without sources, the gateway serves only what needs no agent."""
        self.book: Book = book
        self.outbox: Outbox = Outbox(book)
        self.agent_events: AgentEvents = AgentEvents(self)
        self.agents: dict[str, HostedAgent] = {
            source.name: HostedAgent(source, self.agent_events, clock, fence, book.names)
            for source in sources
        }
        self.default_agent: HostedAgent | None = next(iter(self.agents.values()), None)
        self.sessions: LiveSessions = LiveSessions(book)
        self.overview: SessionOverview = SessionOverview(self)
        self.pending_requests: PendingRequests = PendingRequests(self.overview.on_pending_change)
        self.mcp_providers: McpProviders = McpProviders()
        self.methods: MethodTable = MethodTable()
        self.limit_counter: LimitCounter = limit_counter or LimitCounter()
        self.audit: AuditSink = audit or AuditLog()
        self.metrics: Metrics = metrics or Metrics()
        self.clients: list[GatewayClient] = []
        self.stopping: bool = False
        """Set while the gateway only waits for running turns to end."""
        self.tokens: Tokens | None = None
        """The access tokens, for clients that may manage them."""
        self.browsers: Browsers | None = None
        """The browsers that are logged in with them."""
        self.watch_token: Callable[[TokenRights, Callable[[str], None]], LimitLease] | None = None
        """Calls back when a token is revoked or expires; see `Authenticator.watch_token`."""
        self.on_attachment: Callable[[GatewayClient, LiveSession, bool], None] | None = None
        """Called when a client was attached to a session or detached from it, in a cluster."""
        self.on_session_change: Callable[[LiveSession], None] | None = None
        """Called when the state of a session may have changed, in a cluster."""
        self.agents_elsewhere: Callable[[], Iterable[str]] = tuple
        """The agents that only other nodes of the cluster have."""
        self.notifier: Notifier | None = None
        """Tells users on their devices what happens in the sessions of this gateway."""
        self.start_folder: str | None = None
        """Where new sessions begin, unless a token names folders; None for the user's home folder."""
        self.clock: Clock = clock
        self._idle_seconds = idle
        self._session_locks: dict[tuple[str, str], asyncio.Lock] = {}
        self.file_indexes: FileIndexes = FileIndexes(clock)
        self.search_lock: asyncio.Lock = asyncio.Lock()
        """Held while the search index is brought up to date."""
        self.tasks: OwnedTasks = OwnedTasks()
        self._idle_timer: Any = None

    # -- clients

    def open(self, connection: ClientConnection, rights: TokenRights, agent: str | None) -> GatewayClient:
        """Add a client. Raise NotFound for an unknown agent or one that the token does not cover."""
        hosted = self.agents.get(agent) if agent is not None else self._default_for(rights)
        if hosted is None or not rights.may_use(hosted.name):
            raise NotFound(
                f"unknown agent {agent!r}" if agent else "this token covers no agent of this gateway"
            )
        client = GatewayClient(self, connection, rights, hosted)
        self.clients.append(client)
        self.audit.record(rights, "connect", agent=hosted.name, connection=connection.id)
        if self._idle_timer is None:
            self._idle_timer = self.clock.call_later(_IDLE_CHECK_SECONDS, self._stop_idle)
        return client

    def _default_for(self, rights: TokenRights) -> HostedAgent | None:
        if self.default_agent is not None and rights.may_use(self.default_agent.name):
            return self.default_agent
        return next((agent for agent in self.agents.values() if rights.may_use(agent.name)), None)

    def remove_client(self, client: GatewayClient) -> None:
        """Forget a closed client. Turns that it started continue while its token is valid."""
        if client in self.clients:
            self.clients.remove(client)
        for session in tuple(client.sessions.values()):
            self.detach(client, session)
        self.pending_requests.remove_client(client)
        self.audit.record(client.rights, "disconnect", connection=client.connection.id)
        self.outbox.flush()

    def attach(self, client: GatewayClient, session: LiveSession) -> None:
        """Attach a client to a session and show it the pending requests, if it is still connected."""
        if not client.connected:
            session.last_detach_time = self.clock.now()
            return
        client.sessions[session.id] = session
        session.add_user(client.rights)
        if client not in session.clients:
            session.clients = (*session.clients, client)
            self.audit.record(client.rights, "attach", agent=session.agent.name, session=session.id)
            if self.on_attachment is not None:
                self.on_attachment(client, session, True)
        for pending in tuple(session.pending_requests.values()):
            self.pending_requests.show(pending, client)
        self.report_activity(client, session)
        self.overview.notify_changed(session)

    def report_activity(self, client: GatewayClient, session: LiveSession) -> None:
        """Tell a client that has just attached whether a turn runs, and how the latest one ended."""
        if not client.extensions.get("turn"):
            return
        members: dict[str, object] = {
            "sessionId": session.id,
            "state": "running" if session.running_turns else "idle",
        }
        if session.only_readable and not session.open_at_agent:
            members["readOnly"] = True
        if not session.running_turns and (end := session.last_end) is not None:
            members["stopReason"] = end.stop_reason or end.raw_reason
            if end.error is not None:
                members["error"] = {"code": end.error.code, "message": end.error.message}
        frame = OutgoingFrame(encode(Notification("_accord/turn", members)))
        self.outbox.post((client,), frame, session.id, session.log)

    def detach(self, client: GatewayClient, session: LiveSession) -> None:
        client.sessions.pop(session.id, None)
        if self.on_attachment is not None and client in session.clients:
            self.on_attachment(client, session, False)
        session.clients = tuple(other for other in session.clients if other is not client)
        self.pending_requests.remove_client(client, session)
        session.last_detach_time = self.clock.now()
        self.overview.notify_changed(session)

    def change_folders(self, session: LiveSession, additional_folders: tuple[str, ...]) -> None:
        """Set other additional folders. Detaches the clients whose token does not cover them."""
        session.additional_folders = additional_folders
        for client in session.clients:
            if not client.rights.may_see(session.agent.name, session.id, session.folders):
                self.detach(client, session)

    # -- sending

    def send_update(
        self,
        session: LiveSession,
        update: SessionUpdate,
        clients: Iterable[GatewayClient],
        *,
        is_logged: bool = True,
    ) -> OutgoingFrame:
        """Send an update made by the gateway, adapted to the capabilities of each client.

        `is_logged` is whether it was appended to the log of the session.
        """
        frame_type = LoggedFrame if is_logged else OutgoingFrame
        frame = frame_type(_update_body(session, update))
        for client in clients:
            if isinstance(update, ToolCall | ToolCallChange):
                adapted = client.adapt_call(update, session.terminal_text)
            else:
                adapted = client.adapt(update)
            sent = frame if adapted is update else frame_type(_update_body(session, adapted))
            self.outbox.post((client,), sent, session.id, session.log)
        return frame

    def send_event(
        self,
        session: LiveSession,
        event: Event,
        clients: Iterable[GatewayClient],
        *,
        frame: OutgoingFrame | None = None,
    ) -> None:
        """Send an event that updates of version 1 cannot say. Clients that take no events get what they can
        show.

        `session.note_event` has completed the event. `frame` is its notification, if there is one already.
        """
        others: list[GatewayClient] = []
        taking = [client for client in clients if client.takes_events or others.append(client)]
        if taking:
            frame = LoggedFrame(event_body(session.id, event)) if frame is None else frame
            self.outbox.post(taking, frame, session.id, session.log)
        for update in plain_updates(event, session.latest) if others else ():
            self.send_update(session, update, others, is_logged=False)

    def notify_turn(
        self, session: LiveSession, members: dict[str, object], author: GatewayClient | None = None
    ) -> None:
        """Tell the clients that follow turns of one that began or ended, except the one that asked for it."""
        others = [
            client for client in session.clients if client is not author and client.extensions.get("turn")
        ]
        if others:
            body = encode(Notification("_accord/turn", {"sessionId": session.id, **members}))
            self.outbox.post(others, OutgoingFrame(body), session.id, session.log)

    def on_turn_ended(
        self, session: LiveSession, members: dict[str, object], author: GatewayClient | None = None
    ) -> None:
        """Tell the clients of the end of a turn, and close what belongs to it."""
        self.notify_turn(session, {"state": "ended", **members}, author)
        if not session.running_turns:
            self.pending_requests.cancel_session_requests(session, "the turn ended")
            if self.notifier is not None:
                self.notifier.turn_ended(session)
        self.overview.notify_changed(session)

    async def wait_until_sent(self, client: GatewayClient, max_unsent: int) -> None:
        """Return when at most `max_unsent` bytes are unsent to this client, or when it disconnects."""
        pause = 0.001
        while client.connected and client.connection.unsent > max_unsent:
            await self.clock.sleep(pause)
            pause = min(pause * 2, 0.1)

    # -- sessions and agents that end

    @asynccontextmanager
    async def session_lock(self, agent: str, session_id: str) -> AsyncGenerator[None]:
        """Hold the lock for opening this session: one task at a time opens it."""
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
        self, agent: HostedAgent, session_id: str, cwd: str, additional_folders: tuple[str, ...]
    ) -> LiveSession:
        """Add the session that the agent has just created.

        Some agents reuse ids, for example by counting from 1 at each start. An earlier session with the
        same id is then detached from its clients, and its log is kept under another id.

        Raises InvalidRequest if the session cannot be logged.
        """
        earlier = self.sessions.find(agent.name, session_id)
        if earlier is not None:
            if earlier.is_shared_in((cwd, *additional_folders)):
                return earlier
            self._detach_all(earlier, "the agent started another session with this id")
            self.tasks.start(self._release_resources(earlier))
            self.sessions.forget(earlier)
        return self.sessions.add(agent, session_id, cwd, additional_folders, new=True)

    async def reserve_session(self, rights: TokenRights) -> LimitLease:
        """Count one more live session.

        If the limit is reached, close unused sessions that the agent can reopen, least recently used first.
        Raise GatewayLimitReached if there are none.
        """
        while True:
            try:
                return self.limit_counter.lease_session(rights)
            except GatewayLimitReached:
                unused_sessions = [
                    session
                    for session in self.sessions
                    if session.lease is not None and session.is_unused and session.agent.can_reopen_sessions
                ]
                if not unused_sessions:
                    raise
                own_unused = [session for session in unused_sessions if session.opened_by == rights.token]
                session = min(own_unused or unused_sessions, key=lambda session: session.last_detach_time)
                session.release_lease()
                await self.close_session(session)

    async def close_session(self, session: LiveSession) -> None:
        """Close an unneeded session: cancel its turn and close it at the agent."""
        upstream = session.agent.upstream
        if upstream is not None and session.open_at_agent:
            self.cancel(session, "the session was closed")
            if session.agent.supports("session/close"):
                try:
                    await upstream.request("session/close", CloseSessionRequest(session.id))
                except AccordError as error:
                    self.log_warning(
                        "cannot close session %s of %s: %s", session.id, session.agent.name, error
                    )
                session.open_at_agent = False
        await self._release_resources(session)
        self.overview.notify_changed(session)

    async def release_session(self, session: LiveSession, farewell: OutgoingFrame) -> bool:
        """Close an idle session so that another node can open it; its clients get `farewell` last.

        Return False if it is in use after all.
        """
        async with self.session_lock(*session.key):
            if self.sessions.find(*session.key) is not session or session.is_busy:
                return False
            await self.close_session(session)
            if session.is_busy:
                return False
            clients, session.clients = session.clients, ()
            for client in clients:
                client.sessions.pop(session.id, None)
            self.sessions.forget(session)
            self.outbox.post(clients, farewell, session.id, session.log)
            self.outbox.flush()
        return True

    async def claim_session(self, session: LiveSession) -> None:
        """Wait until this gateway writes to the session's log and what was left open there is closed.

        Raises StoreError.
        """
        while session.needs_claim:
            if session.claim_task is None:
                session.claim_task = self.tasks.start(self._claim(session))
            await asyncio.shield(session.claim_task)

    async def _claim(self, session: LiveSession) -> None:
        try:
            log = session.log
            closing = await (close_open_items(log) if session.owns_log else log.claim())
            session.owns_log, session.needs_claim = True, False
            for event in closing:
                if isinstance(event, TurnEnded):
                    session.last_end = event
                completed = session.note_event(event)
                if is_plain(event):
                    for update in plain_updates(event, session.latest):
                        self.send_update(session, update, session.clients)
                else:
                    self.send_event(session, completed, session.clients)
        finally:
            session.claim_task = None

    def show_notice(self, session: LiveSession, notice: Notice) -> None:
        """Show a notice to the attached clients at once, before what waits for a commit."""
        frame = OutgoingFrame(_update_body(session, notice))
        for client in session.clients:
            if client.connected and client.wants_update(notice):
                client.connection.send([frame], session.id)

    def cancel(self, session: LiveSession, reason: str) -> None:
        """Cancel the running turn and cancel the pending requests of the session."""
        upstream = session.agent.upstream
        session.turn_requests.cancel_turn()
        if upstream is not None and session.open_at_agent and session.running_turns:
            upstream.notify("session/cancel", encode({"sessionId": session.id}))
        self.pending_requests.cancel_session_requests(session, reason)

    def watch_turn(self, session: LiveSession, rights: TokenRights) -> LimitLease | None:
        """Cancel the running turn when this token ends, also if its clients have left, until the lease is
        released. If a client of another token can act in the session, the turn is left to that client.
        """

        def on_token_end(reason: str) -> None:
            others = (client.rights for client in session.clients if client.rights.token != rights.token)
            if not all(other.read_only for other in others):
                return
            LOG.info("session %s of %s: its turn is canceled: %s", session.id, session.agent.name, reason)
            session.log.append(TurnCancelling())
            self.cancel(session, reason)
            self.outbox.flush()

        return None if self.watch_token is None else self.watch_token(rights, on_token_end)

    async def remove_session(self, session: LiveSession) -> None:
        """Remove a deleted session and detach its clients."""
        self._detach_all(session, "the session was deleted")
        await self._release_resources(session)
        self.sessions.forget(session)

    def _detach_all(self, session: LiveSession, reason: str) -> None:
        self.pending_requests.cancel_session_requests(session, reason)
        for client in session.clients:
            self.detach(client, session)

    async def _release_resources(self, session: LiveSession) -> None:
        session.release_lease()
        workspace, session.workspace = session.workspace, None
        if workspace is not None:
            await workspace.aclose()

    def _stop_idle(self) -> None:
        """Stop agents that have been unused for too long, and forget unused sessions."""
        self._idle_timer = self.clock.call_later(_IDLE_CHECK_SECONDS, self._stop_idle)
        for agent in self.agents.values():
            if not agent.is_idle(self._idle_seconds):
                continue
            sessions = [session for session in self.sessions.of(agent) if session.open_at_agent]
            is_busy = any(session.has_work for session in sessions)
            has_clients = any(session.clients for session in sessions)
            if not is_busy and (agent.can_reopen_sessions or not has_clients):
                LOG.info("agent %s: stopping, it was idle", agent.name)
                self.tasks.start(agent.stop())
        for session in self.sessions:
            self.forget_unused(session)

    def forget_unused(self, session: LiveSession) -> None:
        """Forget a session that has no client and that the agent does not have open. Its log stays."""
        if session.is_unused and not session.open_at_agent and session.key not in self._session_locks:
            self.sessions.forget(session)

    @property
    def busy(self) -> bool:
        """Whether any turn runs."""
        return any(session.running_turns for session in self.sessions)

    async def aclose(self) -> None:
        """Stop every agent, in bounded time. The HTTP server closes the client connections."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        self.file_indexes.close()
        await asyncio.gather(*(agent.stop(for_good=True) for agent in self.agents.values()))
        for session in self.sessions:
            await self._release_resources(session)
        await self.tasks.wait()
        self.outbox.flush()
        for session in self.sessions:
            self.sessions.forget(session)

    async def run_to_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine that continues even if its caller is canceled."""
        task = self.tasks.start(work)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # its caller may be gone
        return await asyncio.shield(task)

    def log_warning(self, text: str, *args: object) -> None:
        """Write a warning to the gateway's log."""
        LOG.warning(text, *args)


def _update_body(session: LiveSession, update: SessionUpdate) -> bytes:
    return encode(Notification("session/update", SessionNotification(session.id, update)))
