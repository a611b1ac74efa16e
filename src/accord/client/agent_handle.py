"""`AgentHandle`: one agent from its first start to its end, across restarts.

It holds everything that outlives a single process: the sessions, the handlers, and the tasks that belong to
them.
"""

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

from accord.client.agent_connection import ConnectionSetup, InitializedConnection
from accord.client.agent_requests import AgentRequestRoutes
from accord.client.client_events import AgentEnded, AgentEvent, AgentRestarted
from accord.client.client_options import (
    ClientOptions,
    DialectReport,
    Restarts,
    bounded,
    ignore_failure,
    log_failure,
    observe,
)
from accord.client.elicitation_forms import ElicitationRequests
from accord.client.event_stream import EventQueue, UnreadCounter
from accord.client.handlers import AgentCommand, ClientHandlers, client_capabilities
from accord.client.session_core import SessionCore, SessionSetup
from accord.client.session_registry import SessionRegistry, reattach
from accord.clock import OwnedTasks
from accord.errors import AccordError, ConnectionClosed, HandshakeFailed, RequestTimeout, UsageError
from accord.schema.message_reader import MessageReader
from accord.wire.calls import ConnectionReport
from accord.wire.remote.address import RemoteLauncher
from accord.wire.transport import Transport, TransportEnd

if TYPE_CHECKING:
    from accord.client.remote_agent import RemoteAgent

AgentSource: TypeAlias = AgentCommand | RemoteLauncher | Transport
"""A program or an address, which can be connected again, or a transport, which cannot."""


