"""`AgentHandle`: one agent from its first start to its end, across restarts.

It holds everything that outlives a single process: the sessions, the handlers, and the tasks that belong to
them.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeAlias

from accord.client.agent_connection import ConnectionSetup, InitializedConnection
from accord.client.agent_lifecycle import AgentLifecycle, Handshake
from accord.client.agent_requests import AgentRequestRoutes
from accord.client.client_events import AgentEnded, AgentEvent, AgentRestarted
from accord.client.client_options import ClientOptions, DialectReport, log_failure, observe
from accord.client.elicitation_forms import ElicitationRequests
from accord.client.event_stream import EventQueue, UnreadCounter
from accord.client.handlers import AgentCommand, ClientHandlers, client_capabilities
from accord.client.session_core import SessionCore, SessionSetup
from accord.client.session_registry import SessionRegistry, reattach
from accord.errors import AccordError, ConnectionClosed, UsageError
from accord.schema import InitializeResponse, Notice
from accord.schema.message_reader import MessageReader
from accord.wire.calls import ConnectionReport
from accord.wire.remote.address import RemoteLauncher
from accord.wire.transport import Transport, TransportEnd

if TYPE_CHECKING:
    from accord.client.remote_agent import RemoteAgent
    from accord.client.session_subscription import SessionSubscription

AgentEndpoint: TypeAlias = AgentCommand | RemoteLauncher | Transport
"""A program or an address, which can be connected again, or a transport, which cannot."""


class AgentHandle(AgentLifecycle[InitializedConnection]):
    """One agent, from `start` to `aclose`."""

    agent: "RemoteAgent"
    """The public object of this agent; it sets itself."""

    def __init__(self, source: AgentEndpoint, handlers: ClientHandlers, options: ClientOptions) -> None:
        can_restart = isinstance(source, AgentCommand | RemoteLauncher)
        super().__init__(
            options.clock,
            options.limits.startup,
            restart=options.restart if can_restart else None,
            grace=options.buffers.grace,
        )
        self.source: AgentEndpoint = source
        self._start_verb = "reached" if self.remote else "started"
        self.handlers: ClientHandlers = handlers
        self.options: ClientOptions = options
        self.user_requests: int = 0
        """Requests of the agent that wait for the user."""
        self.subscriptions: dict[str, SessionSubscription] = {}
        """Who follows the list of sessions, by the id that the agent gave."""
        self.sessions: SessionRegistry = SessionRegistry(self.report)
        self.elicitations: ElicitationRequests = ElicitationRequests(self)
        self._reader = MessageReader(
            strict=options.strict, report=self._report_dialect, active_session=self.sessions.active
        )
        self._routes = AgentRequestRoutes(self, self._reader)
        self._ended: AgentEnded | None = None  # the latest unexpected end, until the agent runs again
        self._queues: tuple[EventQueue[AgentEvent], ...] = ()

    @property
    def connection(self) -> InitializedConnection:
        """The current connection; it may have ended."""
        assert self._connection is not None, "the agent has been started"
        return self._connection

    @property
    def name(self) -> str:
        """The name that the agent reports, or the name of the program."""
        info = self._initialize_response.agent_info if self._initialize_response else None
        return (info.title or info.name) if info else self._program

    @property
    def remote(self) -> bool:
        """Whether the agent is at an address and not a program of this machine."""
        return isinstance(self.source, RemoteLauncher)

    @property
    def _program(self) -> str:
        if isinstance(self.source, AgentCommand):
            return self.source.program_name
        return str(self.source) if isinstance(self.source, RemoteLauncher) else "the agent"

    async def restart(self) -> None:
        """Start the program or connect again, and reopen the sessions."""
        if not isinstance(self.source, AgentCommand | RemoteLauncher):
            raise UsageError(
                "an agent that was connected by a transport cannot be restarted; use connect() instead"
            )
        await super().restart()

    async def aclose(self) -> None:
        """End the agent and everything that belongs to it. Bounded; can be called twice."""
        await self.stop(for_good=True)
        for session in self.sessions:
            await session.end("the client closed the connection")
        await self.tasks.end()
        for queue in self._queues:
            queue.close()

    # -- connections and restarts ----------------------------------------------------------------------------

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

    def _make_connection(self, transport: Transport, handshake: Handshake) -> InitializedConnection:
        setup = ConnectionSetup(
            options=self.options,
            reader=self._reader,
            requests=self._routes.requests,
            notifications=self._routes.notifications,
            waiting_for_user=lambda: self.user_requests > 0,
            on_end=self._connection_ended,
        )
        connection = InitializedConnection(transport, setup, handshake)
        self.sessions.unread.attach(connection.rpc.pressure, connection.rpc.new_waiter)
        return connection

    def _initialize(self, connection: InitializedConnection) -> Awaitable[InitializeResponse]:
        can_rerun = isinstance(self.source, AgentCommand)
        return connection.initialize(
            client_capabilities(self.handlers, self.options.features, can_rerun=can_rerun)
        )

    def _stopped_error(self) -> AccordError:
        return UsageError("the connection to the agent is closed")

    def _connection_ended(self, connection: InitializedConnection, end: TransportEnd) -> None:
        if not connection.closing:
            self.connection_ended(connection, end)

    def _process_ended(self, connection: InitializedConnection, end: TransportEnd) -> None:
        self._agent_ended(connection.end_error(end))
        connection.rpc.cancel_requests()
        self.elicitations.cancel_all()

    def _restart_failed(self, error: ConnectionClosed) -> None:
        self._agent_ended(error)

    async def _before_restart(self) -> None:
        for session in self.sessions:
            if session.parent is not None:
                await session.end("its parent's agent was restarted")

    async def _restarted(self, connection: InitializedConnection, count: int) -> None:
        self._ended = None
        event = AgentRestarted(count)
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
        if self._stopped_for_good:
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

    def show_notice(self, session_id: str, notice: Notice) -> None:
        """Pass on a notice about a session that is being opened."""
        if self.options.on_notice is None:
            return
        try:
            self.options.on_notice(session_id, notice)
        except Exception as error:  # noqa: BLE001 - the boundary to a function of the application
            self.report_failure("ClientOptions.on_notice", error)

    def report(self, detail: str) -> None:
        """Report a tolerated problem of the client to the observer."""
        observe(self.options, ConnectionReport("failed", detail))

    def report_failure(self, what: str, error: Exception) -> None:
        """Log the exception of a function of the application with its traceback, and report it."""
        log_failure(what, error)
        self.report(f"{what} raised {type(error).__name__}: {error}")

    def _report_dialect(self, row: int, text: str) -> None:
        observe(self.options, DialectReport(row, text))