class AgentHandle:
    """One agent, from `start` to `aclose`."""

    agent: "RemoteAgent"
    """The public object of this agent; it sets itself."""

    def __init__(self, source: AgentSource, handlers: ClientHandlers, options: ClientOptions) -> None:
        self.source: AgentSource = source
        self.handlers: ClientHandlers = handlers
        self.options: ClientOptions = options
        self.user_requests: int = 0
        """Requests of the agent that wait for the user."""
        self.sessions: SessionRegistry = SessionRegistry(self.report)
        self.elicitations: ElicitationRequests = ElicitationRequests(self)
        self._reader = MessageReader(
            strict=options.strict, report=self._report_dialect, active_session=self.sessions.active
        )
        self._routes = AgentRequestRoutes(self, self._reader)
        self._restarts = Restarts(options.restart, options.clock)
        self._restarting: asyncio.Task[Any] | None = None
        self._connection: InitializedConnection | None = None
        self._restart_error: AccordError | None = None  # of the latest restart, if it failed
        self._ended: AgentEnded | None = None  # the latest unexpected end, until the agent runs again
        self._closing = False
        self.tasks: OwnedTasks = OwnedTasks(options.clock, options.buffers.grace, ignore_failure)
        """Tasks that end with this agent at the latest."""
        self._queues: tuple[EventQueue[AgentEvent], ...] = ()

    @property
    def connection(self) -> InitializedConnection:
        """The current connection; it may have ended."""
        assert self._connection is not None, "the agent has been started"
        return self._connection

    @property
    def name(self) -> str:
        """The name that the agent reports, or the name of the program."""
        info = None if self._connection is None else self._connection.initialize_response.agent_info
        if info:
            return info.title or info.name
        return self._program

    @property
    def remote(self) -> bool:
        """Whether the agent is at an address and not a program of this machine."""
        return isinstance(self.source, RemoteLauncher)

    @property
    def _program(self) -> str:
        return str(self.source) if isinstance(self.source, AgentCommand | RemoteLauncher) else "the agent"

    async def start(self) -> None:
        """Start the agent for the first time."""
        self._connection = await self._connect()

    async def ready(self) -> InitializedConnection:
        """The connection to call on. Waits for a restart that is in progress."""
        while self._restarting is not None and not self._restarting.done():
            await asyncio.wait([self._restarting])
        if self._closing:
            raise UsageError("the connection to the agent is closed")
        if self._restart_error is not None:
            raise self._restart_error.with_traceback(None)
        return self.connection

    async def restart(self) -> None:
        """Start the program or connect again, and reopen the sessions."""
        if not isinstance(self.source, AgentCommand | RemoteLauncher):
            raise UsageError(
                "an agent that was connected by a transport cannot be restarted; use connect() instead"
            )
        if self._restarting is None or self._restarting.done():
            self._restarting = self.tasks.start(self._restart())
        await asyncio.shield(self._restarting)

    async def aclose(self) -> None:
        """End the agent and everything that belongs to it. Bounded; can be called twice."""
        self._closing = True
        if self._restarting is not None:
            self._restarting.cancel()
        if self._connection is not None:
            await self._connection.aclose()
        for session in self.sessions:
            await session.end("the client closed the connection")
        await self.tasks.end()
        for queue in self._queues:
            queue.close()

    # -- connections and restarts ----------------------------------------------------------------------------

    async def _connect(self) -> InitializedConnection:
        connections: list[InitializedConnection] = []

        async def connect() -> InitializedConnection:
            connection = InitializedConnection(await self._open_transport(), self._connection_setup())
            connections.append(connection)
            self.sessions.unread.attach(connection.rpc)
            can_rerun = isinstance(self.source, AgentCommand)
            await connection.initialize(
                client_capabilities(self.handlers, self.options.features, can_rerun=can_rerun)
            )
            return connection

        def expired() -> Exception:
            if connections:
                return connections[0].startup_expired()
            action = "reached" if self.remote else "started"
            return RequestTimeout(
                f"{self._program} could not be {action} within {self.options.limits.startup:g} s"
            )

        try:
            return await bounded(connect(), expired, self.options.clock, self.options.limits.startup)
        except BaseException:
            for connection in connections:
                await connection.aclose()
            raise

    async def _open_transport(self) -> Transport:
        transport = self.source
        if isinstance(transport, AgentCommand | RemoteLauncher):
            transport = await transport.start(self.options.on_stderr, self.options.largest_message)
        if self.options.wrap is None:
            return transport
        try:
            return self.options.wrap(transport)
        except BaseException:
            await transport.aclose()
            raise

    def _connection_setup(self) -> ConnectionSetup:
        return ConnectionSetup(
            name=self._program,
            options=self.options,
            reader=self._reader,
            requests=self._routes.requests,
            notifications=self._routes.notifications,
            waiting_for_user=lambda: self.user_requests > 0,
            on_end=self._connection_ended,
        )

    def _connection_ended(self, connection: InitializedConnection, end: TransportEnd) -> None:
        if connection is not self._connection or connection.closing:
            return
        self._agent_ended(connection.end_error(end))
        connection.rpc.cancel_requests()
        self.elicitations.cancel_all()
        if self._restarting is not None and not self._restarting.done():
            return  # it died again while its sessions were reopened; that attempt fails by itself
        pause = (
            self._restarts.next_pause() if isinstance(self.source, AgentCommand | RemoteLauncher) else None
        )
        if pause is not None:
            self._restarting = self.tasks.start(self._restart_after(pause))

    async def _restart_after(self, pause: float | None) -> None:
        while pause is not None:
            await self.options.clock.sleep(pause)
            try:
                await self._restart()
            except AccordError as error:
                if not isinstance(error, ConnectionClosed):
                    error = HandshakeFailed(f"not restarted: {error}")
                self._agent_ended(error)
                pause = self._restarts.next_pause()
            else:
                return

    async def _restart(self) -> None:
        try:
            await self._reconnect()
        except AccordError as error:
            self._restart_error = error
            raise
        self._restart_error = None

    async def _reconnect(self) -> None:
        await self.connection.aclose()
        for session in self.sessions:
            if session.parent is not None:
                await session.end("its parent's agent was restarted")
        self._connection = connection = await self._connect()
        self._ended = None
        self._restarts.count += 1
        event = AgentRestarted(self._restarts.count)
        for session in self.sessions:
            session.listeners.put(event)
        self.put_event(event)
        for session in self.sessions:
            if session.parent is None and session.lost_reason is None:
                await reattach(self, session, connection)

    # -- events ----------------------------------------------------------------------------------------------

    def _agent_ended(self, error: ConnectionClosed) -> None:
        self._ended = event = AgentEnded(error)
        for session in self.sessions:
            session.agent_ended(event)
        self.put_event(event)

    def put_event(self, event: AgentEvent) -> None:
        """Put an event into the queues of `RemoteAgent.events`."""
        for queue in self._queues:
            queue.put(event, 0)

    def open_queue(self) -> EventQueue[AgentEvent]:
        """Add a queue for the events of the agent from now on. If the agent has ended, that comes first."""
        queue: EventQueue[AgentEvent] = EventQueue(UnreadCounter())
        if self._ended is not None:
            queue.put(self._ended, 0)
        if self._closing:
            queue.close()
        self._queues += (queue,)
        return queue

    def remove_queue(self, queue: EventQueue[AgentEvent]) -> None:
        """Remove a queue."""
        self._queues = tuple(other for other in self._queues if other is not queue)

    def add_child(self, parent: SessionCore, session_id: str) -> None:
        """Register a child session that its parent announced, so that its updates and requests are served."""
        if session_id != parent.id and self.sessions.find(session_id) is None:
            cwd, extra = parent.state.roots_of(session_id) or (parent.setup.cwd, [])
            self.sessions.add(SessionCore(self, session_id, SessionSetup(cwd, tuple(extra)), parent))

    def report(self, detail: str) -> None:
        """Report a tolerated problem of the client to the observer."""
        observe(self.options, ConnectionReport("failed", detail))

    def report_failure(self, what: str, error: Exception) -> None:
        """Log the exception of a function of the application with its traceback, and report it."""
        log_failure(what, error)
        self.report(f"{what} raised {type(error).__name__}: {error}")

    def _report_dialect(self, row: int, text: str) -> None:
        observe(self.options, DialectReport(row, text))
